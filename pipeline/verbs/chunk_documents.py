"""chunk_documents: documents -> text units, each within a limit of tokens."""

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, Self

import pandas as pd
import regex
from pydantic import Field, model_validator

from pipeline.models.base import Tokenizer
from pipeline.registry import Params, verb
from pipeline.schemas import DOCUMENTS, TEXT_UNITS
from pipeline.sentences import ends_paragraph, sentence_spans
from pipeline.text import text_unit_id
from pipeline.tokens import DEFAULT_ENCODING, tokenizer

Span = tuple[int, int]
Count = Callable[[str], int]


class ChunkParams(Params):
    """``size`` and ``overlap`` in tokens. ``overlap`` left out: a twelfth of size for "tokens", else 0."""

    strategy: Literal["stable", "tokens", "sentence"] = "stable"
    size: int = Field(default=1200, ge=1)
    overlap: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.strategy == "stable" and self.overlap:
            raise ValueError("overlap: a stable text unit has none; set it to 0, or strategy to 'sentence'")
        if self.overlap is not None and self.overlap >= self.size:
            raise ValueError(f"overlap: {self.overlap} is not below size {self.size}; make it smaller")
        return self

    @property
    def overlap_tokens(self) -> int:
        if self.overlap is None:
            return self.size // 12 if self.strategy == "tokens" else 0
        return self.overlap


DEFAULT_PARAMS = ChunkParams()
DEFAULT_TOKENIZER = tokenizer(DEFAULT_ENCODING)


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"text_units": TEXT_UNITS},
    rowwise="documents",
    libraries=("regex", "rs-bpe"),
)
def chunk_documents(
    documents: pd.DataFrame, params: ChunkParams = DEFAULT_PARAMS, tokenizer: Tokenizer = DEFAULT_TOKENIZER
) -> pd.DataFrame:
    """Split each document into text units of at most ``size`` tokens.

    ``text[start:end]`` of the document is the unit's text, without white space at its ends. No character is
    split, and no grapheme cluster that fits; the one unit that may exceed ``size`` is a single character of
    more tokens. Strategies: ``stable`` cuts at sentence or paragraph ends chosen by their own content, so
    that an edit leaves the other units as they were; ``sentence`` fills units with whole sentences;
    ``tokens`` slides a window over the text.
    """
    rows = []
    for document_id, text in zip(documents["id"], documents["text"], strict=True):
        seen: Counter[str] = Counter()
        for order, (start, end) in enumerate(_unit_spans(text, params, tokenizer.count)):
            unit = text[start:end]
            rows.append(
                {
                    "id": text_unit_id(document_id, unit, seen[unit]),
                    "text": unit,
                    "n_tokens": tokenizer.count(unit),
                    "document_id": document_id,
                    "start": start,
                    "end": end,
                    "order": order,
                }
            )
            seen[unit] += 1
    return TEXT_UNITS.frame(rows)


def _unit_spans(text: str, params: ChunkParams, count: Count) -> Iterator[Span]:
    if params.strategy == "tokens":
        spans = _windows(text, params.size, params.overlap_tokens, count)
    else:
        pieces = _pieces(text, params.size, count)
        if params.strategy == "sentence":
            spans = _whole_sentences(text, pieces, params.size, params.overlap_tokens, count)
        else:
            spans = _stable(text, pieces, params.size, count)
    for start, end in spans:
        unit = text[start:end]
        if not unit.isspace():
            yield end - len(unit.lstrip()), start + len(unit.rstrip())
