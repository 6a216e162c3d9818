"""Hashes of files, kept from night to night as git keeps them: a file is read again when what the
file system says of it is not what it was.

The rule for what was written just now is git's too: while a second write could leave the same
times, nothing is kept. The list is a cache. What of it is damaged or gone is hashed anew.
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
"""Seconds. A file system's clock goes in steps of up to two, within which two contents can have the
same times."""
_STATE = struct.Struct("<QQqqq")
_GREATEST = 2**64 - 1
_ENTRY = np.dtype([("key", f"V{8 + _STATE.size}"), ("hash", "V32")])
_LAYOUT = b"file hashes 1"
_CHECK = 32

_MET: dict[str, tuple[bytes, str]] = {}


def state_of(state: os.stat_result) -> bytes:
    """What tells a file's content apart from an earlier one: device, inode, size, times of its
    content and of itself. The last of these no copying program can set."""
    device, inode = state.st_dev & _GREATEST, state.st_ino & _GREATEST
    return _STATE.pack(device, inode, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def is_settled(state: bytes, moment: float) -> bool:
    """Whether a write after the moment would have left another state."""
    *_, modified, changed = _STATE.unpack(state)
    return max(modified, changed) / 1e9 + SETTLED_AFTER < moment


def key_of(name: str, state: bytes) -> bytes:
    """Under which the hash of a file is kept; the name itself is not."""
    return xxhash.xxh3_64_digest(name.encode()) + state


def hashed(path: Path) -> tuple[bytes, str]:
    """A file's state and the SHA-256 of its content, for which it is read once a process for as
    long as it stays as it is. Raises OSError."""
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
    """By ``key_of``, those that ``keep_hashes`` has left there; none where they are not what was
    written."""
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
    """Where that can be written: who may only read the project does without."""
    entries = b"".join(key + bytes.fromhex(content) for key, content in hashes.items())
    with suppress(OSError, DiskFullError), new_file(path) as temporary:
        temporary.write_bytes(_check(entries) + entries)


def _check(entries: bytes) -> bytes:
    return hashlib.sha256(_LAYOUT + entries).digest()
