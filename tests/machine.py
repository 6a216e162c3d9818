"""Where tests run: what they write is in memory, and the certificates of the machine are read
once. The garbage collector has the threshold that the command sets."""

import gc
import os
import shutil
import ssl
import sys
import tempfile
from pathlib import Path
from typing import Any

from httpx2._transports import default as transports

from pipeline.__main__ import NEW_OBJECTS

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


def read_certificates_once() -> None:
    """Let the clients of endpoints share one TLS context for each set of certificates.

    Each client would read all certificates of the machine, which takes 20 ms. Most endpoints of
    tests are without TLS. An empty file of certificates is no way out: OpenSSL refuses it.
    """
    create = transports.create_ssl_context  # pyright: ignore[reportPrivateImportUsage]
    contexts: dict[tuple[object, ...], ssl.SSLContext] = {}

    def create_or_share(
        verify: ssl.SSLContext | str | bool = True, cert: Any = None, trust_env: bool = True
    ) -> ssl.SSLContext:
        if verify is not True or cert:
            return create(verify=verify, cert=cert, trust_env=trust_env)
        names = ("SSL_CERT_FILE", "SSL_CERT_DIR")
        key = (trust_env, *(os.environ.get(name) for name in names))
        if key not in contexts:
            contexts[key] = create(trust_env=trust_env)
        return contexts[key]

    transports.create_ssl_context = create_or_share  # pyright: ignore[reportPrivateImportUsage]


def collect_garbage_as_the_command() -> None:
    """Set the command's threshold of the garbage collector. Tests run commands in this process.

    With Python's default of 700, a quarter of the time of collecting the tests goes into garbage.
    """
    gc.set_threshold(NEW_OBJECTS)


def write_bytecode() -> None:
    """Let this process and the commands that it starts keep bytecode, also where the environment
    says that none is written.

    Without it each of a thousand commands compiles the package and its fingerprints anew.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def keep_from_the_collector() -> None:
    """Keep all objects of this moment from the garbage collector.

    The modules and the list of all tests are 600,000 objects, which stay to the end.
    """
    gc.collect()
    gc.freeze()
