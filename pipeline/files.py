"""Files of a project: written atomically, and checked for damage when they are read.

A JSON file carries the hash of its content (key ``sha256``), which reveals a flipped bit. A file of
an earlier version has no hash and is accepted if it has the right shape. Damage is reported once on
stderr, and the caller continues without the file.
"""

import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from pipeline.errors import DamagedError, DiskFullError, SettingsError, UsageError

SETTINGS = "settings.yaml"


def size_of(path: Path) -> int:
    """Return the size of a file in bytes, or 0 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def settings_file(root: Path) -> Path:
    """Return the path of settings.yaml in the project folder ``root``.

    Raises SettingsError if the file does not exist.
    """
    path = root / SETTINGS
    if not path.is_file():
        raise SettingsError(
            f"{path}: no settings here; run 'graphmill init' to make a project, or use -C DIR"
        )
    return path


_DIGITS = 16
_DIGEST_IN_NAME = re.compile(rf"\.([0-9a-f]{{{_DIGITS}}})\.[^.]+$")
"""The digest and the suffix at the end of a name made by ``digest_named``. A run id ends in fewer
hexadecimal digits."""
PARTIAL = ".partial"
"""Suffix of a file that is still being written."""
CHECK = "sha256"
"""Key of the hash in a JSON file."""
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers that mean that no more can be written: disk, quota or file size."""
LOG = logging.getLogger("graphmill.damage")


class _OnStderr(logging.Handler):
    """Handler that writes to the current ``sys.stderr``, which a test or a server may have
    replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"graphmill: {record.getMessage()}\n")


LOG.addHandler(_OnStderr())


@cache
def tell(message: str) -> None:
    """Warn on stderr of damage, once per process and message.

    A message reads "where: fact; consequence". An error of the logger is ignored, so that it ends
    no run.
    """
    with suppress(Exception):
        LOG.warning("%s", message)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file atomically with the content as JSON, hash included.

    Raises DiskFullError and keeps the old file if the disk is full.
    """
    write_text(path, json_text(content))


def json_text(content: Mapping[str, Any]) -> str:
    """Return the text that ``write_json`` writes: the content as JSON, with its hash."""
    from pydantic_core import PydanticSerializationError, to_json

    # With its keys in order it is also what the hash is made of.
    plain = json.loads(json.dumps(content, sort_keys=True))
    checked = plain | {CHECK: _hash_of(plain)}
    try:
        # The module json indents in Python, which takes several times as long.
        text = to_json(dict(sorted(checked.items())), indent=1).decode()
    except PydanticSerializationError:
        # The library refuses a lone surrogate, which stands for a byte of a file's name that is no
        # UTF-8.
        text = json.dumps(checked, indent=1, sort_keys=True, ensure_ascii=False)
    return f"{text}\n"


def write_text(path: Path, text: str) -> None:
    """Replace the whole file atomically with the text.

    Raises DiskFullError and keeps the old file if the disk is full.
    """
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_private_text(path: Path, text: str) -> None:
    """Replace the whole file atomically with the text. Nobody but its owner may read it.

    Raises DiskFullError and keeps the old file if the disk is full.
    """
    with new_file(path) as temporary:
        # Nobody else may read it, not even for a moment.
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")


def lines_of(file: Path) -> list[str]:
    """Return the lines of a file of JSON lines.

    Only a line feed ends a line, because JSON allows characters such as U+2028 in a text. A crash
    may have cut off the last line in the middle of a character.
    """
    text = file.read_bytes().decode(errors="replace")
    return text.removesuffix("\n").split("\n")


def secret_in(file: Path) -> str:
    """Return the secret in a file that only this user account can read. Create the file if it is
    missing.

    Raises DiskFullError.
    """
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        made = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        with full_disk_named(file.parent):
            made.touch(mode=0o600)
            made.write_text(secrets.token_urlsafe(32), encoding="utf-8")
        # If two processes create the secret at once, the first link wins.
        with suppress(FileExistsError):
            os.link(made, file)
        made.unlink()
    return file.read_text(encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file written by ``write_json``, without its hash.

    Raises FileNotFoundError if there is no file, and DamagedError if it cannot be read or its hash
    does not match.
    """
    return read_checked(path)[0]


def read_checked(path: Path) -> tuple[dict[str, Any], bool]:
    """Return the content as ``read_json`` does, and whether a hash proved it.

    A file of an earlier version has no hash, so its content may have changed. Raises
    FileNotFoundError and DamagedError.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedError(path, error.strerror or str(error)) from error
    return _parse_checked(text, path)


def json_content(text: bytes, path: Path | str) -> dict[str, Any]:
    """Return the content of JSON bytes that were read from ``path``, as ``read_json`` does.

    Raises DamagedError.
    """
    return _parse_checked(text, path)[0]


def _parse_checked(text: bytes, path: Path | str) -> tuple[dict[str, Any], bool]:
    """Return the JSON object in the text without its hash, and whether a hash proved it.

    Raises DamagedError, which names ``path``.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, f"not readable ({error})") from error
    if not isinstance(content, dict):
        raise DamagedError(path, "not readable (no object)")
    check = content.pop(CHECK, None)
    if check is not None and check != _hash_of(content):
        raise DamagedError(path, "not what was written")
    return content, check is not None


def _hash_of(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_named(name: str, temporary: Path) -> str:
    """Return ``name`` with a digest of the temporary file's bytes, without a suffix.

    ``is_as_named`` later checks a file with this name.
    """
    return f"{name}.{sha256_of(temporary)[:_DIGITS]}"


def is_as_named(path: Path) -> bool:
    """Check that the file's bytes match the digest in its name.

    Earlier versions put no digest into the name: ``20261123T232445.389791-c32e3f.parquet`` has
    none, though its run id has a dot. Such a file cannot be checked and counts as intact.
    """
    found = _DIGEST_IN_NAME.search(path.name)
    return found is None or sha256_of(path)[:_DIGITS] == found[1]


def sweep_partials(folder: Path) -> None:
    """Remove unfinished files of dead processes from the folder and its subfolders.

    Files of another process that still runs are kept.
    """
    for partial in folder.rglob(f".*{PARTIAL}"):
        if not _is_being_written(partial):
            partial.unlink(missing_ok=True)


def _is_being_written(partial: Path) -> bool:
    """Check that another living process of this machine writes the file. Its name begins with the
    process id."""
    number = partial.name.removeprefix(".").partition("-")[0]
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    return is_living(int(number))


def is_living(process: int) -> bool:
    """Check that this machine has a process with this number, whoever owns it."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and move it to ``path`` when the block succeeds.

    It replaces an older file. Raises UsageError if ``path`` is a device or a pipe, and
    DiskFullError.
    """
    refuse_no_file(path)
    with temporary_file(path.parent) as temporary:
        yield temporary
        publish_file(temporary, path)


def refuse_no_file(path: Path) -> None:
    """Raise UsageError for a device or a pipe.

    A new file would replace it for the whole machine.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"{path}: that is no file, but a device or a pipe; name a file")


@contextmanager
def temporary_file(folder: Path) -> Iterator[Path]:
    """Yield a path for a temporary file in the folder, which is created if it is missing.

    The file is removed when the block ends, unless it was published. Raises DiskFullError if the
    block runs out of disk space.
    """
    path = folder / f".{os.getpid()}-{secrets.token_hex(8)}{PARTIAL}"
    try:
        with full_disk_named(folder):
            folder.mkdir(parents=True, exist_ok=True)
            yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield a folder in the system's temporary folder, which is deleted when the block ends.

    A file in it that cannot be deleted raises no error, which would hide how the block ended.
    """
    folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    try:
        with folder as path:
            yield Path(path)
    except KeyboardInterrupt:
        # Ctrl-C may have come while the folder was being deleted.
        folder.cleanup()
        raise


@contextmanager
def scratch_file(folder: Path) -> Iterator[IO[bytes]]:
    """Yield a file without a name, for data that may exceed memory.

    It lies on the folder's disk, or in the system's temporary folder if this folder is not
    writable. Raises DiskFullError if the block runs out of disk space.
    """
    with full_disk_named(folder), _open_nameless_file(folder) as file:
        yield file


def _open_nameless_file(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:
        return tempfile.TemporaryFile()


@contextmanager
def full_disk_named(folder: Path) -> Iterator[None]:
    """Convert a "no space" error within the block to a DiskFullError that names the folder."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise DiskFullError(
                f"{folder}: a file could not be written ({os.strerror(error.errno)}); make space "
                "('graphmill gc' does) and run the same command again: it goes on from what is done"
            ) from error
        raise


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on the folder during the block, against threads and processes.

    It serialises read-modify-write of files in the folder. The lock is on the folder, because a
    file that is replaced cannot be locked. On a file system without locks, the block runs unlocked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some file systems have no locks.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def publish_file(temporary: Path, path: Path) -> None:
    """Give the temporary file its final name, and flush file and folder to disk.

    It replaces an older file.
    """
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    flush_folder(path.parent)


def flush_folder(path: Path) -> None:
    """Flush the names of a folder's files to disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
