"""The files below the input folder that are to be read, and a digest over them."""

import hashlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import SettingsError
from pipeline.text import digest

_JUNK = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_SETTLED_AFTER = 3.0
"""Seconds. A file system's clock goes in steps of up to two, within which two contents can have the same times."""


@dataclass(frozen=True)
class InputFile:
    """``name``: its POSIX path below the folder, control characters escaped. ``fault``: reason and message if it is
    not to be read."""

    path: Path
    name: str
    fault: tuple[str, str] | None = None

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()


def input_files(folder: str, pattern: str) -> list[InputFile]:
    """Files below ``folder`` that match the glob pattern, by name; hidden files and system junk are left out.

    Raises SettingsError when there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        fact = "is not a folder" if root.exists() else "no such folder"
        raise SettingsError(f"{folder}: {fact}; create it or set input.path")
    return sorted(_matching(root, pattern), key=lambda file: file.name)


def files_digest(files: list[InputFile]) -> str:
    """Over names and contents; a file that cannot be read counts by its name and why."""
    parts = [part for file in files for part in (file.name, _content(file))]
    return digest(*parts)


def _matching(root: Path, pattern: str) -> Iterator[InputFile]:
    real_root = root.resolve()
    yield from _closed_folders(root)
    for path in root.glob(pattern):
        below = path.parts[len(root.parts) :]
        if _is_hidden(below):
            continue
        name = _one_line("/".join(below))
        if path.is_symlink() and not _real_path(path).is_relative_to(real_root):
            yield InputFile(path, name, ("outside", "a link out of the input folder; copy the file"))
        elif path.is_file():
            yield InputFile(path, name)
        elif not path.is_dir():
            yield InputFile(path, name, ("unreadable", "not a regular file; remove it"))


def _one_line(name: str) -> str:
    """What a file system takes and neither a table nor a terminal should be given, as an escape."""
    encoded = name.encode("utf-8", "backslashreplace").decode()
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", encoded)


def _closed_folders(root: Path) -> Iterator[InputFile]:
    """Folders that may not be listed: a glob would pass over them without a word, as if they were empty."""
    closed: list[OSError] = []
    for _ in os.walk(root, onerror=closed.append):
        pass
    for error in closed:
        path = Path(error.filename)
        reason = f"{error.strerror}; allow reading the folder or remove it"
        yield InputFile(path, path.relative_to(root).as_posix(), ("unreadable", reason))


def _is_hidden(below: tuple[str, ...]) -> bool:
    return any(part.startswith(".") or part in _JUNK for part in below)


def _real_path(path: Path) -> Path:
    return Path(os.path.realpath(path))


@dataclass(frozen=True, slots=True)
class _Version:
    """A file's content as the file system tells it apart."""

    inode: int
    size: int
    modified: int
    changed: int


_DIGESTS: dict[str, tuple[_Version, str]] = {}


def _content(file: InputFile) -> str:
    if file.fault:
        return file.fault[0]
    try:
        return _file_digest(file.path)
    except OSError:
        return "unreadable"


def _file_digest(path: Path) -> str:
    """A file is read once a process for as long as it stays as it is."""
    state = path.stat()
    version = _Version(state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    before, digest = _DIGESTS.get(str(path), (None, ""))
    if version == before:
        return digest
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if time.time() - max(state.st_mtime, state.st_ctime) > _SETTLED_AFTER:
        _DIGESTS[str(path)] = version, digest
    return digest
