"""Write an answer as a chat client shows it: citations numbered in order, with links to passages.

Clients show the text as Markdown. The answer's own check has made every number in brackets either a
citation or no number in brackets. Here no link with words of its own is left but those of the list
at the end, so that no text can lead a reader elsewhere under a number, nor forge such a list. Plain
addresses are left, which some clients make links of: a reader sees where they lead, and the check
has removed those that no shown document has.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any
from urllib.parse import quote

from pipeline.query.citations.annotations import Annotation
from pipeline.query.context import Reference
from pipeline.query.marks import on_one_line

SOURCES = "\n\n---\n**Sources**\n\n"
"""The text before the list of sources. No answer of a conversation keeps what follows it."""
_LISTED = re.compile(r"\d+\. ")
LONGEST_TITLE = 200
JOINER = "\u2060"
"""A word joiner, which no client shows. Between ``]`` and ``(`` it keeps Markdown from seeing a
link, and between ``<`` and a letter from seeing HTML."""
_MAKES_LINK = frozenset("([:")
"""Characters with which Markdown makes a link of the brackets before them."""
_MAKES_HTML = re.compile(r"[a-z!?/]", re.IGNORECASE)
"""Characters with which ``<`` begins a tag, a comment or another piece of HTML."""
_OPENS_CODE = re.compile(r"(```+)[^`]*")
"""A line that begins a block of code for every client."""
_ENDS_CODE = re.compile(r"(```+)[ \t]*")
"""A line that ends a block of code, if it has at least as many marks as its beginning."""
_IN_DOUBT = re.compile(r"[\s>*+\-\d.)]*(```|~~~|\$\$)|.*\r", re.DOTALL)
"""A line that may begin or end code, or mathematics: this depends on the lines before it, or on the
client. Line ends without a line feed are included."""
_NO_MARKDOWN = str.maketrans("[]<>\\`*|", "()()/'··")
"""Signs of a title that could end the link, or begin something else in it."""


@dataclass(frozen=True)
class Permalinks:
    """The addresses of passages; ``root`` is that of the workspace's page, "" if there is none."""

    root: str

    def address_of(self, reference: Reference) -> str:
        """Return the address of a passage in the view of its document; "" without a page."""
        if not self.root:
            return ""
        document = quote(reference.document_id, safe="")
        unit = quote(reference.chunk_id, safe="")
        return f"{self.root}/documents/{document}?at={unit}"


@dataclass
class Rendering:
    """The text of one answer as far as it is written.

    The first passage that is cited has the number 1, and so on. Clients that show numbers as links
    into their own list of sources count like that.
    """

    links: Permalinks
    references: Mapping[int, Reference] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    titles: dict[int, str] = field(default_factory=dict)
    _read: int = 0
    _written: int = 0
    _line: list[str] = field(default_factory=list)
    _code_marks: int = 0
    """The number of marks that began the block of code of this line; 0 outside of code."""
    _is_in_doubt: bool = False
    """True once a line in doubt was written: nothing counts as code any more."""

    def show(self, references: Sequence[Reference]) -> None:
        """Take the references that the text may cite from now on."""
        self.references = {reference.id: reference for reference in references}

    def write(
        self, text: str, annotations: Sequence[Annotation]
    ) -> tuple[str, list[dict[str, Any]]]:
        """Return the next piece of the text as it is shown, and its citations.

        ``annotations`` are those of the piece, with their places in the whole answer.
        """
        parts: list[str] = []
        citations: list[dict[str, Any]] = []
        end = 0
        for annotation in annotations:
            start = annotation.start - self._read
            parts.append(self._unlinked(text[end:start]))
            end = annotation.end - self._read
            number = self.numbers.setdefault(annotation.number, len(self.numbers) + 1)
            cited = re.sub(r"\d+", str(number), text[start:end])
            parts.append(self._unlinked(cited))
            # A joiner may stand before it.
            begin = self._written - len(cited)
            citations += self._citation(begin, self._written, annotation.number)
        parts.append(self._unlinked(text[end:]))
        self._read += len(text)
        return "".join(parts), citations

    def list_sources(self, cited: Sequence[Reference]) -> str:
        """Return the list of the cited passages, each with a link to its page."""
        lines: list[str] = []
        for reference in cited:
            number = self.numbers.setdefault(reference.id, len(self.numbers) + 1)
            title, address = self._title(reference), self.links.address_of(reference)
            lines.append(f"{number}. [{title}]({address})" if address else f"{number}. {title}")
        return SOURCES + "\n".join(lines) if lines else ""

    def _citation(self, start: int, end: int, number: int) -> list[dict[str, Any]]:
        """Return the citation as data; nothing if its passage has no address."""
        reference = self.references.get(number)
        address = self.links.address_of(reference) if reference else ""
        if reference is None or not address:
            return []
        place = {"start_index": start, "end_index": end}
        cited = {**place, "title": self._title(reference), "url": address}
        return [{"type": "url_citation", "url_citation": cited}]

    def _title(self, reference: Reference) -> str:
        """Return a title that no other passage of the answer has.

        A client that takes passages with equal titles for one source would count them wrong.
        """
        if reference.id not in self.titles:
            title, taken = title_of(reference), set(self.titles.values())
            others = (f"{title} ({number})" for number in count(2))
            free = (one for one in chain([title], others) if one not in taken)
            self.titles[reference.id] = next(free)
        return self.titles[reference.id]

    def _unlinked(self, text: str) -> str:
        """Return the text without links and without HTML, which could be one. Blocks of code stay
        as they are: Markdown sees neither in them."""
        written: list[str] = []
        for sign in text:
            last = self._line[-1] if self._line else ""
            is_link = last == "]" and sign in _MAKES_LINK
            is_html = last == "<" and _MAKES_HTML.match(sign)
            if (is_link or is_html) and not self._code_marks:
                written.append(JOINER)
            written.append(sign)
            self._line.append(sign)
            if sign == "\n":
                self._end_line()
        shown = "".join(written)
        self._written += len(shown)
        return shown

    def _end_line(self) -> None:
        """Note whether the next line is code.

        In doubt it is none, from there to the end: a link that is taken for code would work.
        Source: CommonMark 0.31, section 4.5 (fenced code blocks).
        """
        line = "".join(self._line).removesuffix("\n")
        self._line.clear()
        if self._is_in_doubt:
            return
        if self._code_marks:
            end = _ENDS_CODE.fullmatch(line)
            if end and len(end[1]) >= self._code_marks:
                self._code_marks = 0
                return
            # Another kind of fence is text within this one.
            in_doubt = "\r" in line or line.lstrip().startswith("```")
        else:
            begin = _OPENS_CODE.fullmatch(line)
            if begin and "\r" not in line:
                self._code_marks = len(begin[1])
                return
            in_doubt = bool(_IN_DOUBT.match(line))
        if in_doubt:
            self._is_in_doubt, self._code_marks = True, 0


def title_of(reference: Reference) -> str:
    """Return a title of the passage that is one line of plain words, whatever its document says."""
    title = reference.title or reference.source
    place = f", page {reference.page}" if reference.page else ""
    heading = f": {reference.heading}" if reference.heading else ""
    shown = on_one_line(f"{title}{place}{heading}").translate(_NO_MARKDOWN)
    return shown[:LONGEST_TITLE]


def without_sources(text: str) -> str:
    """Return an earlier answer without the list of its sources."""
    words, _, listed = text.rpartition(SOURCES)
    is_list = bool(listed) and all(map(_LISTED.match, listed.strip().splitlines()))
    return words if words and is_list else text
