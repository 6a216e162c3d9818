"""Fingerprints: a hex string over everything that can change a result, by allow-list."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from typing import Any

from pipeline.contract.definitions import folder_around, forms
from pipeline.contract.kept_codes import kept_code
from pipeline.models.base import version


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of the value's canonical JSON, in hexadecimal."""
    encoded = json.dumps(
        value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(encoded.encode()).hexdigest()


def code_fingerprint(function: Callable[..., Any]) -> str:
    """Return a fingerprint of a function's definition and of all definitions in this package that
    it depends on.

    Comments, docstrings and layout do not count, nor the names, files and modules of definitions
    (definitions.py).
    """
    module, name = function.__module__, function.__qualname__.partition(".")[0]
    package = folder_around(module)
    if package is None:
        return _code(module, name)
    return kept_code(package, f"{module}.{name}", lambda: _code(module, name))


def _code(module: str, name: str) -> str:
    return fingerprint(forms(module, name))


def library_versions(distributions: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those distributions that are installed; a verb may use an optional
    extra."""
    there = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            there[name] = version(name)
    return there
