"""List the files within a ZIP archive and read them, within limits.

No name in an archive is ever used as a path. What would lead out of the archive, is encrypted, or
would fill the disk has a fault and is not read. An archive within an archive is not opened, so that
none can contain itself.
"""

import io
import stat
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Self

SUFFIX = ".zip"
MOST_TIMES = 50
"""The most that all files of an archive may take when unpacked, in sizes of the largest file."""
_LONGEST_DIRECTORY = 32 * 2**20
"""The most bytes of an archive's directory, which is read whole: about 300,000 files."""
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The methods of compression that unpack piece by piece; others may fill the memory at once."""
_ENCRYPTED = 1
_MEGABYTE = 2**20
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
"""Errors of a damaged archive."""
_ASIDE = "put it there unpacked"


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive.

    ``key`` is its name in the directory of the archive, ``name`` the same without parts such as
    ".". ``written`` is its day as it stands in the archive, or "". ``fault`` holds reason and
    message if the file is not to be read.
    """

    key: str
    name: str
    written: str
    fault: tuple[str, str] | None = None


def members_of(place: Path, most_mb: int) -> list[Member] | tuple[str, str]:
    """Return the files of an archive, each of at most ``most_mb`` megabytes.

    Returns reason and message for an archive that is damaged or too large. Raises OSError if it
    cannot be read.
    """
    try:
        unbuffered = place.open("rb", buffering=0)
        with _BoundedReads(unbuffered) as stream, zipfile.ZipFile(stream) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    except DAMAGED as error:
        return "parse", f"no ZIP archive that can be read ({error}); mend it"
    total = sum(entry.file_size for entry in entries)
    if total > MOST_TIMES * most_mb * _MEGABYTE:
        fact = f"{total // _MEGABYTE:,} MB when unpacked"
        return "too_large", f"{fact}; unpack it, or set input.max_file_mb"
    if not entries:
        return "empty", "no file in it; remove it"
    last = {_cleaned_name(entry): entry for entry in entries}
    return [_member_of(entry, last, most_mb) for entry in entries]


class _BoundedReads(io.BufferedReader):
    """A file that refuses a single long read.

    ZipFile reads the directory of an archive at once, before it looks at it. Its length stands in
    the archive, so a hostile one could fill the memory.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LONGEST_DIRECTORY:
            raise ValueError("its list of files is too long")
        return super().read(size)


def _cleaned_name(entry: zipfile.ZipInfo) -> str:
    """Return the name of a file of an archive without empty parts and "."."""
    parts = entry.filename.replace("\\", "/").split("/")
    return "/".join(part for part in parts if part not in ("", "."))


def _member_of(entry: zipfile.ZipInfo, last: dict[str, zipfile.ZipInfo], most_mb: int) -> Member:
    """Return a file of an archive; ``last`` has the last one of each name, which alone is read."""
    name = _cleaned_name(entry)
    written = ""
    with suppress(ValueError):
        written = date(*entry.date_time[:3]).isoformat()
    fault = _fault_of(entry, name, most_mb)
    if fault is None and last[name] is not entry:
        fault = ("duplicate_id", "the archive has another file of this name behind it; rename one")
    return Member(entry.filename, name, written, fault)


def _fault_of(entry: zipfile.ZipInfo, name: str, most_mb: int) -> tuple[str, str] | None:
    """Return why a file of an archive is not read, or None."""
    plain = entry.filename.replace("\\", "/")
    is_absolute = plain.startswith("/") or plain[1:2] == ":"
    if is_absolute or ".." in name.split("/"):
        return "outside", "a path that leads out of the archive; pack it without"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "outside", "a link; pack what it leads to"
    if name.lower().endswith(SUFFIX):
        return "unsupported", f"an archive in an archive is not opened; {_ASIDE}"
    if entry.flag_bits & _ENCRYPTED:
        return "unreadable", f"encrypted; {_ASIDE}"
    if entry.compress_type not in _METHODS:
        return "unreadable", f"packed by a method that is not read; {_ASIDE}"
    if entry.file_size > most_mb * _MEGABYTE:
        return "too_large", f"over {most_mb} MB; split it or set input.max_file_mb"
    return None


class MemberReader:
    """A reader of files in archives, which keeps open the archive that it read last."""

    def __init__(self) -> None:
        self._place = ""
        self._archive: zipfile.ZipFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def open(self, place: str, key: str) -> IO[bytes]:
        """Return a stream of a file; this and its reading raise OSError and `DAMAGED`."""
        if self._archive is None or self._place != place:
            self._close()
            self._archive, self._place = zipfile.ZipFile(place), place
        try:
            return self._archive.open(key)
        except KeyError as error:
            raise ValueError("the archive has changed meanwhile") from error

    def _close(self) -> None:
        if self._archive is not None:
            self._archive.close()
            self._archive = None
