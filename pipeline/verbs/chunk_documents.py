"""chunk_documents: split documents into text units, each within a limit of tokens."""

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
from pipeline.documents.headings import HeadingPaths
from pipeline.models.base import Tokenizer
from pipeline.text.ids import text_unit_id
from pipeline.text.pieces import (
    Count,
    Piece,
    Rank,
    cut_into_pieces,
    find_fitting_end,
    find_fitting_start,
)
from pipeline.text.tokens import DEFAULT_ENCODING, tokenizer

Span = tuple[int, int]
DEFAULT_TOKENIZER = tokenizer(DEFAULT_ENCODING)
TEXTS_COUNTED_TWICE = 8
"""The number of texts whose token counts are cached.

A text is counted to find out whether it fits, and soon again for its row.
"""


class ChunkParams(Params):
    """The strategy, and the size of text units.

    ``size`` and ``overlap`` are in tokens. By default, ``overlap`` is a twelfth of size for the
    strategy "tokens", and 0 for the others.
    """

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
        """The overlap of two neighbouring text units, in tokens."""
        if self.overlap is not None:
            return self.overlap
        return self.size // 12 if self.strategy == "tokens" else 0


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

    The text of a unit is ``text[start:end]`` of its document, without white space at its ends. No
    character is split, and no grapheme cluster that fits. A unit exceeds ``size`` only if a single
    character has more tokens.

    There are three strategies. ``stable`` cuts at ends of sentences or paragraphs that are chosen
    by their own content, so an edit leaves the units elsewhere as they were. ``sentence`` fills
    units with whole sentences. ``tokens`` slides a window over the text.

    ``heading`` is the path of the headings that begin at the start of the unit or above it, joined
    by " > ". Texts in Markdown and files that are converted to it have headings, and so has another
    text that looks like Markdown. The title of the document is left out.
    """
    count = lru_cache(TEXTS_COUNTED_TWICE)(tokenizer.count)
    rows = []
    columns = (documents[name].fillna("") for name in ("id", "text", "source", "title"))
    for document_id, text, source, title in zip(*columns, strict=True):
        # Equal units of a document get different ids by the number of those before.
        seen: Counter[str] = Counter()
        headings = HeadingPaths(text, source, title)
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
                    "heading": headings.above(start),
                }
            )
            seen[unit] += 1
    return TEXT_UNITS.frame(rows)


def _unit_spans(text: str, params: ChunkParams, count: Count) -> Iterator[Span]:
    """Yield start and end of each text unit; white space at its ends is left out."""
    if not text:
        return
    if params.strategy == "tokens":
        spans = _slide_window(text, params.size, params.overlap_tokens, count)
    else:
        pieces = cut_into_pieces(text, params.size, count)
        totals = [0, *accumulate(piece.n_tokens for piece in pieces)]
        sentences = _Sentences(text, pieces, totals, params.size, count)
        if params.strategy == "sentence":
            spans = _fill_with_sentences(sentences, params.overlap_tokens)
        else:
            spans = _cut_stably(sentences)
    for start, end in spans:
        unit = text[start:end]
        if not unit.isspace():
            yield end - len(unit.lstrip()), start + len(unit.rstrip())


def _slide_window(text: str, size: int, overlap: int, count: Count) -> Iterator[Span]:
    """Yield spans of at most ``size`` tokens, each overlapping the one before."""
    start = 0
    covered = 0
    while covered < len(text):
        end = find_fitting_end(text, start, len(text), size, count)
        if end <= covered:
            # The overlap fills the whole window: this one does without an overlap.
            start = covered
            continue
        yield start, end
        start = find_fitting_start(text, start, end, overlap, count)
        covered = end


@dataclass(frozen=True)
class _Sentences:
    """The sentences of a text, or pieces of those that exceed ``size`` tokens.

    ``totals[i]`` is the sum of the token counts of the first i pieces. A range of pieces is given
    by its first one, and by the one behind its last. An end is the position behind a piece: the
    number of pieces before it.
    """

    text: str
    pieces: list[Piece]
    totals: list[int]
    size: int
    count: Count

    def tokens(self, first: int, last: int) -> int:
        """Return the number of tokens of a range of pieces.

        The counts of the pieces do not add up exactly, so the joined text is counted.
        """
        start, end = self.span(first, last)
        return self.count(self.text[start:end].strip())

    def fits(self, first: int, last: int) -> bool:
        """Return whether a range of pieces has at most ``size`` tokens."""
        sum_of_counts = self.totals[last] - self.totals[first]
        # A text is not counted if the sum is so large that it cannot be expected to fit.
        if sum_of_counts > 2 * self.size:
            return False
        return self.tokens(first, last) <= self.size

    def last_fitting(self, first: int, last: int) -> int:
        """Return an end, up to ``last``, so that the pieces from ``first`` fit.

        It is nearly the furthest such end, and at least ``first`` + 1.
        """
        last = max(last, first + 1)
        while last > first + 1:
            tokens = self.tokens(first, last)
            if tokens <= self.size:
                break
            # The next guess assumes that all pieces have equally many tokens.
            guess = first + (last - first) * self.size // tokens
            last = max(first + 1, min(last - 1, guess))
        return last

    def span(self, first: int, last: int) -> Span:
        """Return start and end of a range of pieces in the text."""
        return self.pieces[first].start, self.pieces[last - 1].end

    def rank(self, end: int) -> Rank:
        """Return the rank of an end: the higher it is, the better is a cut there."""
        return self.pieces[end - 1].rank

    def furthest(self, first: int, tokens: int) -> int:
        """Return the last end so that the counts of the pieces from ``first`` add up to at most
        ``tokens``."""
        return bisect_right(self.totals, self.totals[first] + tokens) - 1

    def nearest(self, first: int, tokens: int) -> int:
        """Return the first end so that the counts of the pieces from ``first`` add up to at least
        ``tokens``."""
        return bisect_left(self.totals, self.totals[first] + tokens)


def _fill_with_sentences(sentences: _Sentences, overlap: int) -> Iterator[Span]:
    """Yield spans of whole sentences that fit.

    Each begins about ``overlap`` tokens before the end of the last one.
    """
    first = 0
    covered = 0
    while covered < len(sentences.pieces):
        # The overlap gives way to at least one sentence that is new.
        while first < covered and not sentences.fits(first, covered + 1):
            first += 1
        furthest = sentences.furthest(first, sentences.size)
        covered = max(sentences.last_fitting(first, furthest), covered + 1)
        yield sentences.span(first, covered)
        first = bisect_left(sentences.totals, sentences.totals[covered] - overlap)


def _cut_stably(sentences: _Sentences) -> Iterator[Span]:
    """Yield spans by content-defined chunking over sentences.

    The text is cut at each end that ranks highest among those near it. A span that still does not
    fit is cut at its highest end, until all fit.

    Local maxima: Bjørner, Blass, Gurevich, Content-dependent chunking for differential compression,
    the local maximum approach (J. Computer and System Sciences 76, 2010). They cut between bytes,
    and this function between sentences. So an edit anywhere in a document can move the cuts near
    it and no others.
    """
    end = len(sentences.pieces)
    bounds = [0, end]
    if end > 1 and not sentences.fits(0, end):
        bounds = [0, *_find_local_maxima(sentences), end]
    # The list is a stack: the first span of the text is its last item.
    waiting = list(pairwise(bounds))[::-1]
    while waiting:
        first, last = waiting.pop()
        if last - first < 2 or sentences.fits(first, last):
            yield sentences.span(first, last)
        else:
            cut = _find_highest_end(sentences, first, last)
            waiting += [(cut, last), (first, cut)]


def _find_local_maxima(sentences: _Sentences) -> Iterator[int]:
    """Yield the ends that rank highest within three eighths of ``size`` to either side.

    Ends within a fifth of ``size`` of the ends of the text are left out.
    """
    reach = sentences.size * 3 // 8
    margin = sentences.size // 5
    number = len(sentences.pieces)
    start = max(1, sentences.nearest(0, margin))
    stop = min(bisect_right(sentences.totals, sentences.totals[-1] - margin), number)
    for end in range(start, stop):
        before = range(end - 1, 0, -1)
        after = range(end + 1, number)
        # Of equally high ends near each other, the first one is taken.
        if _outranks(sentences, end, before, reach, allow_equal=False) and _outranks(
            sentences, end, after, reach, allow_equal=True
        ):
            yield end


def _outranks(
    sentences: _Sentences, end: int, others: range, reach: int, *, allow_equal: bool
) -> bool:
    """Return whether no other end within ``reach`` tokens ranks higher.

    ``others`` must begin with the nearest one. Unless ``allow_equal`` is set, none may rank as high
    either.
    """
    rank = sentences.rank(end)
    position = sentences.totals[end]
    for other in others:
        if abs(sentences.totals[other] - position) > reach:
            return True
        other_rank = sentences.rank(other)
        if other_rank > rank or (other_rank == rank and not allow_equal):
            return False
    return True


def _find_highest_end(sentences: _Sentences, first: int, last: int) -> int:
    """Return the highest end inside a range of pieces; of equally high ones the middlemost.

    Both sides of it have at least a fifth of ``size``. If two spans suffice for the range, both
    sides have at most ``size``. Where no end allows this, any end inside the range may be taken.
    """
    start, end = sentences.totals[first], sentences.totals[last]
    margin = sentences.size // 5
    if end - start <= 2 * sentences.size:
        margin = max(margin, end - start - sentences.size)
    lowest = max(first + 1, sentences.nearest(first, margin))
    highest = min(last - 1, bisect_right(sentences.totals, end - margin) - 1)
    cuts = range(lowest, highest + 1) or range(first + 1, last)

    def rank_then_middle(cut: int) -> tuple[Rank, int]:
        distance_from_middle = abs(2 * sentences.totals[cut] - start - end)
        return sentences.rank(cut), -distance_from_middle

    return max(cuts, key=rank_then_middle)
