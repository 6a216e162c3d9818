"""The files of an input: each with its name, its place, and the state that tells of a change."""

import errno
import hashlib
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from itertools import groupby
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from pipeline.documents.archives import DAMAGED, MemberReader
from pipeline.documents.conversations import slack_exports
from pipeline.documents.file_hashes import (
    hashed,
    is_settled,
    keep_hashes,
    kept_hashes,
    key_of,
    state_of,
)
from pipeline.documents.git import BlobReader, GitError, blob_reader
from pipeline.files import full_disk_named, temporary_folder
from pipeline.text.ids import digest

if TYPE_CHECKING:
    from pipeline.documents.bucket_reader import BucketReader

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LASTING_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG})
"""Errors that last until somebody acts, so the reason counts as the content of the file.

Other errors may be transient: then the content is unknown.
"""
_PIECE = 2**20
INPUT_FOLDER = "."
"""The name of the input folder itself among its files."""
_PACKED = frozenset({"zip", "git", "object"})
"""The kinds of files that have to be unpacked, or fetched, before they can be read."""
_MOST_PACKED = 64
"""The number of such files in a portion. They are unpacked at the same time, and need space."""
_LONGEST_STEM = 60
"""The most characters of the name of an unpacked file before its suffix; each may take four bytes,
and a name 255."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the input folder or of another input, or a row of a database.

    ``name`` is its POSIX path below the folder, with control characters escaped. ``fault`` holds
    reason and message if the file is not to be read. An input that cannot be listed is a file with
    a fault and no ``place``. ``kind`` says what the other fields hold; those not named are empty:

    - "" is a file of a folder. ``place`` is its path, and ``state`` that of `file_hashes.state_of`,
      empty if it is unknown.
    - "zip" is a file of an archive. ``place`` and ``state`` are those of the archive, ``member`` is
      its name there, and ``written`` the day of its last change.
    - "git" is a file of a repository. ``place`` is the path of the repository. ``member`` and
      ``content`` are both the hash of the content.
    - "sql" is a row of a database. ``content`` is the hash of the row, and ``fields`` its values.
    - "object" is a file of a bucket. ``place`` is the address of the bucket, ``bucket`` its reader,
      and ``member`` the name there. ``content`` is the e-tag, ``written`` the day of the change.
    """

    place: str
    name: str
    fault: tuple[str, str] | None = None
    state: bytes = b""
    member: str = ""
    written: str = ""
    kind: Literal["", "zip", "git", "sql", "object"] = ""
    content: str = ""
    fields: Mapping[str, Any] | None = field(default=None, hash=False)
    bucket: "BucketReader | None" = field(default=None, hash=False, compare=False)

    @property
    def path(self) -> Path:
        """The place as a path. It is not kept: a path of each of many files would take memory."""
        return Path(self.place)

    @property
    def suffix(self) -> str:
        """The suffix in lower case, with its dot; a row has none."""
        return "" if self.kind == "sql" else PurePath(self.name).suffix.lower()


@dataclass(frozen=True)
class Listing:
    """The files found at ``moment`` (seconds since 1970), sorted by name.

    ``mounts`` names the mount points that have files, and the earlier ones that are empty now or
    cannot be listed; the input folder is ".". ``kept`` is the file in which hashes are kept from
    run to run, if they are. ``columns`` has, by the name of an input, those columns in its
    ``metadata`` that its query gives, or gave before if it could not be carried out.
    """

    files: tuple[InputFile, ...]
    mounts: tuple[str, ...] = ()
    moment: float = field(default=0.0, compare=False)
    kept: Path | None = field(default=None, compare=False)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)

    @cached_property
    def contents(self) -> tuple[str | None, ...]:
        """The hash of the content of each file.

        A file that cannot be read has the reason instead, or None if the reason may be transient.
        """
        kept = kept_hashes(self.kept) if self.kept else {}
        found: list[str | None] = []
        settled: dict[bytes, str] = {}
        with Opener() as opener:
            for file in self.files:
                if file.content and not file.fault:
                    found.append(file.content)
                    continue
                key = key_of(file.name, file.state)
                if key in kept and not file.fault:
                    state, content = file.state, kept[key]
                else:
                    state, content = _hash(file, opener)
                found.append(content)
                is_unchanged = state and state == file.state
                if content and is_unchanged and is_settled(state, self.moment):
                    settled[key] = content
        if self.kept and settled != kept:
            keep_hashes(self.kept, settled)
        return tuple(found)

    @cached_property
    def digest(self) -> str:
        """A hash of the names and contents of all files.

        It is empty if a file could not be read for a reason that may be transient: its content is
        unknown then.
        """
        parts: list[str] = []
        for file, content in zip(self.files, self.contents, strict=True):
            if content is None:
                return ""
            parts += [file.name, content]
        return digest(*parts)

    @cached_property
    def exports(self) -> frozenset[str]:
        """The folders of exports of Slack among the files."""
        return slack_exports(file.name for file in self.files)

    @cached_property
    def version(self) -> str:
        """A hash that changes whenever a file is written, even if its content stays the same."""
        lines = [f"{file.name}\n{_state_as_text(file)}" for file in self.files]
        return digest("\n".join(lines))

    @cached_property
    def suffixes(self) -> frozenset[str]:
        """The suffixes of all files in lower case."""
        # Making a Path of each name would be slow; many names have the same end.
        ends = {file.name[max(file.name.rfind("."), 0) :] for file in self.files}
        # Without a letter in front, ".txt" would be the name of a hidden file, with no suffix.
        return frozenset(PurePath(f"x{end}").suffix.lower() for end in ends)


def _hash(file: InputFile, opener: "Opener") -> tuple[bytes, str | None]:
    """Return the state of the file when it was hashed, and its entry in `Listing.contents`."""
    if file.fault:
        reason, _ = file.fault
        # An input that cannot be listed has no place. It keeps its reason, even a transient one:
        # a later listing has the names of its files instead, and so another digest.
        is_transient = reason == "io_error" and file.place
        return b"", None if is_transient else reason
    try:
        if not file.kind:
            return hashed(file.path)
        state = state_of(file.path.stat())
        with opener.open(file) as stream:
            content = hashlib.sha256()
            while piece := stream.read(_PIECE):
                content.update(piece)
        return state, content.hexdigest()
    except OSError as error:
        return b"", "unreadable" if error.errno in _LASTING_ERRORS else None
    except DAMAGED:
        return b"", "parse"


class Opener:
    """A reader of files in archives and repositories, which keeps these open until its end."""

    def __init__(self) -> None:
        self._archives = MemberReader()
        self._repositories: dict[str, BlobReader] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self._archives)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def open(self, file: InputFile) -> IO[bytes]:
        """Return a stream of a file; this and its reading raise OSError and `DAMAGED`."""
        if file.kind == "zip":
            return self._archives.open(file.place, file.member)
        if file.bucket:
            return BytesIO(file.bucket.read(file.member))
        if file.kind != "git":
            return file.path.open("rb")
        try:
            if file.place not in self._repositories:
                reader = self._open.enter_context(blob_reader(file.place))
                self._repositories[file.place] = reader
            return BytesIO(self._repositories[file.place].read(file.member))
        except GitError as error:
            raise OSError(str(error)) from error


def content_of(file: InputFile) -> bytes:
    """Return the content of a file; raises OSError and `DAMAGED`."""
    with Opener() as opener, opener.open(file) as stream:
        return stream.read()


def portions_of(files: Iterable[InputFile]) -> Iterator[list[InputFile]]:
    """Yield the files in portions of which few have to be unpacked, so that these fit on a disk."""
    portion: list[InputFile] = []
    packed = 0
    for file in files:
        portion.append(file)
        if file.kind in _PACKED:
            packed += 1
        if packed == _MOST_PACKED:
            yield portion
            portion, packed = [], 0
    if portion:
        yield portion


@contextmanager
def unpacked(files: Sequence[InputFile], suffixes: Collection[str]) -> Iterator[list[InputFile]]:
    """Provide the files, those of archives and repositories in a temporary folder.

    Only files with one of these suffixes are unpacked. A file that cannot be unpacked has a fault.
    The folder is deleted afterwards. Raises DiskFullError if there is no space for it.
    """
    if not any(file.kind in _PACKED for file in files):
        yield list(files)
        return
    with temporary_folder("graphmill-unpacked-") as folder, Opener() as opener:
        # A message about a full disk names the folder that stays, not the one that is deleted.
        lasting_folder = folder.parent
        found = list(files)
        objects: dict[int, Path] = {}
        for number, file in enumerate(files):
            if file.kind not in _PACKED or file.suffix not in suffixes or file.fault:
                continue
            name = f"{PurePath(file.name).stem[:_LONGEST_STEM]}{file.suffix}"
            path = folder / str(number) / name
            with full_disk_named(lasting_folder):
                path.parent.mkdir()
            if file.bucket:
                objects[number] = path
            else:
                found[number] = _unpack(file, path, opener, lasting_folder)
        for number, object_file in _fetch_objects(files, objects):
            found[number] = object_file
        yield found


def _unpack(file: InputFile, path: Path, opener: Opener, lasting_folder: Path) -> InputFile:
    """Write the content of a file to the path. Return the file there, or with the fault it has.

    A message about a full disk names ``lasting_folder``.
    """
    try:
        with (
            full_disk_named(lasting_folder),
            opener.open(file) as packed,
            path.open("wb") as stream,
        ):
            shutil.copyfileobj(packed, stream)

    except OSError as error:
        return replace(file, fault=not_read(error))
    except DAMAGED as error:
        return replace(file, fault=("parse", f"damaged in its archive ({error}); pack it again"))
    return replace(file, place=str(path))


def _fetch_objects(
    files: Sequence[InputFile], paths: Mapping[int, Path]
) -> Iterator[tuple[int, InputFile]]:
    """Fetch the objects of buckets, each to its path; ``paths`` has them by position in ``files``.

    Yield the position of each with the file at its path, or with the fault it has.
    """
    # The files are sorted by their names, which begin with that of their input, so those of one
    # bucket are neighbours.
    for _, same in groupby(paths, key=lambda number: id(files[number].bucket)):
        numbers = list(same)

        bucket = files[numbers[0]].bucket
        wanted = [(files[number].member, paths[number]) for number in numbers]
        errors = bucket.fetch(wanted) if bucket else []
        for number, error in zip(numbers, errors, strict=True):
            if error:
                # The reader's own errors say what to do; those of the disk have a number.
                fault = ("io_error", str(error)) if error.errno is None else not_read(error)
                yield number, replace(files[number], fault=fault)
            else:
                yield number, replace(files[number], place=str(paths[number]))


def _state_as_text(file: InputFile) -> str:
    """Return the reason of the file's fault, or its state in hexadecimal digits."""
    if file.fault:
        return file.fault[0]
    return file.content or file.state.hex() or "unreadable"


def not_read(error: OSError) -> tuple[str, str]:
    """Return reason and message of the reject for a file or folder that could not be read."""
    reason = "unreadable" if error.errno in _LASTING_ERRORS else "io_error"
    return reason, f"{error.strerror or error}; allow reading it or remove it"


def one_line(name: str) -> str:
    """Return a name of a file with escapes for characters that tables and terminals cannot take."""
    if name.isprintable():
        return name
    encoded = name.encode("utf-8", "backslashreplace").decode()
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", encoded)
