"""join_descriptions: join the descriptions of each entity and relationship, without a model."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    TableSchema,
)
from pipeline.models.base import Tokenizer

CHARACTERS_OF_TOKEN = 4
"""Characters of a token in English prose: where the search for what fits begins."""
MOST_GUESSES = 6
"""Guesses after which the search goes on by halves: uneven texts can lead guesses astray."""


class JoinParams(Params):
    """``max_tokens`` is the greatest length of a description."""

    max_tokens: int = Field(default=600, ge=1)


@verb(
    inputs={"merged_entities": MERGED_ENTITIES, "merged_relationships": MERGED_RELATIONSHIPS},
    outputs={
        "described_entities": DESCRIBED_ENTITIES,
        "described_relationships": DESCRIBED_RELATIONSHIPS,
    },
    keyed={"merged_entities": ("id",), "merged_relationships": ("id",)},
    row_of={"described_entities": "id", "described_relationships": "id"},
    libraries=("rs-bpe",),
)
def join_descriptions(
    merged_entities: pd.DataFrame,
    merged_relationships: pd.DataFrame,
    params: JoinParams,
    tokenizer: Tokenizer,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both tables with one ``description`` in place of ``descriptions``.

    The descriptions are joined in their order up to ``max_tokens``; the rest is left out.
    """

    def describe(frame: pd.DataFrame, schema: TableSchema) -> pd.DataFrame:
        texts = [join_within(cell, params.max_tokens, tokenizer) for cell in frame["descriptions"]]
        return replace_descriptions(frame, texts, schema)

    return (
        describe(merged_entities, DESCRIBED_ENTITIES),
        describe(merged_relationships, DESCRIBED_RELATIONSHIPS),
    )


def replace_descriptions(
    frame: pd.DataFrame, texts: Sequence[str], schema: TableSchema
) -> pd.DataFrame:
    """Return the table with the texts as ``description``, in the columns of ``schema``."""
    described = frame.assign(description=list(texts))
    return schema.frame(described[schema.columns])


def join_texts(descriptions: Sequence[str]) -> str:
    """Return the descriptions as one text."""
    return " ".join(descriptions)


def join_within(descriptions: Sequence[str], max_tokens: int, tokenizer: Tokenizer) -> str:
    """Return as many of the first descriptions as fit, joined; at least the beginning of one."""
    number = _count_fitting(descriptions, max_tokens, tokenizer)
    if number or not len(descriptions):
        return join_texts(descriptions[:number])
    return cut(descriptions[0], max_tokens, tokenizer)


def _count_fitting(descriptions: Sequence[str], max_tokens: int, tokenizer: Tokenizer) -> int:
    """Return how many of the first descriptions fit when they are joined.

    Counting tokens is what takes time. So the number is guessed from the lengths, with as many
    characters to a token as the last guess had. After some guesses the middle is taken, or twice
    what fits, since few of some thousand descriptions may fit.
    """
    ends = list(accumulate(len(text) + 1 for text in descriptions))
    fitting, too_many = 0, len(descriptions) + 1
    characters = CHARACTERS_OF_TOKEN * max_tokens
    guesses = 0
    while too_many - fitting > 1:
        guess = bisect_right(ends, characters)
        if guesses >= MOST_GUESSES:
            guess = min((fitting + too_many) // 2, 2 * fitting)
        number = min(max(guess, fitting + 1), too_many - 1)
        guesses += 1
        text = join_texts(descriptions[:number])
        if _is_short(text, max_tokens):
            fitting = number
            continue
        tokens = tokenizer.count(text)
        characters = len(text) * max_tokens / max(tokens, 1)
        if tokens <= max_tokens:
            fitting = number
        else:
            too_many = number
    return fitting


def cut(text: str, max_tokens: int, tokenizer: Tokenizer) -> str:
    """Return the longest beginning of the text that fits.

    It ends between two words, unless this would cost half of it or more.
    """
    if fits(text, max_tokens, tokenizer):
        return text
    length = _find_longest(len(text), lambda n: fits(text[:n], max_tokens, tokenizer))
    beginning = text[:length]
    words = beginning.rpartition(" ")[0]
    return words if 2 * len(words) > len(beginning) else beginning


def fits(text: str, max_tokens: int, tokenizer: Tokenizer) -> bool:
    """Return whether the text has at most ``max_tokens`` tokens."""
    return _is_short(text, max_tokens) or tokenizer.count(text) <= max_tokens


def _is_short(text: str, max_tokens: int) -> bool:
    """Return whether the text fits whatever its tokens are: a token has at least one byte."""
    return len(text.encode("utf-8", "surrogatepass")) <= max_tokens


def _find_longest(length: int, fits: Callable[[int], bool]) -> int:
    """Return the greatest number up to ``length`` that fits, by bisection; 0 if none does."""
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
