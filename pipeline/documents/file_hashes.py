"""Keep hashes of files from run to run as git does, so that unchanged files are not read again.

A file is read again if the state that the file system reports has changed. As in git, the hash of a
file that was written just now is not kept, since a second write could leave the same times. The
list of hashes is a cache: if it is damaged or missing, the files are hashed again.
"""

import hashlib
import os
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import xxhash

from pipeline.errors import DiskFullError
from pipeline.files import new_file

SETTLED_AFTER = 3.0
"""The seconds after a write from which on the times of a file identify its content.

The clock of a file system goes in steps of up to two seconds. Within a step, two contents can have
the same times.
"""
_STATE = struct.Struct("<QQqqq")
_GREATEST = 2**64 - 1
_ENTRY = np.dtype([("key", f"V{8 + _STATE.size}"), ("hash", "V32")])
_LAYOUT = b"file hashes 1"
_CHECK = 32

_MET: dict[str, tuple[bytes, str]] = {}
"""The state and the hash of each file that this process has read, by path."""


def state_of(state: os.stat_result) -> bytes:
    """Return the state of a file, which changes with its content.

    It consists of device, inode, size, and the times of the last changes of the content and of the
    inode. No program that copies files can set the latter.
    """
    device, inode = state.st_dev & _GREATEST, state.st_ino & _GREATEST
    return _STATE.pack(device, inode, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def is_settled(state: bytes, moment: float) -> bool:
    """Return whether every write after ``moment`` (seconds since 1970) changes the state."""
    *_, modified, changed = _STATE.unpack(state)
    return max(modified, changed) / 1e9 + SETTLED_AFTER < moment


def key_of(name: str, state: bytes) -> bytes:
    """Return the key of a file's hash: a hash of its name, and its state. The name is not kept."""
    return xxhash.xxh3_64_digest(name.encode()) + state


def hashed(path: Path) -> tuple[bytes, str]:
    """Return the state of a file and the SHA-256 of its content in hexadecimal digits.

    A process reads an unchanged file once. Raises OSError if it cannot be read.
    """
    moment = time.time()
    state = state_of(path.stat())
    before, content = _MET.get(str(path), (b"", ""))
    if state == before:
        return state, content
    with path.open("rb") as stream:
        content = hashlib.file_digest(stream, "sha256").hexdigest()
    if is_settled(state, moment):
        _MET[str(path)] = state, content
    return state, content


def kept_hashes(path: Path) -> dict[bytes, str]:
    """Return the hashes that `keep_hashes` has written to the file, by the keys of `key_of`.

    Returns none if the file is missing or damaged.
    """
    try:
        written = path.read_bytes()
    except OSError:
        return {}
    check, entries = written[:_CHECK], written[_CHECK:]
    if check != _check(entries):
        return {}
    found = np.frombuffer(entries, _ENTRY)
    return dict(zip(found["key"].tolist(), map(bytes.hex, found["hash"].tolist()), strict=True))


def keep_hashes(path: Path, hashes: Mapping[bytes, str]) -> None:
    """Write the hashes to the file, if it can be written: a project may be read-only."""
    parts = [key + bytes.fromhex(content) for key, content in hashes.items()]
    entries = b"".join(parts)
    with suppress(OSError, DiskFullError), new_file(path) as temporary:
        temporary.write_bytes(_check(entries) + entries)


def _check(entries: bytes) -> bytes:
    """Return the checksum that a file of hashes begins with."""
    return hashlib.sha256(_LAYOUT + entries).digest()
