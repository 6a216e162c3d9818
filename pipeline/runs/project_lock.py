"""Lock the folder of a project's runs, or of its snapshots, and tell which process holds it.

lock      the lock itself, which the operating system releases however its holder ends
holder    a note for people and other processes: who holds the lock, and since when
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import LockedError

LOCK, HOLDER = "lock", "holder"
PATIENCE = 0.5
"""Seconds to wait for the lock. A process that only looks who holds it has it for an instant, and
must not make a run fail."""
_NOTE = re.compile(r"(.+), since (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC")
"""The text of the note, as `lock_folder` writes it. Processes of an earlier version write it so."""


class Holder(NamedTuple):
    """The process that holds a lock, and the time since when in ISO 8601."""

    process: str
    locked_since: str


@contextmanager
def lock_folder(folder: Path, otherwise: str) -> Iterator[None]:
    """Hold the lock of a folder while the block runs.

    Raises LockedError, which says ``otherwise``, if another process holds it.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    note = folder / HOLDER
    try:
        lock = FileLock(folder / LOCK).acquire(timeout=PATIENCE, poll_interval=PATIENCE / 10)
    except Timeout as error:
        raise LockedError(
            f"{folder.parent}: {otherwise} (process {_read_note(note)}); wait for it to end"
        ) from error
    with lock:
        # A full disk must not keep the garbage collection from making space.
        with suppress(OSError):
            since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S UTC}"
            note.write_text(f"{this_process()}, since {since}", encoding="utf-8")
        yield


def note_of_holder(folder: Path) -> str | None:
    """Return the note of the process that holds the lock of a folder, or None if none does.

    The note is "unknown" if it cannot be read.
    """
    try:
        with (folder / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_note(folder / HOLDER)
    except OSError:
        return None
    return None


def parse_note(note: str) -> Holder | None:
    """Return what the note of a holder says, or None if it is cut off or unknown."""
    found = _NOTE.fullmatch(note)
    if not found:
        return None
    process, day, time = found.groups()
    return Holder(process, f"{day}T{time}Z")


def this_process() -> str:
    return process_of(os.getpid())


def process_of(number: int) -> str:
    """Return the name of a process of this machine, as used in notes and messages."""
    return f"{number} on {os.uname().nodename}"


def _read_note(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"
