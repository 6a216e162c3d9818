import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.documents import file_hashes
from pipeline.documents.file_hashes import SETTLED_AFTER, hashed, is_settled, state_of
from pipeline.documents.files import list_files

REAL = hashlib.file_digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "input"
    place.mkdir()
    for name in "abc":
        (place / f"{name}.txt").write_text(f"Text of {name}")
    return place


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that names the files as they are hashed; all count as written long ago."""
    names: list[str] = []

    def noted(stream: Any, algorithm: str) -> object:
        names.append(Path(stream.name).name)
        return REAL(stream, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    monkeypatch.setattr(file_hashes, "SETTLED_AFTER", -1e9)
    return names


def night(folder: Path) -> str:
    """List the files as a new process would."""
    file_hashes._MET.clear()
    return list_files(str(folder), "**/*", kept=str(folder.parent / "kept")).digest


def test_a_file_is_read_again_after_it_was_written(folder: Path, read: list[str]):
    before = night(folder)
    assert (sorted(read), night(folder)) == (["a.txt", "b.txt", "c.txt"], before)
    read.clear()
    (folder / "b.txt").write_text("Text of B")
    assert night(folder) != before
    assert read == ["b.txt"]


def test_an_edit_that_keeps_size_and_time_is_seen(folder: Path, read: list[str]):
    before, state = night(folder), (folder / "b.txt").stat()
    (folder / "b.txt").write_text("Text of x")
    os.utime(folder / "b.txt", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert night(folder) != before


def test_another_file_put_in_its_place_with_its_times_is_seen(folder: Path, read: list[str]):
    """Replace a file as rsync -t, cp -p and tar do."""
    before = night(folder)
    other = folder.parent / "other.txt"
    other.write_text("Text of x")
    shutil.copystat(folder / "b.txt", other)
    other.rename(folder / "b.txt")
    assert night(folder) != before
    two = night(folder)
    os.rename(folder / "a.txt", folder / "z.txt")
    os.rename(folder / "b.txt", folder / "a.txt")
    os.rename(folder / "z.txt", folder / "b.txt")
    assert night(folder) not in (before, two)


def test_a_file_that_was_written_just_now_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]
):
    monkeypatch.setattr(file_hashes, "SETTLED_AFTER", 3600.0)
    assert night(folder) == night(folder)
    assert sorted(read) == sorted(2 * ["a.txt", "b.txt", "c.txt"])
    hashed(folder / "a.txt")
    assert str(folder / "a.txt") not in file_hashes._MET


def test_a_state_is_settled_once_no_later_write_can_leave_the_same(folder: Path):
    state = (folder / "a.txt").stat()
    assert not is_settled(state_of(state), time.time())
    assert is_settled(state_of(state), state.st_mtime + SETTLED_AFTER + 0.1)
    os.utime(folder / "a.txt", (0, 0))
    assert not is_settled(state_of((folder / "a.txt").stat()), time.time())


@pytest.mark.parametrize("damage", [b"", b"nothing of ours", None])
def test_a_damaged_list_is_ignored(folder: Path, read: list[str], damage: bytes | None):
    before = night(folder)
    [kept] = (folder.parent / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1] + b"\0" if damage is None else damage)
    read.clear()
    assert night(folder) == before
    assert len(read) == 3
    read.clear()
    assert night(folder) == before
    assert read == []


def test_a_list_that_cannot_be_written_is_no_error(folder: Path, read: list[str]):
    (folder.parent / "kept").write_text("a file where the folder should be")
    assert night(folder) == night(folder)


def test_the_list_has_no_names_and_no_deleted_files(folder: Path, read: list[str]):
    night(folder)
    [kept] = (folder.parent / "kept").iterdir()
    size = kept.stat().st_size
    assert b"a.txt" not in kept.read_bytes()
    (folder / "a.txt").unlink()
    night(folder)
    assert kept.stat().st_size < size


def test_a_process_reads_each_file_once(folder: Path, read: list[str]):
    assert hashed(folder / "a.txt") == hashed(folder / "a.txt")
    assert read == ["a.txt"]
