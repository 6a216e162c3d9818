"""Markdown that is made to take the square of its length, or to fill the memory: all of it is read
and cut."""

import json
import time
from pathlib import Path

import pandas as pd
import pytest

from pipeline.verbs.chunk_documents import ChunkParams, chunk_documents
from pipeline.verbs.load_documents import LoadParams, load_documents

MOST_SECONDS = 10
"""CPU seconds for each text of at most a few megabytes. Each takes one or less."""
BODY = "Mira Vale built the Harrow Light."
TEXTS = {
    "nested lists": "\n".join(f"{'  ' * (depth % 1000)}- item" for depth in range(10_000)),
    "a list of 10,000 marks": f"{'- ' * 10_000}item",
    "nested quotes": f"{'> ' * 10_000}deep",
    "deeper and deeper quotes": "\n".join(f"{'>' * depth} quote" for depth in range(1500)),
    "an unclosed fence": "# A\n\n```\n" + "# no heading\n" * 50_000,
    "many fences": "```\n~~~\n" * 50_000,
    "a long heading": f"# {'lamp ' * 200_000}",
    "a heading of marks": f"# {'#' * 1_000_000}",
    "a heading of links": f"# {'[' * 300_000}\n\n# {'[a](' * 100_000}",
    "a heading of blanks": f"# {' ' * 1_000_000}x",
    "an underlined megabyte": f"{'lamp ' * 200_000}\n===",
    "headings": "# a\n" * 100_000,
    "rules": "---\n" * 100_000,
    "bars": "|" * 1_000_000,
    "tags": "<div>" * 100_000,
    "blank lines": "\n" * 1_000_000,
}
LETTERS = "abcdefgh"
GROWN = [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
         for before, name in zip(LETTERS, LETTERS[1:] + "i", strict=True)]  # fmt: skip
NO_FIELDS = {
    "growing anchors": "\n".join(["a: &a [x, x, x, x, x, x, x, x, x]", *GROWN]),
    "an anchor of itself": "a: &a [*a]",
    "a merged anchor": "b: &b {x: 1}\nc:\n  <<: *b",
    "deep lists": f"a: {'[' * 9000}{']' * 9000}",
    "deep mappings": "\n".join(f"{' ' * depth}k{depth}:" for depth in range(150)),
    "an object of Python": "x: !!python/object/apply:os.system [ls]",
    "a number of 19,000 digits": f"n: {'9' * 19_000}",
    "a field that never ends": "k: v\n" * 200_000,
    "keys that are lists": "? [a, b]\n: c",
}


def load_and_cut(folder: Path, text: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the documents and text units of a file; checks that it took little time."""
    (folder / "a.md").write_text(text)
    began = time.process_time()
    documents, rejects = load_documents(LoadParams(path=str(folder)))
    text_units = chunk_documents(documents, ChunkParams())
    assert time.process_time() - began < MOST_SECONDS
    assert rejects.empty
    return documents, text_units


def assert_read_whole(documents: pd.DataFrame, text_units: pd.DataFrame, text: str) -> None:
    # Of a comparison that fails, pytest would show the difference between megabytes.
    is_whole = documents["text"].item() == text
    assert is_whole
    is_end_found = BODY in text_units["text"].iloc[-1]
    assert is_end_found


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_of_marks_is_read_whole_and_its_end_is_found(tmp_path: Path, name: str):
    text = f"{TEXTS[name]}\n\n{BODY}"
    documents, text_units = load_and_cut(tmp_path, text)
    assert_read_whole(documents, text_units, text)
    assert len(documents["title"].item()) <= 300


@pytest.mark.parametrize("name", NO_FIELDS)
def test_front_matter_that_is_made_to_grow_is_text(tmp_path: Path, name: str):
    text = f"---\n{NO_FIELDS[name]}\n---\n{BODY}"
    documents, text_units = load_and_cut(tmp_path, text)
    assert_read_whole(documents, text_units, text)
    assert json.loads(documents["metadata"].item()) == {}
