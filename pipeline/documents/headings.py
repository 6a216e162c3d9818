"""Find the headings above a place in a document."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from pipeline.text.ids import is_syllabic

BETWEEN = " > "
"""The text between two headings of a path."""
LONGEST_HEADING, LONGEST_PATH = 100, 400
"""The most characters of a heading, and of a path. A longer heading is cut, and a path that is too
long loses its first headings."""
OPENING = 1000
"""The number of characters at the beginning of a text that are compared with title and headings."""
READ = 4 * LONGEST_HEADING
"""The number of characters of a line that are read: with links, more than are shown."""
MARKDOWN = frozenset(
    {
        ".md", ".markdown", ".docx", ".pptx", ".xlsx", ".epub", ".html", ".htm", ".mhtml", ".mht",
        ".odt", ".ipynb",
    }
)  # fmt: skip
"""Suffixes of files that are Markdown, or are converted to it."""
WITHOUT_HEADINGS = frozenset({".pdf", ".log", ".rtf", ".eml"})
"""Suffixes of files in whose texts # never begins a heading."""

# Each alternative begins at the start of a line and reads one line, so the search is linear. The
# quantifiers are possessive for the same reason.
_MARK = re.compile(
    r"""^[ ]{0,3}(?:
        (?P<marks>\#{1,6})(?![^ \t\n])(?P<title>[^\n]*)
        | (?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n]*)
        | (?P<rule>={3,}+|-{3,}+)[ \t]*+$
    )""",
    re.MULTILINE | re.VERBOSE,
)
_WORD = re.compile(r"\w+")
_CLOSING = re.compile(r"[ \t]#+[ \t]*\Z|[ \t]*\{#[^{}]*\}[ \t]*\Z")
"""Marks behind a heading: # in any number, or an anchor."""
_LINK = re.compile(r"!?\[(?P<text>[^\[\]]*)\]\([^()]*\)")
_EMPHASIS = re.compile(r"\*\*|__|[*`]")
_PLACE_OF_RECORD = re.compile(r"\.\w{1,10}#|\brow #\d")
_NO_PARAGRAPH = ("#", "|", ">", "-", "*", "+", "=", "`", "~", "<")
"""Beginnings of lines that an underline turns into no heading."""


class Heading(NamedTuple):
    """A heading: the position where its line begins, its level from 1, and its text, or ""."""

    start: int
    level: int
    text: str


class HeadingPaths:
    """The headings above places of a text, which are asked for from the first to the last."""

    def __init__(self, text: str, source: str, title: str):
        """Prepare for one pass over the headings.

        ``source`` names the document's file, whose suffix says whether it is Markdown. A first
        heading equal to ``title`` is left out of all paths.
        """
        self._headings = headings_of(text, source)
        self._next = next(self._headings, None)
        self._title = _key(title)
        self._above: list[Heading] = []

    def above(self, place: int) -> str:
        """Return the path of headings that begin at or before ``place``, "" if there are none."""
        while self._next is not None and self._next.start <= place:
            while self._above and self._above[-1].level >= self._next.level:
                self._above.pop()
            self._above.append(self._next)
            self._next = next(self._headings, None)
        texts = [heading.text for heading in self._above if heading.text]
        if texts and _key(texts[0]) == self._title:
            texts = texts[1:]
        return _join(texts)


def headings_of(text: str, source: str) -> Iterator[Heading]:
    """Return the headings of a document whose file is ``source``, in order.

    A text of another kind than Markdown has headings only if it looks like Markdown.
    """
    suffix = PurePath(source).suffix.lower()
    if suffix in MARKDOWN:
        return find_headings(text)
    if suffix in WITHOUT_HEADINGS or not looks_like_markdown(text):
        return iter(())
    return find_headings(text)


def looks_like_markdown(text: str) -> bool:
    """Return whether a plain text has headings of two levels, each between blank lines.

    One level is not enough: comments in scripts and configuration begin with # too.
    """
    levels: set[int] = set()
    for mark in _marks_outside_code(text):
        if mark["marks"] and _stands_alone(text, mark):
            levels.add(len(mark["marks"]))
        if len(levels) > 1:
            return True
    return False


def find_headings(text: str) -> Iterator[Heading]:
    """Yield the headings of a text in Markdown: lines with #, and lines underlined by = or -.

    Lines in blocks of code are skipped. The line above an underlined one must be blank.
    """
    for mark in _marks_outside_code(text):
        if mark["marks"]:
            # The search for closing marks may take the square of a line's length.
            title = _CLOSING.sub("", mark["title"].strip()[:READ]).strip()
            # A closing mark alone, as in "## ##", leaves no title.
            shown = "" if title.strip("#") == "" else _plain(title)
            yield Heading(mark.start(), len(mark["marks"]), shown)
        elif underlined := _underlined(text, mark.start()):
            start, line = underlined
            yield Heading(start, 1 if mark["rule"][0] == "=" else 2, _plain(line))


def _marks_outside_code(text: str) -> Iterator[re.Match[str]]:
    """Yield the marks of headings; a block of code that is never closed goes on to the end."""
    fence = ""
    for mark in _MARK.finditer(text):
        found = mark["fence"]
        if found is None:
            if not fence:
                yield mark
        elif not fence:
            fence = found
        elif found[0] == fence[0] and len(found) >= len(fence) and not mark["info"].strip():
            fence = ""


def _underlined(text: str, rule: int) -> tuple[int, str] | None:
    """Return start and text of the heading above an underline, or None if that is none.

    ``rule`` is the position of the underline.
    """
    end = rule - 1
    # The search is bounded, since the line may be very long.
    start = text.rfind("\n", max(0, end - READ), max(0, end)) + 1
    if end <= 0 or (not start and end > READ):
        return None
    line = text[start:end].strip()
    if not line or line.startswith(_NO_PARAGRAPH):
        return None
    line_before = text[text.rfind("\n", 0, start - 1) + 1 : start] if start else ""
    return None if line_before.strip() else (start, line)


def _stands_alone(text: str, mark: re.Match[str]) -> bool:
    """Return whether blank lines, or the ends of the text, surround the line of a mark."""
    before = text[max(0, mark.start() - 2) : mark.start()]
    after = text[mark.end() : mark.end() + 2]
    # Fewer than two characters are there at the ends of the text.
    blank = ("", "\n", "\n\n")
    return before in blank and after in blank


def _plain(title: str) -> str:
    """Return the text of a heading without marks of links and emphasis, cut to its limit."""
    plain = " ".join(_EMPHASIS.sub("", _LINK.sub(r"\g<text>", title[:READ])).split())
    if len(plain) <= LONGEST_HEADING:
        return plain
    return plain[: LONGEST_HEADING - 1].rstrip() + "…"


def _key(title: str) -> str:
    """Return the form in which a heading and a title are compared."""
    return _plain(title).casefold()


def _join(texts: list[str]) -> str:
    """Return the headings as a path; first ones are left out until it is short enough."""
    path = BETWEEN.join(texts)
    while len(path) > LONGEST_PATH:
        texts = texts[1:]
        path = BETWEEN.join(texts)
    return path


def is_place_of_record(title: str) -> bool:
    """Return whether a title is the place of a record, which names nothing.

    It is people.csv#42, or "table people, row #42".
    """
    return _PLACE_OF_RECORD.search(title) is not None


def leave_out_repeated(names: Sequence[str], text: str) -> list[str]:
    """Return title and headings without those with which the text begins, one after the other."""
    opening = _plain_words(text[:OPENING])
    kept: list[str] = []
    for name in filter(None, names):
        key = _plain_words(name.rstrip("…"))
        if key and _begins_with(opening, key):
            opening = opening[len(key) :].lstrip()
        else:
            kept.append(name)
    return kept


def _begins_with(opening: str, key: str) -> bool:
    """Return whether a text begins with a name, both as ``_plain_words`` gives them."""
    if not opening.startswith(key):
        return False
    rest = opening[len(key) :]
    # Han and kana have no spaces between words: the sentence goes on right behind the name.
    return not rest or rest[0] == " " or is_syllabic(key[-1])


def _plain_words(text: str) -> str:
    """Return the words of a text in small letters, with one space between them."""
    return " ".join(_WORD.findall(text.casefold()))
