"""The files below the input folder that are to be read, and a digest over them."""

import errno
import hashlib
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from pathlib import Path, PurePath

from pipeline.errors import SettingsError
from pipeline.text.ids import digest

_JUNK = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LOCK = re.compile("|".join(map(translate, ("~$*", ".#*", ".*.sw[op]", "*.sw[op]", "*~"))))
ANY_FOLDERS = "**"
CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG})
"""Errors that stay until somebody mends them, and that a file's stamp knows of; others may pass."""
LOCK_FILE = ("lock_file", "a lock or backup file of an editor; nothing to do")
_OUTSIDE = ("outside", "a link out of the input folder; copy what it leads to")
_UNMOUNTED = ("unmounted", "was a mount point and is an empty folder; mount it, or remove the folder")
_FAULTS = {
    "link out": _OUTSIDE,
    "link to a folder outside": _OUTSIDE,
    "other": ("unreadable", "not a regular file; remove it"),
}
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


def input_files(folder: str, pattern: str, mounts: Collection[str] = ()) -> list[InputFile]:
    """Files below ``folder`` that match the glob pattern, by name; hidden files and system junk are left out. A folder
    that cannot be listed is among them, with its fault; the input folder itself is ".". So is one of ``mounts``, which
    were mount points once, that is none any more and has nothing in it.

    Raises SettingsError when there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        fact = "is not a folder" if root.exists() else "no such folder"
        raise SettingsError(f"{folder}: {fact}; create it or set input.path")
    walk = _Walk(root, root.resolve(), PurePath(pattern).parts)
    found = list(walk.files())
    found += [InputFile(root / name, name, _UNMOUNTED) for name in mounts if _is_bare(root, name, found)]
    return sorted(found, key=lambda file: (file.name, file.path))


def mounts_below(folder: str, pattern: str, before: Collection[str]) -> tuple[str, ...]:
    """Names of the folders that are mount points and have such files below them, and of those of ``before`` that are
    mounted no more and have nothing in them. Raises SettingsError when there is no such folder."""
    root, found = Path(folder), input_files(folder, pattern)
    folders: set[Path] = set()
    for file in found:
        place = file.path.parent
        while place != root and place not in folders:
            folders.add(place)
            place = place.parent
    mounted = {place.relative_to(root).as_posix() for place in folders if os.path.ismount(place)}
    return tuple(sorted({*filter(_is_plain, mounted), *(name for name in before if _is_bare(root, name, found))}))


def _is_bare(root: Path, name: str, found: Iterable[InputFile]) -> bool:
    """Whether the folder is there, is no mount point and has no file below it that is to be read."""
    place = root / name
    if not os.path.isdir(place) or os.path.ismount(place):
        return False
    return not any(file.name == name or file.name.startswith(f"{name}/") for file in found)


def _is_plain(name: str) -> bool:
    return name == one_line(name)


def files_digest(files: list[InputFile]) -> str:
    """Over names and contents; a file that cannot be read counts by its name and why. Empty where the reason may pass:
    what is there is not known then."""
    contents = [_content(file) for file in files]
    known = [content for content in contents if content is not None]
    if len(known) < len(contents):
        return ""
    return digest(*(part for file, content in zip(files, known, strict=True) for part in (file.name, content)))


@dataclass(frozen=True)
class _Walk:
    """One pass over the folder: what a listing that fails half way would have named must not seem to be gone."""

    root: Path
    real_root: Path
    pattern: tuple[str, ...]

    def files(self) -> Iterator[InputFile]:
        """As deep as a file system goes: a folder that is met waits for its turn."""
        waiting = [(_Place(self.root, ()), frozenset({0}))]
        while waiting:
            folder, places = waiting.pop()
            try:
                with os.scandir(folder.path) as listed:
                    entries = list(listed)
            except OSError as error:
                yield InputFile(folder.path, folder.name or ".", not_read(error))
                continue
            for entry in entries:
                after = self._after(places, entry.name)
                if not after or _is_left_out(entry.name):
                    continue
                found = _Place(folder.path / entry.name, (*folder.below, entry.name))
                try:
                    kind = _kind(entry, self.real_root)
                except OSError as error:
                    yield InputFile(found.path, found.name, not_read(error))
                    continue
                if kind == "folder" or (kind == "link to a folder" and self._is_named(places, entry.name)):
                    waiting.append((found, after - {len(self.pattern)}))
                elif (len(self.pattern) in after and kind != "link to a folder") or kind == "link to a folder outside":
                    yield InputFile(found.path, found.name, LOCK_FILE if _is_lock(entry.name) else _FAULTS.get(kind))

    def _after(self, places: frozenset[int], name: str) -> frozenset[int]:
        """The places that may match what comes after this name; with the pattern's length among them, it ends here."""
        found: set[int] = set()
        for place in places:
            if place < len(self.pattern) and self.pattern[place] == ANY_FOLDERS:
                found |= {place} | ({place + 1} if place + 1 == len(self.pattern) else set())
                found |= self._after(frozenset({place + 1}), name)
            elif place < len(self.pattern) and fnmatchcase(name, self.pattern[place]):
                found.add(place + 1)
        return frozenset(found)

    def _is_named(self, places: frozenset[int], name: str) -> bool:
        """Whether a part of the pattern other than ** names it: links to folders are followed then only."""
        return any(
            place < len(self.pattern) - 1
            and self.pattern[place] != ANY_FOLDERS
            and fnmatchcase(name, self.pattern[place])
            for place in places
        )


@dataclass(frozen=True)
class _Place:
    """``below``: its names below the input folder."""

    path: Path
    below: tuple[str, ...]

    @property
    def name(self) -> str:
        return one_line("/".join(self.below))


def _kind(entry: os.DirEntry[str], real_root: Path) -> str:
    """Raises OSError where that cannot be found out."""
    if entry.is_symlink():
        if not _real_path(entry.path).is_relative_to(real_root):
            return "link to a folder outside" if entry.is_dir() else "link out"
        return "link to a folder" if entry.is_dir() else "file" if entry.is_file() else "other"
    return "folder" if entry.is_dir() else "file" if entry.is_file() else "other"


def not_read(error: OSError) -> tuple[str, str]:
    """Reason and message of a file or folder whose reading failed."""
    reason = "unreadable" if error.errno in CLOSED else "io_error"
    return reason, f"{error.strerror or error}; allow reading it or remove it"


def _is_left_out(name: str) -> bool:
    return name in _JUNK or (name.startswith(".") and not _is_lock(name))


def _is_lock(name: str) -> bool:
    return _LOCK.match(name) is not None


def one_line(name: str) -> str:
    """What a file system takes and neither a table nor a terminal should be given, as an escape."""
    encoded = name.encode("utf-8", "backslashreplace").decode()
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", encoded)


def _real_path(path: str) -> Path:
    return Path(os.path.realpath(path))


@dataclass(frozen=True, slots=True)
class _Version:
    """A file's content as the file system tells it apart."""

    inode: int
    size: int
    modified: int
    changed: int


_DIGESTS: dict[str, tuple[_Version, str]] = {}


def files_version(files: list[InputFile]) -> str:
    """Over names and what the file system says of each: changes whenever one is written, also to what it was before."""
    return digest(*(part for file in files for part in (file.name, _state(file))))


def _state(file: InputFile) -> str:
    if file.fault:
        return file.fault[0]
    try:
        state = file.path.stat()
    except OSError:
        return "unreadable"
    return f"{state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}"


def _content(file: InputFile) -> str | None:
    if file.fault:
        return None if file.fault[0] == "io_error" else file.fault[0]
    try:
        return file_digest(file.path)
    except OSError as error:
        return "unreadable" if error.errno in CLOSED else None


def file_digest(path: Path) -> str:
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
