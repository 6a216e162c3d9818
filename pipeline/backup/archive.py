"""The file of a backup: a zip with the files of a project and a manifest of their hashes.

    graphmill-backup.txt      says what the file is
    files/...                 the files, by their names below the project's folder
    by-number/...             files whose names are no text; the manifest has these names
    manifest.json             size, hash, mode and time of each file, and the origin of the backup

A zip has a directory at its end, so that a reader knows the size of each member before it reads
one. What the manifest does not name is never read, and names come from the manifest alone.
"""

import hashlib
import json
import math
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

from pipeline.backup.members import README
from pipeline.errors import DamagedError, DataError, UsageError
from pipeline.files import json_content, json_text
from pipeline.stores.base import Advanced, silent

MANIFEST = "manifest.json"
MOST_MANIFEST = 2**29
"""The most bytes of a manifest: it is read into memory, at about 250 bytes for each file."""
VERSION = 1
CHUNK = 2**20
PACKED = frozenset(
    {".parquet", ".zip", ".gz", ".zst", ".png", ".jpg", ".jpeg", ".pdf", ".docx", ".xlsx", ".pptx"}
)
"""Suffixes of files that are compressed already."""
EARLIEST, LATEST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
"""The times that a zip can have. The manifest has the exact ones."""
ABOUT = """\
This is a backup of a graphmill project.
  graphmill restore THIS-FILE FOLDER
checks each file by manifest.json, writes all into FOLDER, and loads the stores again.
"""


@dataclass(frozen=True)
class Member:
    """A file of the backup. ``path`` is its name in the project; that of a folder ends in "/"."""

    path: str
    member: str
    bytes: int
    sha256: str
    mode: int
    mtime: float


@dataclass(frozen=True)
class BackupManifest:
    """The manifest of a backup.

    - ``created`` is in ISO 8601, ``graphmill`` the version that has written the backup.
    - ``owner`` and ``folder`` are those of the project, ``workflow`` the one loaded last, or "".
    - ``keys`` are the variables that stand in settings.yaml for secrets that were written there.
    - ``left_out`` has what the backup does not have, with the reason.
    - ``mode`` has the permissions of the project's folder.
    """

    created: str
    graphmill: str
    owner: str
    folder: str
    workspace: str
    workflow: str
    with_keys: bool
    keys: tuple[str, ...]
    left_out: Mapping[str, str]
    mode: int
    files: tuple[Member, ...] = field(default=(), repr=False)

    @property
    def total(self) -> int:
        return sum(member.bytes for member in self.files)


@dataclass
class ArchiveWriter:
    """Writes members one after the other, and the manifest at the end."""

    archive: zipfile.ZipFile
    files: list[Member] = field(default_factory=list)

    def write_about(self) -> None:
        self.archive.writestr(README, ABOUT)

    def add(self, path: str, source: IO[bytes], mode: int, mtime: float, size: int) -> str:
        """Write ``size`` bytes of a file, and return their hash.

        A file that grows is cut there: only lines are added to such files. Raises
        FileChangedError if the file has become shorter.
        """
        sha256, left = hashlib.sha256(), size
        info = zipfile.ZipInfo(self._member_name(path), _zip_time(mtime))
        is_packed = PurePosixPath(path).suffix.lower() in PACKED
        info.compress_type = zipfile.ZIP_STORED if is_packed else zipfile.ZIP_DEFLATED
        with self.archive.open(info, "w", force_zip64=True) as target:
            while left:
                chunk = source.read(min(CHUNK, left))
                if not chunk:
                    raise FileChangedError(path)
                sha256.update(chunk)
                target.write(chunk)
                left -= len(chunk)
        digest = sha256.hexdigest()
        self.files.append(Member(path, info.filename, size, digest, mode & 0o777, mtime))
        return digest

    def add_folder(self, path: str) -> None:
        self.files.append(Member(path, "", 0, "", 0o755, 0.0))

    def finish(self, manifest: BackupManifest) -> None:
        content = {**asdict(manifest), "version": VERSION, "files": list(map(asdict, self.files))}
        # Names of files that are no text have halves of characters in them.
        text = json_text(content).encode("utf-8", "surrogatepass")
        self.archive.writestr(MANIFEST, text, zipfile.ZIP_DEFLATED)

    def _member_name(self, path: str) -> str:
        try:
            path.encode()
        except UnicodeEncodeError:
            return f"by-number/{len(self.files)}"
        return f"files/{path}"


class FileChangedError(Exception):
    """A file that has become shorter, or has gone, while the backup was written."""


def _zip_time(mtime: float) -> tuple[int, int, int, int, int, int]:
    found = time.localtime(mtime)[:6]
    return max(EARLIEST, min(LATEST, found))


@dataclass(frozen=True)
class ArchiveReader:
    """A backup that is open, with its manifest."""

    file: Path
    archive: zipfile.ZipFile
    manifest: BackupManifest

    def check(self, advanced: Advanced = silent) -> None:
        """Read all members, and compare them with the manifest. Raises DamagedError."""
        for done, member in enumerate(self.manifest.files, start=1):
            for _ in self.content(member):
                pass
            advanced("files", done, len(self.manifest.files))

    def content(self, member: Member) -> Iterator[bytes]:
        """Yield the bytes of a member in pieces.

        No more is read than the manifest says. Raises DamagedError at the end if its hash is
        another one, and earlier if it is longer or cannot be read.
        """
        if member.path.endswith("/"):
            return
        sha256, left = hashlib.sha256(), member.bytes
        with self._in_words(member.path), self.archive.open(member.member) as source:
            while chunk := source.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    break
                sha256.update(chunk)
                yield chunk
        if left or sha256.hexdigest() != member.sha256:
            raise DamagedError(self.file, f"{member.path} is not what was written", NO_USE)

    @contextmanager
    def _in_words(self, name: str) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as error:
            raise DamagedError(self.file, f"{name} cannot be read ({error})", NO_USE) from error


NO_USE = "use another backup"
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, OSError, RuntimeError,
    ValueError,
)  # fmt: skip
"""The errors of the library for a zip that is damaged, encrypted or made by another program."""


@contextmanager
def open_backup(file: Path) -> Iterator[ArchiveReader]:
    """Open a backup and check its manifest.

    Raises UsageError if there is no such file, or if it is no backup. Raises DamagedError if it is
    damaged, and DataError if a newer version has written it.
    """
    try:
        archive = zipfile.ZipFile(file)
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file; name a file of 'graphmill backup'") from None
    except (*_UNREADABLE, IsADirectoryError) as error:
        raise DamagedError(file, f"no whole backup ({error})", NO_USE) from error
    with archive:
        yield ArchiveReader(file, archive, _read_manifest(file, archive))


def _read_manifest(file: Path, archive: zipfile.ZipFile) -> BackupManifest:
    if MANIFEST not in archive.namelist():
        raise UsageError(f"{file}: no backup of graphmill; name a file of 'graphmill backup'")
    if archive.getinfo(MANIFEST).file_size > MOST_MANIFEST:
        raise DamagedError(file, f"{MANIFEST} is too large", NO_USE)
    try:
        with archive.open(MANIFEST) as source:
            content = _parse_manifest(file, source.read(MOST_MANIFEST))
        version = content.pop("version")
        if version != VERSION:
            raise DataError(
                f"{file}: a backup of version {version}; restore it with the graphmill that wrote"
                f" it, {content.get('graphmill', '')}"
            )
        files = tuple(_member_of(file, entry) for entry in content.pop("files"))
        texts = ("created", "graphmill", "owner", "folder", "workspace", "workflow")
        if not all(isinstance(content[name], str) for name in texts):
            raise ValueError("a text is none")
        content |= {"keys": tuple(content["keys"]), "mode": _permissions(content["mode"])}
        manifest = BackupManifest(**content, files=files)
        _refuse_double(file, manifest, archive)
    except (*_UNREADABLE, TypeError, AttributeError) as error:
        raise DamagedError(file, f"{MANIFEST} cannot be read ({error})", NO_USE) from error
    return manifest


def _parse_manifest(file: Path, text: bytes) -> dict[str, Any]:
    try:
        return json_content(text, MANIFEST)
    except DamagedError as error:
        raise DamagedError(file, f"{MANIFEST}: {error.fact}", NO_USE) from error


def _member_of(file: Path, entry: Mapping[str, Any]) -> Member:
    """Return a file of the manifest. Raises DamagedError for a name that leads out of a folder."""
    mtime, mode = float(entry["mtime"]), _permissions(entry["mode"])
    if not math.isfinite(mtime):
        raise ValueError("a time is none")
    member = Member(**{**entry, "mtime": mtime, "mode": mode})
    parts = member.path.removesuffix("/").split("/")
    is_name = not {"", ".", ".."} & set(parts) and "\0" not in member.path
    has_size = isinstance(member.bytes, int) and member.bytes >= 0
    if not is_name or not has_size:
        fact = f"{json.dumps(member.path)} is no name of a file of a project"
        raise DamagedError(file, fact, "it was not made by 'graphmill backup': do not use it")
    return member


def _permissions(mode: Any) -> int:
    """Return the permissions of a file. Raises ValueError for more, such as those of setuid."""
    number = int(mode)
    if not 0 <= number <= 0o777:
        raise ValueError(f"{number} are no permissions of a file")
    return number


def _refuse_double(file: Path, manifest: BackupManifest, archive: zipfile.ZipFile) -> None:
    """Raise DamagedError if two files have one name or share a member, or a size is not told
    truly."""
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    # A path that ends so is a folder, which has no member.
    files = [entry for entry in manifest.files if not entry.path.endswith("/")]
    for entry in files:
        if sizes.get(entry.member) != entry.bytes:
            raise DamagedError(file, f"{entry.path} is not what {MANIFEST} says", NO_USE)
    paths = {entry.path for entry in manifest.files}
    members = {entry.member for entry in files}
    has_double_path = len(paths) < len(manifest.files)
    has_shared_member = len(members) < len(files)
    has_double_member = len(sizes) < len(archive.infolist())
    if has_double_path or has_shared_member or has_double_member:
        raise DamagedError(file, "a file is in it twice", NO_USE)
