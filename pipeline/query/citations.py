"""What an answer cites, by marks that no text has by chance: a number each, and nothing that was
not shown; so for the addresses in it."""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.query.addresses import Addresses
from pipeline.query.annotations import Cited, Piece
from pipeline.query.annotator import Annotator
from pipeline.query.context import Reference
from pipeline.query.data_citations import CITATION, LONGEST, UNCHECKED, DataCitations
from pipeline.query.marks import (
    MARKED,
    MOST_DATA,
    MOST_PASSAGES,
    data_placeholder,
    numbers_in,
    placeholder,
    without_private,
)
from pipeline.query.support import Passages

_SIGNS_BACKWARDS = re.compile(rf"[\[\] refs\d,;:–-]{{0,{LONGEST}}}", re.IGNORECASE)
_BEGINS_DATA = re.compile(
    rf"\[(?:d(?:a(?:t(?:a(?::[^\[\]\n]{{0,{LONGEST}}})?)?)?)?)?", re.IGNORECASE
)


def _settled_until(text: str) -> int:
    """Return where the end of a text begins that may yet become a citation; its length where there
    is none.

    The text is read once, from its end: to look from every bracket takes long for a text of
    brackets alone.
    """
    starts = [len(text)]
    signs = _SIGNS_BACKWARDS.match(text[: -LONGEST - 2 : -1])
    run = len(text) - (signs.end() if signs else 0)
    if run > 0 and text[run - 1] in "[【(":
        starts.append(run - 1)
    elif (opening := text.find("[", run)) >= 0:
        starts.append(opening)
    last = text.rfind("[")
    if last >= 0 and _BEGINS_DATA.fullmatch(text, last):
        starts.append(last)
    start = min(starts)
    return start - 1 if text[:start].endswith(" ") else start


@dataclass
class _Marks:
    """Of one answer: what it cites, and the citations of records that placeholders stand for."""

    cited: Cited = field(default_factory=Cited)
    data: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Citations:
    """Checks an answer, as it comes. ``references``: its sources; ``records``: the same for
    citations of data; ``known``: addresses that it may name."""

    references: Sequence[Reference]
    records: DataCitations = UNCHECKED
    known: Addresses | None = None

    def stream(self, pieces: Iterable[str]) -> Generator[Piece, None, Cited]:
        """The text in pieces, each with its citations as [3]; returns what it cites.

        What may yet become a citation is held back until it is known, and what was shown is not
        looked at again. Marks are placeholders while addresses are taken out: removing something
        must not make a mark of what stood around it.
        """
        marks = _Marks()
        annotator = Annotator(self._passages, marks.data, marks.cited)
        yield from annotator.stream(
            self._with_known_addresses(self._marked(pieces, marks), marks.cited)
        )
        return marks.cited

    def _with_known_addresses(self, pieces: Iterable[str], cited: Cited) -> Iterator[str]:
        if self.known is None:
            yield from pieces
        else:
            cited.addresses = yield from self.known.stream(pieces)

    def _marked(self, pieces: Iterable[str], marks: _Marks) -> Iterator[str]:
        held = ""
        for piece in pieces:
            held += without_private(piece)
            settled = _settled_until(held)
            if text := self._checked(held[:settled], marks):
                yield text
            held = held[settled:]
        if text := self._checked(held, marks):
            yield text

    def _checked(self, text: str, marks: _Marks) -> str:
        if self.records.shown is not None:
            text, strange = self.records.checked(text)
            marks.cited.removed += strange
            text = CITATION.sub(lambda found: self._data(found[0], marks), text)
        return MARKED.sub(lambda mark: self._numbered(mark[0], marks.cited), text)

    def _data(self, citation: str, marks: _Marks) -> str:
        if len(marks.data) == MOST_DATA:  # no answer has so many
            return ""
        space, citation = (" ", citation[1:]) if citation.startswith(" ") else ("", citation)
        marks.data.append(citation)
        return space + data_placeholder(len(marks.data) - 1)

    def _numbered(self, mark: str, cited: Cited) -> str:
        """A placeholder for each number that was shown; nothing, not even the space before, without
        any."""
        numbers = numbers_in(mark)
        kept = [number for number in numbers if number in self._passages and number < MOST_PASSAGES]
        cited.removed += len(numbers) - len(kept)
        space = " " if mark.startswith(" ") and kept else ""
        return space + "".join(map(placeholder, kept))

    @cached_property
    def _passages(self) -> Passages:
        return Passages(self.references)
