"""What a ranking is worth: recall and all-gold, in the first k passages or the first tokens.

A document is found at the place it has among the distinct documents of the ranking, a chunk or a text at the place of
its chunk: k passages are k documents for the one, k chunks for the other.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pipeline.evaluation.questions import Kind

NOWHERE = math.inf


@dataclass(frozen=True)
class Passage:
    """A chunk of a ranking; ``tokens`` of its text."""

    id: str
    document_id: str
    tokens: int


@dataclass(frozen=True)
class Place:
    """``rank``: from 1, among documents or chunks; ``tokens``: of all text up to the end of the chunk that shows it.
    Both are infinite for what was not found."""

    rank: float
    tokens: float


def places(gold: Iterable[tuple[Kind, frozenset[str]]], ranking: Sequence[Passage]) -> list[Place]:
    """Where each of the gold is first met. Gold is its kind, and ids of which any will do."""
    ends = list(accumulate(passage.tokens for passage in ranking))
    documents = _first([passage.document_id for passage in ranking])
    chunks = _first([passage.id for passage in ranking])
    return [_best(ids, documents if kind == "document" else chunks, ends) for kind, ids in gold]


def names(ks: Iterable[int], budget: int | None = None) -> list[str]:
    """recall@k and all_gold@k; with a budget also recall@budget and all_gold@budget."""
    limits = [*map(str, ks), *(["budget"] if budget is not None else [])]
    return [f"{metric}@{limit}" for metric in ("recall", "all_gold") for limit in limits]


def metrics(places: Sequence[Place], ks: Sequence[int], budget: int | None = None) -> dict[str, float]:
    """By their names; ``places``: of a question's gold, of which there is some."""
    shares = [sum(place.rank <= k for place in places) / len(places) for k in ks]
    if budget is not None:
        shares.append(sum(place.tokens <= budget for place in places) / len(places))
    return dict(zip(names(ks, budget), [*shares, *(float(share == 1) for share in shares)], strict=True))


def _first(ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Id -> its place among the distinct ids, from 1, and its place in the list, from 0."""
    first = {id: position for position, id in reversed(list(enumerate(ids)))}
    ranked = sorted((position, id) for id, position in first.items())
    return {id: (rank, position) for rank, (position, id) in enumerate(ranked, start=1)}


def _best(ids: frozenset[str], first: dict[str, tuple[int, int]], ends: Sequence[int]) -> Place:
    met = [first[id] for id in ids if id in first]
    if not met:
        return Place(NOWHERE, NOWHERE)
    rank, position = min(met)
    return Place(rank, ends[position])
