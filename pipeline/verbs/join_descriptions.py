"""join_descriptions: join the descriptions of each entity and relationship, without a model."""

from collections.abc import Callable, Sequence

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

    def first_ones_fit(number: int) -> bool:
        return fits(join_texts(descriptions[:number]), max_tokens, tokenizer)

    # Few of some thousand descriptions fit. Doubling finds a bound without counting all tokens.
    bound = 1
    while bound < len(descriptions) and first_ones_fit(bound):
        bound *= 2
    number = _find_longest(min(bound, len(descriptions)), first_ones_fit)
    if number or not len(descriptions):
        return join_texts(descriptions[:number])
    return cut(descriptions[0], max_tokens, tokenizer)


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
    # A token has at least one byte, so a short text need not be counted.
    number_of_bytes = len(text.encode("utf-8", "surrogatepass"))
    return number_of_bytes <= max_tokens or tokenizer.count(text) <= max_tokens


def _find_longest(length: int, fits: Callable[[int], bool]) -> int:
    """Return the greatest number up to ``length`` that fits, by bisection; 0 if none does."""
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
