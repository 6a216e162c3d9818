"""The limits of the documentation's sentences, cells and pages, as `make docs` checks them."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "prose.py"
LONG = "One " + "word " * 34 + "more."
SHORT = "One " + "word " * 33 + "more."


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose_of_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    prose = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prose)
    return prose


def test_the_documentation_keeps_the_limits(prose: ModuleType):
    assert prose.faults_of_pages(prose.named_pages([]), prose.UNMENDED) == []


@pytest.mark.parametrize(
    "text",
    [
        SHORT,
        f"{SHORT} {SHORT}",
        f"{SHORT}\ngraphmill is a name that begins a sentence.",
        f"{SHORT} `--all` begins one too.",
        f"- {SHORT}\n- {SHORT}",
        f"```\n{LONG}\n```",
        f"`{LONG}` is one word.",
        f"[A link](of/{'/'.join('words')}) and ![{LONG}](picture.svg).",
        f"| a | b |\n|---|---|\n| {'word ' * 25}| {'word ' * 25}|",
    ],
)
def test_short_sentences_cells_and_any_code_are_no_faults(prose: ModuleType, text: str):
    assert list(prose.faults_of_page("a.md", text)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"# A\n\n{SHORT} {LONG}", ":3: a sentence of 36 words, 35 at most: One word"),
        (f"- One.\n- {LONG}", ":2: a sentence of 36 words"),
        (f"{SHORT[:-1]} (a, b, ...) and [more](b.md).", ":1: a sentence of 39 words"),
        (f"| a |\n|---|\n| {'word ' * 26}|", ":3: a cell of 26 words, 25 at most: word"),
        ("One. Two. " * 751, ": 1502 words, 1500 at most; make it two pages"),
    ],
)
def test_each_fault_is_told_with_its_line(prose: ModuleType, text: str, fault: str):
    [told] = prose.faults_of_page("a.md", text)
    assert told.startswith(fault)


def test_a_page_with_faults_may_be_listed_but_no_other(prose: ModuleType):
    assert prose.faults_of_pages({"a.md": LONG}, frozenset({"a.md"})) == []
    told = prose.faults_of_pages({"a.md": SHORT}, frozenset({"a.md", "b.md"}))
    assert [fault.split(";")[0] for fault in told] == [
        "a.md: has no faults any more",
        "b.md: is no page",
    ]


def test_a_short_page_needs_no_reason_to_be_long(prose: ModuleType):
    name = next(iter(prose.REFERENCE))
    [told] = prose.faults_of_page(name, SHORT)
    assert "remove it from REFERENCE" in told
