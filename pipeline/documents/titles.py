"""Choose the title of a document: a given one, a heading, its first line, or the file's name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.text.file_names import is_name
from pipeline.text.ids import clean

LONGEST = 120
"""The most characters of a heading or a first line that is taken for a title."""
Found = Literal["given", "heading", "first_line", "file_name"]
TITLE_ORDER: tuple[Found, ...] = ("given", "heading", "file_name", "first_line")
"""The origins of a title, the best first. A file name counts here if it looks like a name; any
other one is the last resort, whatever the order."""
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(?P<title>\S.*)")
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})")


@dataclass(frozen=True)
class Title:
    """A title and its origin, ``found``, as in the column ``title_from`` of documents."""

    text: str
    found: Found


def title_of(
    text: str,
    name: str,
    *,
    given: str = "",
    headings: bool,
    lines: bool = True,
    order: Sequence[Found] = TITLE_ORDER,
) -> Title:
    """Return the best title of a document with this text.

    It is the first of these in ``order`` that there is: the ``given`` one, the first heading, the
    first line, and a ``name`` that looks like one. If there is none, it is the ``name``. Headings
    are used only if ``headings`` says that the text marks them with # as in Markdown; those in
    blocks of code are skipped. The first line is used only if ``lines`` says that lines are
    sentences.
    """
    for origin in order:
        match origin:
            case "given":
                title = given
            case "heading":
                title = _first_heading(text) if headings else ""
            case "file_name":
                title = name if is_name(name) else ""
            case "first_line":
                title = _first_line(text) if lines else ""
        if title:
            return Title(title, origin)
    return Title(name, "file_name")


def _first_heading(text: str) -> str:
    """Return the first heading outside of code, or "" if there is none or it is too long.

    A block of code that is never closed goes on to the end.
    """
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark:
            fence = _open_fence(fence, mark["fence"], line)
            continue
        heading = _HEADING.match(line)
        if fence or not heading:
            continue
        title = heading["title"].rstrip(" \t#")
        if title:
            return title if len(title) <= LONGEST else ""
    return ""


def _open_fence(fence: str, mark: str, line: str) -> str:
    """Return the fence that is open behind a line with the fence ``mark``, or "".

    ``fence`` is the one that is open before the line. A mark of the same kind closes it if it is at
    least as long and alone on its line.
    """
    if not fence:
        return mark
    is_same_kind = mark[0] == fence[0] and len(mark) >= len(fence)
    is_alone = not line.strip().strip(mark[0])
    return "" if is_same_kind and is_alone else fence


def _first_line(text: str) -> str:
    """Return the first line with a letter or digit, or "" if there is none or it is too long.

    Marks of headings at its beginning are removed.
    """
    word = re.search(r"[^\W_]", text)
    if word is None:
        return ""
    start = text.rfind("\n", 0, word.start()) + 1
    head = text[start : start + LONGEST * 2].partition("\n")[0].lstrip("# \t").strip()
    return head if len(head) <= LONGEST else ""


# Titles that programs write into files by themselves.
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
    """Return the title that a file declares of itself, on one line.

    Returns "" for titles that a program wrote, for the file's own ``name``, and for long titles.
    """
    title = " ".join(clean(title).split())
    is_by_program = any(kind.fullmatch(title) for kind in (_NO_TITLE, _PROGRAM, _FILE_NAME))
    is_name = title.casefold() == name.casefold()
    if is_by_program or is_name or len(title) > _LONGEST_DECLARED:
        return ""
    return title
