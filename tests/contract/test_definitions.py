"""The definitions that a function depends on, in modules written for these tests; the names that
definitions load, compared with Python's own compiler."""

import argparse
import ast
import asyncio.base_events
import asyncio.tasks
import dataclasses
import dis
import email.message
import enum
import functools
import inspect
import json.decoder
import statistics
import sys
import textwrap
import typing
import unittest.mock
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from pipeline.contract import definitions
from pipeline.contract.definitions import forms


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(definitions, "PACKAGE", "mill")
    monkeypatch.setattr(definitions, "MACHINERY", frozenset({"registry"}))
    monkeypatch.syspath_prepend(tmp_path)
    definitions._spec.cache_clear()
    (tmp_path / "mill").mkdir()
    for name, source in {
        "__init__": "",
        "registry": "def verb(f): ...",
        "letters": "def low(): return 1\ndef up(): return 2",
    }.items():
        (tmp_path / f"mill/{name}.py").write_text(source)

    def made(source: str) -> list[list[str]]:
        (tmp_path / "mill/it.py").write_text(textwrap.dedent(source))
        return forms("mill.it", "it")

    yield made
    definitions._spec.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "mill"]:
        del sys.modules[name]


SHADOWED = [
    "def it({0}): return {0}",
    "def it(*{0}): return {0}",
    "def it(): return [{0} for {0} in ()]",
    "def it(x): return lambda {0}: {0}",
    "def it():\n    {0} = 1\n    def within(): return {0}\n    return within",
    "def it():\n    def {0}(): ...\n    return {0}",
    "def it():\n    import os as {0}\n    return {0}",
    "def it():\n    try: ...\n    except OSError as {0}: return {0}",
    "def it(x):\n    match x:\n        case [*{0}]: return {0}",
    "def it(x):\n    match x:\n        case {{**{0}}}: return {0}",
    "def it():\n    [y for x in () if (y := x)]\n    return [({0} := 1), {0}]",
    "def it():\n    for {0} in (): return {0}",
    "def it():\n    with open('x') as {0}: return {0}",
    "def it(x): return x.low",
    "def it(x): return x(low=1)",
]
REACHED = [
    "def it(): return {0}",
    "def it(x={0}): return x",
    "def it(x: {0}): return x",
    "@{0}\ndef it(): ...",
    "def it(): return [{0} for x in {0}]",
    "def it(): return [{0} for {0} in {0}]",
    "def it():\n    def within({0}): return {0}\n    return within({0})",
    "class it:\n    x = {0}",
    "class it:\n    {0} = {0}",
    "class it:\n    low = 1\n    def f(self): return {0}",
    "class it({0}): ...",
    "def it():\n    global {0}\n    {0} = {0} + 1",
    "def it():\n    return f'{{{0}}}'",
    "def it():\n    return (lambda: {0})()",
    "async def it():\n    async for x in {0}: yield x",
    "it = [{0}]",
    "it = 1\nit += {0}",
    "it = []\nit.append({0})",
    "if True:\n    it = {0}\nelse:\n    it = 2",
    "for x in {0}:\n    it = x",
    "try:\n    it = {0}\nexcept OSError:\n    it = 2",
    "it = aside = {0}",
]


def _edited(source: str) -> tuple[str, str]:
    return (
        f"def low(): return 1\n{source.format('low')}",
        f"def low(): return 2\n{source.format('low')}",
    )


@pytest.mark.parametrize("source", REACHED)
def test_a_name_is_followed_to_its_definition(module, source: str):
    before, after = _edited(source)
    assert module(before) != module(after)


@pytest.mark.parametrize("source", SHADOWED)
def test_a_local_name_is_not_followed(module, source: str):
    before, after = _edited(source)
    assert module(before) == module(after)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "from mill.letters import low, up\ndef it(): return low, up",
            "from mill.letters import low, up\ndef it(): return up, low",
        ),
        (
            "from math import floor as f\ndef it(): return f",
            "from math import ceil as f\ndef it(): return f",
        ),
        (
            "def it():\n    from math import floor as f\n    return f",
            "def it():\n    from math import ceil as f\n    return f",
        ),
        ("a, b = 1, 2\ndef it(): return a", "a, b = 1, 2\ndef it(): return b"),
        ("def it(): return 1", "def it(): return True"),
        ("def it(): return '1'", "def it(): return b'1'"),
        ("def it(x): return x.a", "def it(x): return x.b"),
        ("def it(x): return x < 1", "def it(x): return x <= 1"),
        ("def it(x): return -x", "def it(x): return +x"),
        ("def it(x, /): return x", "def it(x): return x"),
        ("def it(x): yield from x", "def it(x): yield x"),
        ("def it(x): return f'{x!r}'", "def it(x): return f'{x!s}'"),
        ("def it(x): return f'{x:>3}'", "def it(x): return f'{x:>4}'"),
        ("class it:\n    x: int = 1", "class it:\n    y: int = 1"),
        ("class it:\n    def a(self): ...", "class it:\n    def b(self): ..."),
        ("def it(**x): return x", "def it(*x): return x"),
    ],
)
def test_code_that_may_give_another_result_has_another_form(module, one: str, other: str):
    assert module(one) != module(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "from mill.letters import low\ndef it(): return low",
            "from mill.letters import *\ndef it(): return low",
        ),
        (
            "from mill import letters\ndef it(): return letters.low",
            "import mill.letters as x\ndef it(): return x.low",
        ),
        ("a, b = 1, 2\ndef it(): return a", "c, d = 1, 2\ndef it(): return c"),
        (
            "def it(): return low()\ndef low(): return it()",
            "def low(): return it()\ndef it(): return low()",
        ),
        ("class A: ...\ndef it(): return A", "class B: ...\ndef it(): return B"),
        (
            "def it(): return a()\ndef a(): return 1\ndef b(): return 1",
            "def it(): return b()\ndef a(): return 1\ndef b(): return 1",
        ),
        (
            "from mill.registry import verb\n@verb\ndef it(): ...",
            "from mill import registry\n@registry.verb\ndef it(): ...",
        ),
    ],
)
def test_the_place_and_name_of_a_definition_do_not_count(module, one: str, other: str):
    assert module(one) == module(other)


def test_a_module_that_is_passed_as_a_value_counts_as_a_whole(module):
    handed = "from mill import letters\ndef it(): return vars(letters)"
    assert len(module(handed)) == 3


STANDARD = [
    argparse,
    ast,
    asyncio.base_events,
    asyncio.tasks,
    dataclasses,
    email.message,
    enum,
    functools,
    inspect,
]
STANDARD += [json.decoder, statistics, textwrap, typing, unittest.mock]


@pytest.mark.parametrize("module", STANDARD, ids=lambda module: module.__name__)
def test_the_names_of_a_definition_are_those_that_the_compiler_finds(module: ModuleType):
    """A definition loads at least the names that its compiled body loads; decorators, defaults and
    annotations add some."""
    source = inspect.getsource(module)
    compiled = [
        code for code in compile(source, "it", "exec").co_consts if isinstance(code, CodeType)
    ]
    read = definitions._parse_module(source)
    for place, statement in enumerate(read.statements):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min(
                [statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)]
            )
            (code,) = [
                code
                for code in compiled
                if code.co_name == statement.name and code.co_firstlineno == first
            ]
            found = {
                token.start
                for token in read.form(place)
                if isinstance(token, definitions._Reference)
            }
            assert _globals(code) <= found
            if not any(isinstance(node, ast.ClassDef) for node in ast.walk(statement)):
                assert {name for name in found if isinstance(name, str)} <= _globals(
                    code
                ) | _around(statement)


def _around(statement: ast.AST) -> set[str]:
    """Return the names in decorators, defaults and annotations of a function and of functions
    within it."""
    functions = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    parts = [
        part
        for node in functions
        for part in (node.args, *node.decorator_list, node.returns)
        if part
    ]
    return {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}


def _globals(code: CodeType) -> set[str]:
    """Return the globals that a function's code, and the code within it, surely loads.

    In the code of a class body, globals look like the class's own names; only those that it does
    not bind are taken.
    """
    steps = list(dis.get_instructions(code))
    if code.co_flags & inspect.CO_OPTIMIZED:
        own = {step.argval for step in steps if step.opname == "LOAD_GLOBAL"}
    else:
        stored = {step.argval for step in steps if step.opname in {"STORE_NAME", "DELETE_NAME"}}
        own = (
            {step.argval for step in steps if step.opname == "LOAD_NAME"}
            - stored
            - {"__name__", "__qualname__"}
        )
    return own.union(
        *(_globals(within) for within in code.co_consts if isinstance(within, CodeType))
    )
