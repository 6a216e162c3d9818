"""Check of an answer as it streams: marks of what was not shown, and unknown addresses, go."""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.query.citations.addresses import Addresses
from pipeline.query.citations.annotations import Cited, Piece
from pipeline.query.citations.annotator import Annotator
from pipeline.query.citations.support import Passages
from pipeline.query.context import Reference
from pipeline.query.data_citations import CITATION, LONGEST, UNCHECKED, DataCitations
from pipeline.query.marks import (
    MARKED,
    MOST_DATA,
    MOST_PASSAGES,
    data_placeholder,
    parse_numbers,
    placeholder,
    remove_placeholders,
)

_SIGNS_BACKWARDS = re.compile(rf"[\[\] refs\d,;:–-]{{0,{LONGEST}}}", re.IGNORECASE)
_BEGINS_DATA = re.compile(
    rf"\[(?:d(?:a(?:t(?:a(?::[^\[\]\n]{{0,{LONGEST}}})?)?)?)?)?", re.IGNORECASE
)


def _settled_until(text: str) -> int:
    """Return where the end of the text begins that may become a citation; else its length.

    The text is read once, from its end. Trying every bracket would take long for a text of many
    brackets.
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
    """The citations of one answer, and the citations of records that placeholders stand for."""

    cited: Cited = field(default_factory=Cited)
    data: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Citations:
    """A check of a streamed answer.

    ``references``: the passages that it may cite. ``records``: the records that it may cite as
    data. ``known``: the addresses that it may name; None disables the check of addresses.
    """

    references: Sequence[Reference]
    records: DataCitations = UNCHECKED
    known: Addresses | None = None

    def stream(self, pieces: Iterable[str]) -> Generator[Piece, None, Cited]:
        """Yield the text in pieces, with citations written as [3]; return what it cites.

        Text that may become a citation is held back until that is known; nothing that was yielded
        changes later. Marks are placeholders while addresses are removed: a removal must not turn
        the text around it into a mark.
        """
        marks = _Marks()
        annotator = Annotator(self._passages, marks.data, marks.cited)
        with_placeholders = self._replace_marks(pieces, marks)
        without_addresses = self._remove_unknown_addresses(with_placeholders, marks.cited)
        yield from annotator.stream(without_addresses)
        return marks.cited

    def _remove_unknown_addresses(self, pieces: Iterable[str], cited: Cited) -> Iterator[str]:
        if self.known is None:
            yield from pieces
        else:
            cited.addresses = yield from self.known.stream(pieces)

    def _replace_marks(self, pieces: Iterable[str], marks: _Marks) -> Iterator[str]:
        """Yield the text with a placeholder for each valid mark, and without invalid marks."""
        held = ""
        for piece in pieces:
            held += remove_placeholders(piece)
            settled = _settled_until(held)
            text = self._replace_settled(held[:settled], marks)
            if text:
                yield text
            held = held[settled:]
        text = self._replace_settled(held, marks)
        if text:
            yield text

    def _replace_settled(self, text: str, marks: _Marks) -> str:
        if self.records.shown is not None:
            text, removed = self.records.check(text)
            marks.cited.removed += removed
            text = CITATION.sub(lambda found: self._data_placeholder(found[0], marks), text)
        return MARKED.sub(lambda mark: self._passage_placeholders(mark[0], marks.cited), text)

    def _data_placeholder(self, citation: str, marks: _Marks) -> str:
        """Return the placeholder of a citation of records, and keep the citation in ``marks``."""
        # No answer has so many citations.
        if len(marks.data) == MOST_DATA:
            return ""
        space = " " if citation.startswith(" ") else ""
        marks.data.append(citation.removeprefix(" "))
        return space + data_placeholder(len(marks.data) - 1)

    def _passage_placeholders(self, mark: str, cited: Cited) -> str:
        """Return a placeholder for each valid number; without any, "" without the space before."""
        numbers = parse_numbers(mark)
        kept = [number for number in numbers if number in self._passages and number < MOST_PASSAGES]
        cited.removed += len(numbers) - len(kept)
        space = " " if mark.startswith(" ") and kept else ""
        return space + "".join(map(placeholder, kept))

    @cached_property
    def _passages(self) -> Passages:
        return Passages(self.references)
