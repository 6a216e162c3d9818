import errno
import hashlib
import os
from pathlib import Path

import pytest

from pipeline.documents.files import list_files
from pipeline.documents.input_files import Listing


def listing(folder: Path, kept: str = "") -> Listing:
    return list_files(str(folder), "**/*", kept=kept)


def test_control_characters_of_a_name_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31m.txt"
    path.write_text("one")
    [file] = listing(tmp_path).files
    assert (file.path, file.name) == (path, "a\\x0ab\\x1b[31m.txt")


def test_the_version_changes_with_an_edit_that_keeps_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    state = path.stat()
    before = listing(tmp_path)
    assert before.version == listing(tmp_path).version
    path.write_text("two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert listing(tmp_path).version != before.version


@pytest.mark.parametrize(
    ("error", "known"), [(errno.EIO, False), (errno.ESTALE, False), (errno.EACCES, True)]
)
def test_a_transient_error_leaves_the_digest_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, known: bool
) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("two")

    def fail(*given: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(hashlib, "file_digest", fail)
    assert bool(listing(tmp_path).digest) == known


def test_folders_are_walked_as_deep_as_they_go(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(600):
        folder = folder / "d"
        folder.mkdir()
    (folder / "a.txt").write_text("one")
    (tmp_path / "d" / "b.txt").write_text("two")
    (tmp_path / "c.txt").write_text("three")
    names = [file.name for file in list_files(str(tmp_path), "**/*.txt").files]
    assert names == ["c.txt", "d/b.txt", "d/" * 600 + "a.txt"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*", ["a.md", "a.txt", "x/b.txt", "x/y/c.txt"]),
        ("**", ["a.md", "a.txt", "x/b.txt", "x/y/c.txt"]),
        ("*.txt", ["a.txt"]),
        ("**/*.txt", ["a.txt", "x/b.txt", "x/y/c.txt"]),
        ("**/x/**/*.txt", ["x/b.txt", "x/y/c.txt"]),
        ("*/*", ["x/b.txt"]),
        ("x/**", ["x/b.txt", "x/y/c.txt"]),
        ("**/**/y/?.txt", ["x/y/c.txt"]),
    ],
)
def test_the_files_of_a_pattern_are_listed(tmp_path: Path, pattern: str, found: list[str]) -> None:
    for name in ("a.md", "a.txt", "x/b.txt", "x/y/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [file.name for file in list_files(str(tmp_path), pattern).files] == found
