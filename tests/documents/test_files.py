import errno
import hashlib
import os
from pathlib import Path

import pytest

from pipeline.documents import files
from pipeline.documents.files import files_digest, files_version, input_files


def digest_of(folder: Path) -> str:
    return files_digest(input_files(str(folder), "**/*"))


def test_an_edit_that_keeps_size_and_time_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SETTLED_AFTER", -1e9)
    path = tmp_path / "a.txt"
    path.write_text("one")
    state = path.stat()
    before = digest_of(tmp_path)
    assert str(path) in files._DIGESTS
    assert digest_of(tmp_path) == before
    path.write_text("two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert digest_of(tmp_path) != before


def test_a_file_that_has_just_been_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    digest_of(tmp_path)
    assert str(path) not in files._DIGESTS


def test_control_characters_of_a_name_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31m.txt"
    path.write_text("one")
    [file] = input_files(str(tmp_path), "**/*")
    assert (file.path, file.name) == (path, "a\\x0ab\\x1b[31m.txt")


def test_a_version_is_another_after_an_edit_that_keeps_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    state = path.stat()
    found = input_files(str(tmp_path), "**/*")
    before = files_version(found)
    path.write_text("two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert files_version(found) != before


@pytest.mark.parametrize(("error", "known"), [(errno.EIO, False), (errno.ESTALE, False), (errno.EACCES, True)])
def test_what_may_pass_is_no_sure_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, known: bool
) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("two")
    found = input_files(str(tmp_path), "**/*")

    def fail(*given: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(hashlib, "file_digest", fail)
    assert bool(files_digest(found)) == known


def test_folders_are_walked_as_deep_as_they_go(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(600):
        folder = folder / "d"
        folder.mkdir()
    (folder / "a.txt").write_text("one")
    (tmp_path / "d" / "b.txt").write_text("two")
    (tmp_path / "c.txt").write_text("three")
    names = [file.name for file in input_files(str(tmp_path), "**/*.txt")]
    assert names == ["c.txt", "d/b.txt", "d/" * 600 + "a.txt"]
