"""A project has one id in a cache that others use too."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import DataError
from pipeline.runs.owner import OWNER_FILE, PLACE_FILE, owner_of, settle


def test_an_owner_is_created_once_and_kept_when_the_folder_is_moved(tmp_path: Path):
    first = owner_of(tmp_path / "a")
    assert first == owner_of(tmp_path / "a") != owner_of(tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "c")
    assert owner_of(tmp_path / "c") == first
    assert [path.name for path in (tmp_path / "c/data").iterdir()] == ["owner"]


def test_processes_that_start_together_share_one_owner(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from pipeline.runs.owner import owner_of;"
        " sys.stdin.readline(); "
    )
    command = [sys.executable, "-c", code + "print(owner_of(Path(sys.argv[1])))", str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    owners = {process.communicate("go\n")[0] for process in processes}
    assert owners == {f"{owner_of(tmp_path)}\n"}


def test_an_empty_owner_file_is_an_error(tmp_path: Path):
    owner_of(tmp_path)
    (tmp_path / OWNER_FILE).write_text("")
    with pytest.raises(DataError, match="data/owner: empty; restore it"):
        owner_of(tmp_path)


def test_only_a_damaged_owner_file_is_restored_from_its_second_copy(tmp_path: Path):
    owner = owner_of(tmp_path)
    settle(tmp_path)
    path = tmp_path / OWNER_FILE
    flipped = owner[:5] + ("0" if owner[5] != "0" else "1") + owner[6:]
    for damaged in (b"", owner[:9].encode(), flipped.encode(), b"\xff\xfe" + owner.encode()):
        path.write_bytes(damaged)
        assert owner_of(tmp_path) == owner, damaged
        assert path.read_text(encoding="utf-8") == f"{owner}\n"
    path.unlink()
    assert owner_of(tmp_path) == owner
    path.write_text("f" * 32)
    with pytest.raises(
        DataError,
        match=f"data/owner: {'f' * 32}, but data/owner-path has {owner}; move the wrong one",
    ):
        owner_of(tmp_path)


def test_a_damaged_second_copy_is_reported_and_written_again(tmp_path: Path):
    owner = owner_of(tmp_path)
    settle(tmp_path)
    path = tmp_path / PLACE_FILE
    whole = path.read_bytes()
    for damaged in (b"", whole[:20], whole.replace(owner[:4].encode(), b"zzzz")):
        path.write_bytes(damaged)
        assert owner_of(tmp_path) == owner
        settle(tmp_path)
        assert path.read_bytes() == whole
    path.write_text(f"{tmp_path}\n")  # of an earlier version
    settle(tmp_path)
    assert path.read_bytes() == whole
