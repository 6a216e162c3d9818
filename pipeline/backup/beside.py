"""Temporary files and folders beside the name that they get at the end."""

import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.files import PARTIAL, full_disk_named, is_living

NUMBER_AND_MARK = re.compile(r"-(\d+)-[0-9a-f]+" + re.escape(PARTIAL) + "$")
"""The end of the name of something unfinished: the number of its process, and a random mark."""
_in_use: set[Path] = set()
"""The unfinished paths of this process."""


@contextmanager
def path_beside(final: Path) -> Iterator[Path]:
    """Give a path beside ``final``, and remove what is there at the end, a file or a folder.

    What killed processes have left for the same final name is removed first. Raises DiskFullError
    if the block runs out of disk space.
    """
    prefix = f".{final.name}-"
    for left in final.parent.glob(f"{glob.escape(prefix)}*{PARTIAL}"):
        found = NUMBER_AND_MARK.search(left.name)
        if found and not _is_in_use(left, int(found[1])):
            _remove(left)
    path = final.parent / f"{prefix}{os.getpid()}-{secrets.token_hex(8)}{PARTIAL}"
    _in_use.add(path)
    try:
        with full_disk_named(final.parent):
            final.parent.mkdir(parents=True, exist_ok=True)
            yield path
    finally:
        _remove(path)
        _in_use.discard(path)


def _is_in_use(path: Path, process: int) -> bool:
    """Check that a living process writes the path.

    In a container each process may have the same number as the one before it, which is dead.
    """
    return path in _in_use if process == os.getpid() else is_living(process)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
