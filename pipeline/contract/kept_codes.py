"""Cache of code fingerprints, kept beside the package's bytecode from one process to the next.

Parsing the package's sources takes longer than most of what a start costs. A kept fingerprint is
valid for the bytes of all sources, so that no edit is missed. Where nothing can be written, as in
another user's installation or with PYTHONDONTWRITEBYTECODE, each process computes its own.
"""

import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from pipeline.errors import GraphmillError
from pipeline.files import read_json, write_json

NAME = "fingerprints"


def kept_code(package: Path, definition: str, make: Callable[[], str]) -> str:
    """Return the fingerprint of a definition, kept or computed by ``make``.

    ``package``: the folder of the package's sources.
    """
    sources, file = sources_hash(package), _file(package)
    kept = _read_kept(file, sources)
    if definition in kept:
        return kept[definition]
    code = make()
    # Where nothing may be written, the sources need not be read again.
    # If they differ, the package was upgraded while this process ran; the code may be of either.
    if not sys.dont_write_bytecode and _hash(package) == sources:
        _keep(file, sources, {**kept, definition: code})
    return code


@cache
def sources_hash(package: Path) -> str:
    """Return a hash over the package's sources as they are when this process first asks."""
    return _hash(package)


def _hash(package: Path) -> str:
    """Return a hash over the names and bytes of all modules in this folder."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        found.update(f"{path.relative_to(package)} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def _file(package: Path) -> Path:
    """Return the path of the cache's file, which belongs to this version of Python, as bytecode
    does."""
    return Path(cache_from_source(str(package / f"{NAME}.py"))).with_suffix(".json")


def _read_kept(file: Path, sources: str) -> dict[str, str]:
    """Return the fingerprints that any process has kept for these sources; empty if the file is
    missing or damaged."""
    with suppress(OSError, GraphmillError):
        content = read_json(file)
        if content.get("sources") == sources:
            return content.get("codes", {})
    return {}


def _keep(file: Path, sources: str, codes: dict[str, str]) -> None:
    with suppress(OSError, GraphmillError):
        write_json(file, {"sources": sources, "codes": codes})
