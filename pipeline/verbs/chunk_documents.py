"""chunk_documents: documents -> text units, each within a limit of tokens."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Literal, Self

import pandas as pd
from pydantic import Field, model_validator

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS, TEXT_UNITS
from pipeline.models.base import Tokenizer
from pipeline.text.ids import text_unit_id
from pipeline.text.sentences import Count, Piece, Rank, fitting_end, fitting_start, sentence_pieces
from pipeline.text.tokens import DEFAULT_ENCODING, tokenizer

Span = tuple[int, int]
DEFAULT_TOKENIZER = tokenizer(DEFAULT_ENCODING)
TEXTS_COUNTED_TWICE = 8
"""A text is counted to see whether it fits, and soon again for its row: of the last few the counts
are remembered."""


class ChunkParams(Params):
    """``size`` and ``overlap`` in tokens. ``overlap`` left out: a twelfth of size for "tokens",
    else 0."""

    strategy: Literal["stable", "tokens", "sentence"] = "stable"
    size: int = Field(default=1200, ge=1)
    overlap: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.strategy == "stable" and self.overlap:
            raise ValueError(
                "overlap: a stable text unit has none; set it to 0, or strategy to 'sentence'"
            )
        if self.overlap is not None and self.overlap >= self.size:
            raise ValueError(
                f"overlap: {self.overlap} is not below size {self.size}; make it smaller"
            )
        return self

    @property
    def overlap_tokens(self) -> int:
        if self.overlap is None:
            return self.size // 12 if self.strategy == "tokens" else 0
        return self.overlap


DEFAULT_PARAMS = ChunkParams()


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"text_units": TEXT_UNITS},
    rowwise="documents",
    row_of={"text_units": "document_id"},
    libraries=("regex", "rs-bpe"),
)
def chunk_documents(
    documents: pd.DataFrame,
    params: ChunkParams = DEFAULT_PARAMS,
    tokenizer: Tokenizer = DEFAULT_TOKENIZER,
) -> pd.DataFrame:
    """Split each document into text units of at most ``size`` tokens.

    ``text[start:end]`` of the document is the unit's text, without white space at its ends. No
    character is split, and no grapheme cluster that fits; the one unit that may exceed ``size`` is
    a single character of more tokens. Strategies: ``stable`` cuts at sentence or paragraph ends
    chosen by their own content, so that an edit leaves the other units as they were; ``sentence``
    fills units with whole sentences; ``tokens`` slides a window over the text.
    """
    count = lru_cache(TEXTS_COUNTED_TWICE)(tokenizer.count)
    rows = []
    for document_id, text in zip(documents["id"], documents["text"], strict=True):
        seen: Counter[str] = Counter()
        for order, (start, end) in enumerate(_unit_spans(text, params, count)):
            unit = text[start:end]
            rows.append(
                {
                    "id": text_unit_id(document_id, unit, seen[unit]),
                    "text": unit,
                    "n_tokens": count(unit),
                    "document_id": document_id,
                    "start": start,
                    "end": end,
                    "order": order,
                }
            )
            seen[unit] += 1
    return TEXT_UNITS.frame(rows)


def _unit_spans(text: str, params: ChunkParams, count: Count) -> Iterator[Span]:
    if not text:
        return
    if params.strategy == "tokens":
        spans = _windows(text, params.size, params.overlap_tokens, count)
    else:
        pieces = sentence_pieces(text, params.size, count)
        totals = [0, *accumulate(piece.n_tokens for piece in pieces)]
        units = _Pieces(text, pieces, totals, params.size, count)
        spans = (
            _whole_sentences(units, params.overlap_tokens)
            if params.strategy == "sentence"
            else _stable(units)
        )
    for start, end in spans:
        unit = text[start:end]
        if not unit.isspace():
            yield end - len(unit.lstrip()), start + len(unit.rstrip())


def _windows(text: str, size: int, overlap: int, count: Count) -> Iterator[Span]:
    start = covered = 0
    while covered < len(text):
        end = fitting_end(text, start, len(text), size, count)
        if end <= covered:
            start = covered
            continue
        yield start, end
        start, covered = fitting_start(text, start, end, overlap, count), end


@dataclass(frozen=True)
class _Pieces:
    """Pieces of a text, and the running total of their tokens."""

    text: str
    pieces: list[Piece]
    totals: list[int]
    size: int
    count: Count

    def tokens(self, first: int, last: int) -> int:
        """Token counts do not add up exactly: only a count of the joined text tells."""
        start, end = self.span(first, last)
        return self.count(self.text[start:end].strip())

    def fits(self, first: int, last: int) -> bool:
        sum_of_counts = self.totals[last] - self.totals[first]
        return sum_of_counts <= 2 * self.size and self.tokens(first, last) <= self.size

    def last_fitting(self, first: int, last: int) -> int:
        """Nearly the last piece (exclusive), up to ``last``, with which those from ``first``
        fit."""
        last = max(last, first + 1)
        while last > first + 1 and (spent := self.tokens(first, last)) > self.size:
            last = max(first + 1, min(last - 1, first + (last - first) * self.size // spent))
        return last

    def span(self, first: int, last: int) -> Span:
        return self.pieces[first].start, self.pieces[last - 1].end

    def rank(self, end: int) -> Rank:
        return self.pieces[end - 1].rank

    def furthest(self, first: int, tokens: int) -> int:
        """The last piece (exclusive) so that those from ``first`` have at most ``tokens``, as they
        add up."""
        return bisect_right(self.totals, self.totals[first] + tokens) - 1

    def nearest(self, first: int, tokens: int) -> int:
        """The last piece (exclusive) so that those from ``first`` have at least ``tokens``."""
        return bisect_left(self.totals, self.totals[first] + tokens)


def _whole_sentences(units: _Pieces, overlap: int) -> Iterator[Span]:
    first = covered = 0
    while covered < len(units.pieces):
        while first < covered and not units.fits(first, covered + 1):
            first += 1
        covered = max(units.last_fitting(first, units.furthest(first, units.size)), covered + 1)
        yield units.span(first, covered)
        first = bisect_left(units.totals, units.totals[covered] - overlap)


def _stable(units: _Pieces) -> Iterator[Span]:
    """Content-defined chunking over sentences: cut at each end that ranks highest among those near
    it, then cut what still exceeds ``size``, at its highest end.

    Local maxima: Bjørner, Blass, Gurevich, Content-dependent chunking for differential compression,
    the local maximum approach (J. Computer and System Sciences 76, 2010). Bytes there are sentences
    here, so an edit can move the cuts near it and no others, wherever in the document it is.
    """
    end = len(units.pieces)
    bounds = [0, *_local_maxima(units), end] if end > 1 and not units.fits(0, end) else [0, end]
    waiting = list(pairwise(bounds))[::-1]
    while waiting:
        first, last = waiting.pop()
        if last - first < 2 or units.fits(first, last):
            yield units.span(first, last)
        else:
            cut = _highest_end(units, first, last)
            waiting += [(cut, last), (first, cut)]


def _local_maxima(units: _Pieces) -> Iterator[int]:
    """Ends, well inside the text, with no higher one within three eighths of ``size`` to either
    side."""
    reach, floor = units.size * 3 // 8, units.size // 5
    stop = min(bisect_right(units.totals, units.totals[-1] - floor), len(units.pieces))
    for end in range(max(1, units.nearest(0, floor)), stop):
        if _outranks(units, end, range(end - 1, 0, -1), reach, equals=False) and _outranks(
            units, end, range(end + 1, len(units.pieces)), reach, equals=True
        ):
            yield end


def _outranks(units: _Pieces, end: int, others: range, reach: int, equals: bool) -> bool:
    """Whether no other end within ``reach`` tokens ranks higher, or as high unless ``equals`` are
    allowed."""
    rank, here = units.rank(end), units.totals[end]
    for other in others:
        if abs(units.totals[other] - here) > reach:
            return True
        if units.rank(other) > rank or (units.rank(other) == rank and not equals):
            return False
    return True


def _highest_end(units: _Pieces, first: int, last: int) -> int:
    """The highest end with at least a fifth of ``size`` on both sides, and at most ``size`` if two
    can be."""
    start, end = units.totals[first], units.totals[last]
    margin = units.size // 5
    if end - start <= 2 * units.size:
        margin = max(margin, end - start - units.size)
    lowest = max(first + 1, units.nearest(first, margin))
    highest = min(last - 1, bisect_right(units.totals, end - margin) - 1)
    cuts = range(lowest, highest + 1) or range(first + 1, last)
    return max(cuts, key=lambda cut: (units.rank(cut), -abs(2 * units.totals[cut] - start - end)))
