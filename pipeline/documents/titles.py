"""The title of a document, and how much it is worth: one that somebody gave, a heading, a first
line, a file's name."""

import re
from dataclasses import dataclass
from typing import Literal

from pipeline.text.ids import clean

LONGEST = 120
Found = Literal["given", "heading", "first_line", "file_name"]
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(?P<title>\S.*)")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})")


@dataclass(frozen=True)
class Title:
    """``found``: where, as in the column ``title_from`` of documents."""

    text: str
    found: Found


def title_of(text: str, name: str, *, given: str = "", headings: bool, lines: bool = True) -> Title:
    """The best title of a document: the one ``given``, its first heading outside of code (where
    ``headings`` are written as # in Markdown), its first line (where its ``lines`` are sentences),
    its ``name``."""
    if given:
        return Title(given, "given")
    heading = _first_heading(text) if headings else ""
    if heading:
        return Title(heading, "heading")
    line = _first_line(text) if lines else ""
    return Title(line, "first_line") if line else Title(name, "file_name")


def _first_heading(text: str) -> str:
    """ "" where there is none that is short enough for a title. A fence that is never closed goes
    on to the end."""
    fence = ""
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            fence = _fenced(fence, mark["fence"], line)
        elif (
            not fence
            and (heading := _HEADING.match(line))
            and (title := heading["title"].rstrip(" \t#"))
        ):
            return title if len(title) <= LONGEST else ""
    return ""


def _fenced(fence: str, mark: str, line: str) -> str:
    """The fence that is open after the line with this mark; one is closed by as long a one of its
    kind, and nothing else on the line."""
    if not fence:
        return mark
    closes = mark[0] == fence[0] and len(mark) >= len(fence) and not line.strip().strip(mark[0])
    return "" if closes else fence


def _first_line(text: str) -> str:
    """The first line with a letter or digit in it, without heading marks, if it is short enough for
    a title."""
    word = re.search(r"[^\W_]", text)
    if word is None:
        return ""
    start = text.rfind("\n", 0, word.start()) + 1
    head = text[start : start + LONGEST * 2].partition("\n")[0].lstrip("# \t").strip()
    return head if len(head) <= LONGEST else ""


_NO_TITLE = re.compile(
    r"(?:untitled|no title|title|document|doc|presentation|powerpoint"
    r" presentation|slide|layout|workbook|book|sheet"
    r"|page|template|microsoft word|home|index)?[ _-]*\d*",
    re.IGNORECASE,
)
_PROGRAM = re.compile(
    r"(?:microsoft (?:word|excel|powerpoint|publisher)|acrobat|openoffice\S*|print) *- *.*",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(
    r"\S*\.(?:docx?|xlsx?|pptx?|pdf|rtf|odt|txt|tex|dvi|e?ps|html?|indd|qxd|pmd|fm|wpd|tmp)",
    re.IGNORECASE,
)
_LONGEST_DECLARED = 300


def declared(title: str, name: str) -> str:
    """The title that a file declares of itself, on one line; "" for what a program has put there,
    and for no more than the file's ``name``."""
    title = " ".join(clean(title).split())
    junk = any(kind.fullmatch(title) for kind in (_NO_TITLE, _PROGRAM, _FILE_NAME))
    return (
        ""
        if junk or title.casefold() == name.casefold() or len(title) > _LONGEST_DECLARED
        else title
    )
