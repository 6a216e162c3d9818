"""Which text units stand for entities or relationships: ``kg_chunk_pick_method``."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd

from pipeline.query.evidence import Picks
from pipeline.query_options import ChunkPick
from pipeline.stores.base import VectorReads

Sources = Sequence[Sequence[str]]
"""Text units of each of the records found, the best record first."""


@dataclass(frozen=True)
class ChunkChoice:
    """``number``: about how many for each record, with WEIGHT and VECTOR. ``question``: its vector."""

    method: ChunkPick
    number: int
    question: np.ndarray
    vectors: VectorReads

    def among(self, sources: Sources) -> Picks:
        """RELATION: all, in the order of the records."""
        if self.method == "RELATION":
            return counted(chain.from_iterable(sources), sources)
        return (self.method == "VECTOR" and self._nearest(sources)) or by_weight(sources, self.number)

    def _nearest(self, sources: Sources) -> Picks:
        """Those most similar to the question, half of ``number`` for each record; none where it has no vector."""
        if not self.question.any():
            return {}
        units = list(dict.fromkeys(chain.from_iterable(sources)))
        limit = max(1, self.number * len(sources) // 2)
        return counted((id for id, _ in self.vectors.nearest_of(units, self.question, limit)), sources)


def by_relation(shared: pd.DataFrame, entity_ids: Sequence[str]) -> Picks:
    """Text units of entities: by the entity that leads to them, then by how many of its neighbours share them.

    ``shared``: (entity_id, text_unit_id, neighbours).
    """
    place = {id: position for position, id in enumerate(entity_ids)}
    ranked = shared.assign(place=shared["entity_id"].map(place)).sort_values(
        ["place", "neighbours", "text_unit_id"], ascending=[True, False, True]
    )
    counts = ranked["text_unit_id"].value_counts()
    return {unit: int(counts[unit]) for unit in ranked["text_unit_id"].drop_duplicates()}


def by_weight(sources: Sources, most: int) -> Picks:
    """Linear gradient polling: the first record may name ``most`` text units, the last one, those between by their
    place; what a record leaves unused goes to the next that have more. A text unit counts for the first record that
    has it; of a record's own, those that most records have come first."""
    often = _how_often(sources)
    own = [sorted(units, key=lambda unit: -often[unit]) for units in _each_once(sources)]
    quotas = [round(quota) for quota in np.linspace(most, 1, num=len(own))] if own else []
    named = [units[:quota] for units, quota in zip(own, quotas, strict=True)]
    unused = sum(quotas) - sum(map(len, named))
    rest = chain.from_iterable(units[quota:] for units, quota in zip(own, quotas, strict=True))
    return counted([*chain.from_iterable(named), *list(rest)[:unused]], sources)


def counted(units: Iterable[str], sources: Sources) -> Picks:
    """Each text unit once, with how many of the records have it."""
    often = _how_often(sources)
    return {unit: often[unit] for unit in dict.fromkeys(units)}


def _how_often(sources: Sources) -> Counter[str]:
    """In how many of the records each text unit is."""
    return Counter(chain.from_iterable(map(dict.fromkeys, sources)))


def _each_once(sources: Sources) -> list[list[str]]:
    seen: set[str] = set()
    result = []
    for units in sources:
        result.append([unit for unit in dict.fromkeys(units) if unit not in seen])
        seen.update(units)
    return result
