"""Fingerprints: a hex string over everything that can change a result, by allow-list."""

import ast
import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGE = "pipeline"
OWN = "own verbs"
MACHINERY = frozenset({"errors", "registry", "schemas", "models.base"})
"""Modules that a verb imports and that cannot change its result. Declared schemas and prompts are
fingerprinted as such."""


def fingerprint(value: Any) -> str:
    """SHA-256 over the value's canonical JSON."""
    encoded = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(encoded.encode()).hexdigest()


def code_fingerprint(function: Callable[..., Any]) -> str:
    """Over the function's module and every module of this package it imports, directly or not.

    Comments, docstrings and layout do not count, nor does where a file of a project's own verbs is.
    """
    names = _closure(function.__module__)
    sources = {name if _is_ours(name) else OWN: _read(_source(name)).normalised for name in names}
    return fingerprint([function.__qualname__, sources])


def library_versions(distributions: tuple[str, ...]) -> dict[str, str]:
    """Of those that are there: a verb may use an extra."""
    there = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            there[name] = version(name)
    return there


def _closure(start: str) -> list[str]:
    """The module and what it imports of this package, transitively, machinery left out; sorted."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting.extend(module for module in _modules(_read(_source(name)).imports) if not _is_machinery(module))
    return sorted(seen)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def _is_machinery(module: str) -> bool:
    return module.removeprefix(f"{PACKAGE}.") in MACHINERY


@dataclass(frozen=True)
class _Reading:
    """What counts of a module's source: ``normalised`` is without comments, docstrings and layout; ``imports``
    are its (module, names), the names empty for a plain import."""

    normalised: str
    imports: tuple[tuple[str, tuple[str, ...]], ...]


@cache
def _read(source: str) -> _Reading:
    """By the source itself, which may change while the process goes on."""
    tree = ast.parse(source)
    imports = tuple(_imports(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_docstring(statement)] or [ast.Pass()]
    return _Reading(ast.unparse(tree), imports)


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, tuple(alias.name for alias in node.names)


def _modules(imports: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """The modules of this package among them."""
    for module, names in imports:
        if not names and module.startswith(f"{PACKAGE}."):
            yield module
        elif names and module.partition(".")[0] == PACKAGE:
            submodules = [f"{module}.{name}" for name in names]
            found = [name for name in submodules if _is_module(name)]
            yield from found
            if len(found) < len(submodules) and module != PACKAGE:
                yield module


@cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{module}: no source to fingerprint")
    return Path(spec.origin).read_text(encoding="utf-8")


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
