"""join_descriptions: one description per entity and relationship, without a model."""

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
    """``max_tokens``: how long a description may become."""

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
    """``descriptions`` become one ``description``: in order, up to ``max_tokens``, what follows
    left out."""

    def described(frame: pd.DataFrame, schema: TableSchema) -> pd.DataFrame:
        texts = [join_within(cell, params.max_tokens, tokenizer) for cell in frame["descriptions"]]
        return with_description(frame, texts, schema)

    return (
        described(merged_entities, DESCRIBED_ENTITIES),
        described(merged_relationships, DESCRIBED_RELATIONSHIPS),
    )


def with_description(
    frame: pd.DataFrame, texts: Sequence[str], schema: TableSchema
) -> pd.DataFrame:
    """The table with one text per row in place of its lists of descriptions."""
    return schema.frame(frame.assign(description=list(texts))[schema.columns])


def joined(descriptions: Sequence[str]) -> str:
    return " ".join(descriptions)


def join_within(descriptions: Sequence[str], max_tokens: int, tokenizer: Tokenizer) -> str:
    """As many of the descriptions as fit, in order; the first one cut where not even that fits."""

    def first_ones_fit(number: int) -> bool:
        return fits(joined(descriptions[:number]), max_tokens, tokenizer)

    most = 1
    while most < len(descriptions) and first_ones_fit(
        most
    ):  # of thousands those are few: no token of the rest counts
        most *= 2
    whole = _longest(min(most, len(descriptions)), first_ones_fit)
    if whole or not len(descriptions):
        return joined(descriptions[:whole])
    return cut(descriptions[0], max_tokens, tokenizer)


def cut(text: str, max_tokens: int, tokenizer: Tokenizer) -> str:
    """The beginning of the text that fits, ended between two words unless it has hardly any."""
    if fits(text, max_tokens, tokenizer):
        return text
    beginning = text[: _longest(len(text), lambda n: fits(text[:n], max_tokens, tokenizer))]
    words = beginning.rpartition(" ")[0]
    return words if 2 * len(words) > len(beginning) else beginning


def fits(text: str, max_tokens: int, tokenizer: Tokenizer) -> bool:
    """No token is shorter than a byte, so that short texts need no counting."""
    return (
        len(text.encode("utf-8", "surrogatepass")) <= max_tokens
        or tokenizer.count(text) <= max_tokens
    )


def _longest(length: int, fits: Callable[[int], bool]) -> int:
    """The greatest number up to ``length`` that fits, by bisection; 0 if none does."""
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
