"""The files below the input folder that are to be read: one walk, and what the file system says of
each."""

import errno
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate
from functools import cache, cached_property
from pathlib import Path, PurePath, PurePosixPath

from pipeline.documents.file_hashes import (
    hashed,
    is_settled,
    keep_hashes,
    kept_hashes,
    key_of,
    state_of,
)
from pipeline.errors import SettingsError
from pipeline.text.ids import digest

_JUNK = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LOCK = re.compile("|".join(map(translate, ("~$*", ".#*", ".*.sw[op]", "*.sw[op]", "*~"))))
ANY_FOLDERS, ANY_NAME = "**", "*"
CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG})
"""Errors that stay until somebody mends them, and that a file's stamp knows of; others may pass."""
LOCK_FILE = ("lock_file", "a lock or backup file of an editor; nothing to do")
_OUTSIDE = ("outside", "a link out of the input folder; copy what it leads to")
_UNMOUNTED = (
    "unmounted",
    "was a mount point and is an empty folder; mount it, or remove the folder",
)
_FAULTS = {
    "link out": _OUTSIDE,
    "link to a folder outside": _OUTSIDE,
    "other": ("unreadable", "not a regular file; remove it"),
}
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class InputFile:
    """``name``: its POSIX path below the folder, control characters escaped. ``fault``: reason and
    message if it is not to be read. ``state``: what the file system says of it (file_hashes.py),
    empty where that cannot be told."""

    place: str
    name: str
    fault: tuple[str, str] | None = None
    state: bytes = b""

    @property
    def path(self) -> Path:
        return Path(self.place)

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()


@dataclass(frozen=True)
class Listing:
    """Files as they were found at one moment, by name. ``mounts``: the folders that are mount
    points and have such files below them, and those that were and are bare now, or could not be
    listed; ``kept``: the file in which hashes are kept from night to night, if they are."""

    files: tuple[InputFile, ...]
    mounts: tuple[str, ...] = ()
    moment: float = field(default=0.0, compare=False)
    kept: Path | None = field(default=None, compare=False)

    @cached_property
    def contents(self) -> tuple[str | None, ...]:
        """Of each file the hash of its content; of one that cannot be read why, None where the
        reason may pass."""
        kept = kept_hashes(self.kept) if self.kept else {}
        keys = [key_of(file.name, file.state) for file in self.files]
        found: list[str | None] = []
        settled: dict[bytes, str] = {}
        for file, key in zip(self.files, keys, strict=True):
            state, content = (file.state, kept[key]) if key in kept else self._content(file)
            found.append(content)
            if content and state and state == file.state and is_settled(state, self.moment):
                settled[key] = content
        if self.kept and settled != kept:
            keep_hashes(self.kept, settled)
        return tuple(found)

    def _content(self, file: InputFile) -> tuple[bytes, str | None]:
        """And the state of what was hashed."""
        if file.fault:
            return b"", None if file.fault[0] == "io_error" else file.fault[0]
        try:
            return hashed(file.path)
        except OSError as error:
            return b"", "unreadable" if error.errno in CLOSED else None

    @cached_property
    def digest(self) -> str:
        """Over names and contents. Empty where a file could not be read for a reason that may pass:
        what is there is not known then."""
        known = [content for content in self.contents if content is not None]
        if len(known) < len(self.files):
            return ""
        return digest(
            *(
                part
                for file, content in zip(self.files, known, strict=True)
                for part in (file.name, content)
            )
        )

    @cached_property
    def version(self) -> str:
        """Changes whenever a file is written, also to what it was before."""
        return digest("\n".join(f"{file.name}\n{_told_state(file)}" for file in self.files))

    @cached_property
    def suffixes(self) -> frozenset[str]:
        """Of all files, lower case."""
        ends = {file.name[max(file.name.rfind("."), 0) :] for file in self.files}
        return frozenset(PurePath(f"x{end}").suffix.lower() for end in ends)


def _told_state(file: InputFile) -> str:
    return file.fault[0] if file.fault else file.state.hex() or "unreadable"


def list_files(folder: str, pattern: str, mounts: Collection[str] = (), kept: str = "") -> Listing:
    """Files below ``folder`` that match the glob pattern; hidden files and system junk are left
    out. A folder that cannot be listed is among them, with its fault; the input folder itself is
    ".". So is one of ``mounts``, which were mount points once, that is none any more and has
    nothing in it. ``kept``: the folder in which hashes are kept.

    Raises SettingsError when there is no such folder.
    """
    root, moment = Path(folder), time.time()
    if not root.is_dir():
        fact = "is not a folder" if root.exists() else "no such folder"
        raise SettingsError(f"{folder}: {fact}; create it or set input.path")
    found = list(_Walk(_real_path(folder), PurePath(pattern).parts).files(folder))
    folders, names = _folders_of(found), {file.name for file in found}
    failed = {file.name for file in found if file.fault}
    bare = {
        name for name in mounts if name not in folders | names and _is_plain_folder(root / name)
    }
    mounted = {name for name in folders if _is_plain(name) and os.path.ismount(root / name)}
    mounted |= {
        name
        for name in mounts
        if not failed.isdisjoint({name, *map(str, PurePosixPath(name).parents)})
    }
    found += [InputFile(str(root / name), name, _UNMOUNTED) for name in bare]
    found.sort(key=lambda file: (file.name, file.place))
    place = Path(kept) / digest(str(root.resolve()), pattern)[:_DIGITS] if kept else None
    return Listing(tuple(found), tuple(sorted(mounted | bare)), moment, place)


def _folders_of(files: Iterable[InputFile]) -> set[str]:
    """Names of the folders that they are in, the input folder apart."""
    folders: set[str] = set()
    for file in files:
        folder = file.name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def _is_plain_folder(place: Path) -> bool:
    return os.path.isdir(place) and not os.path.ismount(place)


def _is_plain(name: str) -> bool:
    return name == one_line(name)


@dataclass(frozen=True)
class _Walk:
    """One pass over the folder: what a listing that fails half way would have named must not seem
    to be gone."""

    real_root: Path
    pattern: tuple[str, ...]

    def files(self, root: str) -> Iterator[InputFile]:
        """As deep as a file system goes: a folder that is met waits for its turn."""
        waiting = [(root, "", frozenset({0}))]
        end = len(self.pattern)
        while waiting:
            folder, below, places = waiting.pop()
            try:
                with os.scandir(folder) as listed:
                    entries = list(listed)
            except OSError as error:
                yield InputFile(folder, one_line(below) or ".", not_read(error))
                continue
            follows = _following(self.pattern, places)
            for entry in entries:
                after = follows(entry.name)
                if not after or _is_left_out(entry.name):
                    continue
                place, name = (
                    os.path.join(folder, entry.name),
                    f"{below}/{entry.name}" if below else entry.name,
                )
                try:
                    kind = _kind(entry, self.real_root)
                except OSError as error:
                    yield InputFile(place, one_line(name), not_read(error))
                    continue
                if kind == "folder" or (
                    kind == "link to a folder" and self._is_named(places, entry.name)
                ):
                    waiting.append((place, name, after - {end}))
                elif (
                    end in after and kind != "link to a folder"
                ) or kind == "link to a folder outside":
                    yield _found(entry, place, one_line(name), kind)

    def _is_named(self, places: frozenset[int], name: str) -> bool:
        """Whether a part of the pattern other than ** names it: links to folders are followed then
        only."""
        return any(
            place < len(self.pattern) - 1
            and self.pattern[place] != ANY_FOLDERS
            and fnmatchcase(name, self.pattern[place])
            for place in places
        )


@cache
def _following(pattern: tuple[str, ...], places: frozenset[int]) -> Callable[[str], frozenset[int]]:
    """Name -> the places that may match what comes after it; with the pattern's length among them,
    it ends here."""
    always, asked = set[int](), list[tuple[Callable[[str], object], int]]()
    for place in _reached(pattern, places):
        if pattern[place] == ANY_FOLDERS:
            always |= {place, *({place + 1} if place + 1 == len(pattern) else ())}
        elif pattern[place] == ANY_NAME:
            always.add(place + 1)
        else:
            asked.append((re.compile(translate(pattern[place])).match, place + 1))
    everywhere = frozenset(always)

    def after(name: str) -> frozenset[int]:
        found = {place for matches, place in asked if matches(name)}
        return everywhere | found if found else everywhere

    return after


def _reached(pattern: tuple[str, ...], places: Iterable[int]) -> set[int]:
    """These and what comes after each ** among them, which may stand for no folder at all."""
    reached: set[int] = set()
    for start in places:
        for place in range(start, len(pattern)):
            reached.add(place)
            if pattern[place] != ANY_FOLDERS:
                break
    return reached


def _found(entry: os.DirEntry[str], place: str, name: str, kind: str) -> InputFile:
    fault = LOCK_FILE if _is_lock(entry.name) else _FAULTS.get(kind)
    return InputFile(place, name, fault, b"" if fault else _state(place))


def _state(place: str) -> bytes:
    try:
        return state_of(os.stat(place))
    except OSError:
        return b""


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
    if name.isprintable():
        return name
    encoded = name.encode("utf-8", "backslashreplace").decode()
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", encoded)


def _real_path(path: str) -> Path:
    return Path(os.path.realpath(path))
