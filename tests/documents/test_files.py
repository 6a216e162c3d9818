import os
from pathlib import Path

import pytest

from pipeline.documents import files
from pipeline.documents.files import files_digest, input_files


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
