"""Fingerprints of code, kept from one process to the next beside the bytecode of the package:
parsing its sources anew takes longer than most else that starting costs.

They hold for the bytes of all its sources, so that no edit is missed. Where nothing can be kept, in
an installation that is another user's or with PYTHONDONTWRITEBYTECODE, each process makes its own.
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
    """The fingerprint of a definition in the package of this folder."""
    sources, file = sources_hash(package), _file(package)
    kept = _read(file, sources)
    if definition in kept:
        return kept[definition]
    code = make()
    if (
        _hash(package) == sources
    ):  # else an upgrade came as this process ran, and the code may be of either
        _keep(file, sources, {**kept, definition: code})
    return code


@cache
def sources_hash(package: Path) -> str:
    """As the package is when this process first asks."""
    return _hash(package)


def _hash(package: Path) -> str:
    """Over the names and bytes of all its modules."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        found.update(f"{path.relative_to(package)} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def _file(package: Path) -> Path:
    """Of this Python alone, as bytecode is."""
    return Path(cache_from_source(str(package / f"{NAME}.py"))).with_suffix(".json")


def _read(file: Path, sources: str) -> dict[str, str]:
    """What is there for these sources; what another process has kept meanwhile too. A damaged file
    is no file."""
    with suppress(OSError, GraphmillError):
        content = read_json(file)
        if content.get("sources") == sources:
            return content.get("codes", {})
    return {}


def _keep(file: Path, sources: str, codes: dict[str, str]) -> None:
    if not sys.dont_write_bytecode:
        with suppress(OSError, GraphmillError):
            write_json(file, {"sources": sources, "codes": codes})
