"""Fingerprints: a hex string over everything that can change a result, by allow-list."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipeline.contract.definitions import forms

KNOWN_AS: dict[str, str] = {}


def fingerprint(value: Any) -> str:
    """SHA-256 over the value's canonical JSON."""
    encoded = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(encoded.encode()).hexdigest()


def code_fingerprint(function: Callable[..., Any]) -> str:
    """Over the definition of the function and all those of this package that it depends on (``definitions``).

    Comments, docstrings and layout do not count, nor the names, files and modules of definitions.
    """
    found = fingerprint(forms(function.__module__, function.__qualname__.partition(".")[0]))
    return KNOWN_AS.get(found, found)


def library_versions(distributions: tuple[str, ...]) -> dict[str, str]:
    """Of those that are there: a verb may use an extra."""
    there = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            there[name] = version(name)
    return there
