"""Where tests run: what they write is in memory, and no certificates are read that none of them
looks at."""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 3 << 30
"""Bytes: what the tests, their databases and those of a second run take at most."""


def in_memory() -> None:
    """Projects, databases and their logs wait for no disk: what a kill leaves is the same, and the
    machine stays up. A TMPDIR of one's own is kept."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return
    os.environ["TMPDIR"] = str(MEMORY)  # for all that is started, too
    tempfile.tempdir = None


def without_certificates() -> None:
    """Every client of an endpoint reads all certificates of the machine, 20 ms each time; endpoints
    of tests are without TLS."""
    if "SSL_CERT_FILE" not in os.environ:
        os.environ["SSL_CERT_FILE"] = os.devnull
