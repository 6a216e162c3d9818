"""List the files below the input folder that are to be read, in one walk over the folder.

The state that the file system reports for each file tells whether its content has changed.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase, translate
from functools import cache
from pathlib import Path, PurePath, PurePosixPath

from pipeline.documents.archives import SUFFIX as ARCHIVE
from pipeline.documents.archives import members_of
from pipeline.documents.file_hashes import state_of
from pipeline.documents.input_files import INPUT_FOLDER, InputFile, Listing, not_read, one_line
from pipeline.errors import SettingsError
from pipeline.text.ids import digest

_JUNK = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})
_LOCK = re.compile("|".join(map(translate, ("~$*", ".#*", ".*.sw[op]", "*.sw[op]", "*~"))))
ANY_FOLDERS, ANY_NAME = "**", "*"
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


def list_files(
    folder: str,
    pattern: str,
    mounts: Collection[str] = (),
    kept: str = "",
    most_mb: int = 0,
) -> Listing:
    """Return the files below ``folder`` that match the glob pattern.

    Hidden files and junk of operating systems are left out. A folder that cannot be listed is among
    the files, with its fault; the input folder itself is ".". The same holds for each of
    ``mounts``, which were mount points in earlier runs, that is an empty folder now; "." is the
    input folder. ``kept`` is
    the folder in which hashes are kept; "" if none are. An archive is replaced by its files of at
    most ``most_mb`` megabytes; 0 leaves archives as they are.

    Raises SettingsError if there is no such folder.
    """
    root = Path(folder)
    moment = time.time()
    if not _may_be_folder(root):
        fact = "is not a folder" if root.exists() else "no such folder"
        raise SettingsError(f"{folder}: {fact}; create it or set input.path")
    real_root = _real_path(folder)
    found = list(_Walk(real_root, PurePath(pattern).parts).files(folder))
    if INPUT_FOLDER in mounts and not found and not os.path.ismount(real_root):
        found = [InputFile(folder, INPUT_FOLDER, _UNMOUNTED)]
    folders = _folders_of(found)
    names = {file.name for file in found}
    failed = {file.name for file in found if file.fault}
    empty = {
        name
        for name in mounts
        if name != INPUT_FOLDER and name not in folders | names and _is_plain_folder(root / name)
    }
    mounted = {name for name in folders if _is_plain(name) and os.path.ismount(root / name)}
    if os.path.ismount(real_root):
        mounted.add(INPUT_FOLDER)
    for name in mounts:
        # A mount point may still be there if it, or a folder above it, could not be listed.
        with_parents = {name, *map(str, PurePosixPath(name).parents)}
        if not failed.isdisjoint(with_parents):
            mounted.add(name)
    found += [InputFile(str(root / name), name, _UNMOUNTED) for name in empty]
    if most_mb:
        found = [each for file in found for each in _opened(file, most_mb)]
    found.sort(key=lambda file: (file.name, file.place))
    place: Path | None = None
    if kept:
        place = Path(kept) / digest(str(root.resolve()), pattern)[:_DIGITS]
    return Listing(tuple(found), tuple(sorted(mounted | empty)), moment, place)


def _may_be_folder(place: Path) -> bool:
    """Return whether there is a folder, or nobody can tell.

    The file system of a share that is away answers with an error. So does the listing of the folder
    then, which becomes its fault.
    """
    try:
        return place.is_dir()
    except OSError:
        return True


def _opened(file: InputFile, most_mb: int) -> Iterator[InputFile]:
    """Yield the files of an archive, named ``archive.zip/file``, and any other file itself.

    An archive that cannot be read, or has no file, is among the files with its fault.
    """
    if file.fault or file.suffix != ARCHIVE:
        yield file
        return
    try:
        members = members_of(file.path, most_mb)
    except OSError as error:
        members = not_read(error)
    if isinstance(members, tuple):
        yield replace(file, fault=members)
        return
    for member in members:
        parts = member.name.split("/")
        if any(is_left_out(part) for part in parts if part != ".."):
            continue
        is_locked = member.fault is None and is_lock(parts[-1])
        yield InputFile(
            file.place, one_line(f"{file.name}/{member.name}"),
            LOCK_FILE if is_locked else member.fault, file.state, member.key, member.written, "zip",
        )  # fmt: skip


def _folders_of(files: Iterable[InputFile]) -> set[str]:
    """Return the names of all folders with these files below them, except the input folder."""
    folders: set[str] = set()
    for file in files:
        folder = file.name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def _is_plain_folder(place: Path) -> bool:
    """Return whether there is a folder that is no mount point."""
    return os.path.isdir(place) and not os.path.ismount(place)


def _is_plain(name: str) -> bool:
    """Return whether a name has nothing to escape, so that it can be used as a path."""
    return name == one_line(name)


@dataclass(frozen=True)
class _Walk:
    """A walk over the input folder.

    ``pattern`` holds the parts of the glob pattern. A folder whose listing fails is reported, so
    that its files do not seem to be deleted.
    """

    real_root: Path
    pattern: tuple[str, ...]

    def files(self, root: str) -> Iterator[InputFile]:
        """Yield the files that match, and folders that cannot be listed.

        Folders wait in a list for their turn, so that their depth is not limited by a recursion.
        """
        waiting = [(root, "", frozenset({0}))]
        end = len(self.pattern)
        while waiting:
            folder, below, places = waiting.pop()
            try:
                with os.scandir(folder) as listed:
                    entries = list(listed)
            except OSError as error:
                yield InputFile(folder, one_line(below) or INPUT_FOLDER, not_read(error))
                continue
            follow = _matcher(self.pattern, places)
            for entry in entries:
                places_after = follow(entry.name)
                if not places_after or is_left_out(entry.name):
                    continue
                place = os.path.join(folder, entry.name)
                name = f"{below}/{entry.name}" if below else entry.name
                try:
                    kind = _kind_of_entry(entry, self.real_root)
                except OSError as error:
                    yield InputFile(place, one_line(name), not_read(error))
                    continue
                is_link = kind == "link to a folder"
                is_match = end in places_after and not is_link
                if kind == "folder" or (is_link and self._is_named(places, entry.name)):
                    waiting.append((place, name, places_after - {end}))
                elif is_match or kind == "link to a folder outside":
                    yield _input_file(entry, place, one_line(name), kind)

    def _is_named(self, places: frozenset[int], name: str) -> bool:
        """Return whether a part of the pattern other than ** names a folder.

        Only then is a link to a folder followed. ``places`` are the indexes of the parts that may
        match the name.
        """
        for place in places:
            is_folder_part = place < len(self.pattern) - 1
            part = self.pattern[place] if is_folder_part else ANY_FOLDERS
            if part != ANY_FOLDERS and fnmatchcase(name, part):
                return True
        return False


def is_match(name: str, pattern: str) -> bool:
    """Return whether the name of a file matches a glob pattern, such as ``**/*.csv``."""
    parts = PurePath(pattern).parts
    places = frozenset({0})
    for part in name.split("/"):
        places = _matcher(parts, places - {len(parts)})(part)
    return len(parts) in places


@cache
def _matcher(pattern: tuple[str, ...], places: frozenset[int]) -> Callable[[str], frozenset[int]]:
    """Return a function that matches a name in a folder with parts of the pattern.

    ``places`` are the indexes of the parts that may match the name. The function returns the
    indexes of the parts that may match a name below it. The length of the pattern among them says
    that the whole pattern matches.
    """
    end = len(pattern)
    always: set[int] = set()
    tests: list[tuple[Callable[[str], object], int]] = []
    for place in _with_skipped_folders(pattern, places):
        part = pattern[place]
        if part == ANY_FOLDERS:
            always.add(place)
            if place + 1 == end:
                always.add(end)
        elif part == ANY_NAME:
            always.add(place + 1)
        else:
            tests.append((re.compile(translate(part)).match, place + 1))
    matched_by_all = frozenset(always)

    def follow(name: str) -> frozenset[int]:
        found = {place for matches, place in tests if matches(name)}
        return matched_by_all | found if found else matched_by_all

    return follow


def _with_skipped_folders(pattern: tuple[str, ...], places: Iterable[int]) -> set[int]:
    """Return the places and those behind each ** among them, which may match no folder at all."""
    reached: set[int] = set()
    for start in places:
        for place in range(start, len(pattern)):
            reached.add(place)
            if pattern[place] != ANY_FOLDERS:
                break
    return reached


def _input_file(entry: os.DirEntry[str], place: str, name: str, kind: str) -> InputFile:
    """Return the entry as a file, with its fault if it is not to be read."""
    fault = LOCK_FILE if is_lock(entry.name) else _FAULTS.get(kind)
    return InputFile(place, name, fault, b"" if fault else _state_or_nothing(place))


def _state_or_nothing(place: str) -> bytes:
    try:
        return state_of(os.stat(place))
    except OSError:
        return b""


def _kind_of_entry(entry: os.DirEntry[str], real_root: Path) -> str:
    """Return what the entry is: "folder", "file", a kind of link, or "other".

    A link counts by its target; outside of the input folder it is a kind of its own. Raises OSError
    if this cannot be found out.
    """
    is_link = entry.is_symlink()
    if is_link and not _real_path(entry.path).is_relative_to(real_root):
        return "link to a folder outside" if entry.is_dir() else "link out"
    if entry.is_dir():
        return "link to a folder" if is_link else "folder"
    return "file" if entry.is_file() else "other"


def is_left_out(name: str) -> bool:
    """Return whether the name is hidden or junk; lock files of editors are reported instead."""
    return name in _JUNK or (name.startswith(".") and not is_lock(name))


def is_lock(name: str) -> bool:
    """Return whether the name is that of a lock or backup file of an editor."""
    return _LOCK.match(name) is not None


def _real_path(path: str) -> Path:
    return Path(os.path.realpath(path))
