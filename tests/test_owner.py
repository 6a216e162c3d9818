"""A project's id in a cache that others use too."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import DataError
from pipeline.owner import OWNER_FILE, owner_of


def test_made_once_and_kept_when_the_folder_is_moved(tmp_path: Path):
    first = owner_of(tmp_path / "a")
    assert first == owner_of(tmp_path / "a") != owner_of(tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "c")
    assert owner_of(tmp_path / "c") == first
    assert [path.name for path in (tmp_path / "c/data").iterdir()] == ["owner"]


def test_processes_that_come_together_have_one(tmp_path: Path):
    code = "import sys; from pathlib import Path; from pipeline.owner import owner_of; sys.stdin.readline(); "
    command = [sys.executable, "-c", code + "print(owner_of(Path(sys.argv[1])))", str(tmp_path)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    owners = {process.communicate("go\n")[0] for process in processes}
    assert owners == {f"{owner_of(tmp_path)}\n"}


def test_an_empty_file_is_said(tmp_path: Path):
    owner_of(tmp_path)
    (tmp_path / OWNER_FILE).write_text("")
    with pytest.raises(DataError, match="data/owner: empty; restore it"):
        owner_of(tmp_path)
