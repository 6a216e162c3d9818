"""Check that the documentation is short enough to read: a part of `make docs`.

    python .ci/prose.py              # all pages
    python .ci/prose.py docs/ui.md   # every fault of these pages, also of one in `UNMENDED`

A sentence has at most `LONGEST_SENTENCE` words, the cell of a table `LONGEST_CELL`, and a page
`LONGEST_PAGE` unless `REFERENCE` gives a reason. Blocks of code and pictures do not count, a link
counts as its text, and inline code as one word.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
OF_THE_REPOSITORY = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
LONGEST_SENTENCE = 35
LONGEST_CELL = 25
LONGEST_PAGE = 1500
REFERENCE = {
    "docs/tables.md": "every column of every table, looked up by name",
    "docs/verbs.md": "every verb with its params, looked up by name",
    "CONTRIBUTING.md": "a list for each kind of change, looked up by kind",
}
"""Longer pages, which nobody reads from end to end -> the reason."""
UNMENDED: frozenset[str] = frozenset()
"""Pages with faults. The list only shrinks: a page without faults must leave it."""
INLINE_CODE = "Code"
"""Stands for inline code: one word, which may begin a sentence."""
END_OF_SENTENCE = re.compile(r"(?<=[.!?])[)\"']*\s+(?=[^a-z]|graphmill\b)")
"""A small letter goes on with the sentence, for example after "..."; only our name begins one."""
WORD = re.compile(r"\S*\w\S*")


def main(names: list[str]) -> None:
    faults = faults_of_pages(named_pages(names), frozenset() if names else UNMENDED)
    print(*faults, sep="\n", file=sys.stderr)
    print(f"prose: {len(faults)} faults")
    raise SystemExit(bool(faults))


def named_pages(names: list[str]) -> dict[str, str]:
    """Return the texts of these pages by name, or of all pages."""
    if not names:
        docs = sorted((ROOT / "docs").glob("*.md"))
        names = [*OF_THE_REPOSITORY, *(path.relative_to(ROOT).as_posix() for path in docs)]
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in names}


def faults_of_pages(pages: dict[str, str], unmended: frozenset[str]) -> list[str]:
    """Return the faults of pages; of a page in `unmended` only that it has none any more."""
    faults = []
    for name, text in pages.items():
        found = [f"{name}{fault}" for fault in faults_of_page(name, text)]
        if name not in unmended:
            faults += found
        elif not found:
            faults.append(f"{name}: has no faults any more; remove it from UNMENDED")
    gone = sorted(unmended - pages.keys())
    return faults + [f"{name}: is no page; remove it from UNMENDED" for name in gone]


def faults_of_page(name: str, text: str) -> Iterator[str]:
    """Yield the faults of a page, each beginning with its line."""
    words_of_page = 0
    for line, in_table, said in parts_of(text):
        words_of_page += count_words(said)
        kind, most = ("cell", LONGEST_CELL) if in_table else ("sentence", LONGEST_SENTENCE)
        pieces = [said] if in_table else END_OF_SENTENCE.split(said)
        for piece in pieces:
            if (words := count_words(piece)) > most:
                yield f":{line}: a {kind} of {words} words, {most} at most: {piece[:70]} ..."
    if words_of_page > LONGEST_PAGE and name not in REFERENCE:
        yield f": {words_of_page} words, {LONGEST_PAGE} at most; make it two pages"
    elif words_of_page <= LONGEST_PAGE and name in REFERENCE:
        yield f": {words_of_page} words are allowed to any page; remove it from REFERENCE"


def parts_of(text: str) -> Iterator[tuple[int, bool, str]]:
    """Yield paragraphs, items, titles and cells: the line, whether it is a cell, and the text."""
    line, cell = 1, False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.map:
            line = token.map[0] + 1
        if token.type in ("th_open", "td_open"):
            cell = True
        elif token.type in ("th_close", "td_close"):
            cell = False
        elif token.type == "inline":
            yield line, cell, text_of(token.children or ())


def text_of(tokens: Iterable[Token]) -> str:
    """Return the text that a reader sees, with a word for inline code."""
    seen = {"code_inline": INLINE_CODE, "softbreak": " ", "hardbreak": " "}
    shown = (
        token.content if token.type == "text" else seen.get(token.type, "") for token in tokens
    )
    return "".join(shown)


def count_words(text: str) -> int:
    return len(WORD.findall(text))


if __name__ == "__main__":
    main(sys.argv[1:])
