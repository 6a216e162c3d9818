"""Files that a project keeps: written whole or not at all, known again when changed; and what makes
a folder one.

A JSON file carries the hash of its content (key ``sha256``), so that a flipped bit is seen; one of
an earlier version has none, and is read as far as it has the right shape. What is damaged is told
once, and the caller goes on without it.
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
    """Return the bytes of a file; 0 for one that is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def settings_file(root: Path) -> Path:
    """Raises SettingsError when there is none."""
    path = root / SETTINGS
    if not path.is_file():
        raise SettingsError(
            f"{path}: no settings here; run 'graphmill init' to make a project, or use -C DIR"
        )
    return path


_DIGITS = 16
_DIGEST_IN_NAME = re.compile(rf"\.([0-9a-f]{{{_DIGITS}}})\.[^.]+$")
"""The digest and the suffix with which ``digest_named`` lets a name end. A run id ends in fewer
digits."""
PARTIAL = ".partial"
CHECK = "sha256"
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
LOG = logging.getLogger("graphmill.damage")


class _OnStderr(logging.Handler):
    """On what stderr is at the time: a test, or a server, may have put another in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"graphmill: {record.getMessage()}\n")


LOG.addHandler(_OnStderr())


@cache
def tell(message: str) -> None:
    """Say on stderr, once in this process, what was found damaged ("where: fact; what becomes of
    it"). A logger that is dead ends no run."""
    with suppress(Exception):
        LOG.warning("%s", message)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Raises DiskFullError, and leaves what was there."""
    write_text(path, json_text(content))


def json_text(content: Mapping[str, Any]) -> str:
    """What ``write_json`` writes."""
    checked = {**content, CHECK: _hash_of(json.loads(json.dumps(content)))}
    return json.dumps(checked, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """The whole file anew, at once. Raises DiskFullError, and leaves what was there."""
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def secret_in(file: Path) -> str:
    """Return the secret in a file that this account alone can read, made when it is first asked
    for.

    Raises DiskFullError.
    """
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        made = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        with full_disk_named(file.parent):
            made.touch(mode=0o600)
            made.write_text(secrets.token_urlsafe(32), encoding="utf-8")
        with suppress(FileExistsError):  # of two processes the first one's counts
            os.link(made, file)
        made.unlink()
    return file.read_text(encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """What ``write_json`` has written. Raises FileNotFoundError, DamagedError when it is not that
    any more."""
    return read_checked(path)[0]


def read_checked(path: Path) -> tuple[dict[str, Any], bool]:
    """As ``read_json``, and whether it is surely what was written: without a hash it may be
    anything."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedError(path, error.strerror or str(error)) from error
    return _checked(text, path)


def json_content(text: bytes, path: Path | str) -> dict[str, Any]:
    """As ``read_json``, of what was read from there."""
    return _checked(text, path)[0]


def _checked(text: bytes, path: Path | str) -> tuple[dict[str, Any], bool]:
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
    """Over the bytes of the file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_named(name: str, temporary: Path) -> str:
    """The name of a file of these bytes that is to be known again, without a suffix."""
    return f"{name}.{sha256_of(temporary)[:_DIGITS]}"


def is_as_named(path: Path) -> bool:
    """Check that the file's bytes are those that its name was made of.

    Earlier versions put no digest into the name: ``20261123T232445.389791-c32e3f.parquet`` has
    none, though its run id has a dot. Such a file cannot be checked, and is taken as it is.
    """
    found = _DIGEST_IN_NAME.search(path.name)
    return found is None or sha256_of(path)[:_DIGITS] == found[1]


def sweep_partials(folder: Path) -> None:
    """Remove, at any depth, what killed processes have left half written; a living one's stays."""
    for partial in folder.rglob(f".*{PARTIAL}"):
        if not _is_being_written(partial):
            partial.unlink(missing_ok=True)


def _is_being_written(partial: Path) -> bool:
    """By another process of this machine that lives."""
    number = partial.name.removeprefix(".").partition("-")[0]
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A file to write, which gets its name, in place of an older one, when the block has ended
    well. Raises UsageError where something stands that is no file."""
    refuse_no_file(path)
    with temporary_file(path.parent) as temporary:
        yield temporary
        publish_file(temporary, path)


def refuse_no_file(path: Path) -> None:
    """Raises UsageError for a device or a pipe: a file would take its place, for all of the
    machine."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"{path}: that is no file, but a device or a pipe; name a file")


@contextmanager
def temporary_file(folder: Path) -> Iterator[Path]:
    """A file in the folder, made if need be, that is gone when the block ends, unless it was
    published.

    Raises DiskFullError when the block cannot write for want of space.
    """
    path = folder / f".{os.getpid()}-{secrets.token_hex(8)}{PARTIAL}"
    try:
        with full_disk_named(folder):
            folder.mkdir(parents=True, exist_ok=True)
            yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def scratch_file(folder: Path) -> Iterator[IO[bytes]]:
    """A file without a name, for what may be more than memory holds: on the folder's disk, or,
    where it may not be written to, where the system has such files. Raises DiskFullError when the
    block cannot write for want of space."""
    with full_disk_named(folder), _without_a_name(folder) as file:
        yield file


def _without_a_name(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:
        return tempfile.TemporaryFile()


@contextmanager
def full_disk_named(folder: Path) -> Iterator[None]:
    """Raises DiskFullError when the block cannot write for want of space."""
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
    """Those that read a file of the folder and write it anew, threads or processes, do so one after
    the other; the file itself cannot be locked, for another takes its place."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def publish_file(temporary: Path, path: Path) -> None:
    """Give the file its name, in place of an older one."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
