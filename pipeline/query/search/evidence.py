"""What a retriever finds, before it is cut to a budget: ranked lists merged, text units chosen and reranked."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import numpy as np
import pandas as pd

from pipeline.errors import ModelError
from pipeline.models.base import Reranker
from pipeline.settings.query_options import ChunkPick
from pipeline.stores.reads import CLAIM_COLUMNS, ENTITY_COLUMNS, RELATIONSHIP_COLUMNS, REPORT_COLUMNS, VectorReads

Picks = Mapping[str, int]
"""Text units that a lane has chosen, best first, each with how often it came up there."""
Item = TypeVar("Item")
Sources = Sequence[Sequence[str]]
"""Text units of each of the records found, the best record first."""
CANDIDATES = 3
"""So many times the text units that are shown are found first, where a reranker chooses among them."""


def _empty(columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(columns=columns)


@dataclass(frozen=True)
class Evidence:
    """Entities, relationships, reports and claims ranked; text units by the lane that found them, each lane ranked;
    what is to be said of the search."""

    entities: pd.DataFrame = field(default_factory=lambda: _empty(ENTITY_COLUMNS))
    relationships: pd.DataFrame = field(default_factory=lambda: _empty(RELATIONSHIP_COLUMNS))
    chunk_lanes: Mapping[str, Picks] = field(default_factory=dict)
    reports: pd.DataFrame = field(default_factory=lambda: _empty(REPORT_COLUMNS))
    claims: pd.DataFrame = field(default_factory=lambda: _empty(CLAIM_COLUMNS))
    notes: tuple[str, ...] = ()


def round_robin(*rankings: Iterable[Item]) -> list[Item]:
    """First of each, second of each, ...; each item once, where it first comes up."""
    lists = [list(ranking) for ranking in rankings]
    turns = range(max(map(len, lists), default=0))
    return list(dict.fromkeys(items[turn] for turn in turns for items in lists if turn < len(items)))


def merge_frames(frames: Sequence[pd.DataFrame], by: str) -> pd.DataFrame:
    """Rows of ranked frames in round-robin order, each value of ``by`` once."""
    filled = [frame for frame in frames if len(frame)] or list(frames[:1])
    if len(filled) == 1:
        return filled[0].drop_duplicates(by).reset_index(drop=True)
    ranked = [frame.assign(turn=range(len(frame)), lane=lane) for lane, frame in enumerate(filled)]
    merged = pd.concat(ranked, ignore_index=True).sort_values(["turn", "lane"], kind="stable")
    return merged.drop_duplicates(by).drop(columns=["turn", "lane"]).reset_index(drop=True)


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
        return counted((id for id, _ in self.vectors.nearest_of("chunks", units, self.question, limit)), sources)


def by_question(
    links: pd.DataFrame, entity_ids: Sequence[str], question: np.ndarray, vectors: VectorReads
) -> pd.DataFrame:
    """Relationships by the entity that leads to them, then by how similar they are to the question, then by rank and
    weight."""
    place = {id: position for position, id in enumerate(entity_ids)}
    ends = [links[end].map(place) for end in ("source_entity_id", "target_entity_id")]
    alike = dict(vectors.nearest_of("relationships", links["id"].tolist(), question, len(links)))
    ranked = links.assign(
        place=pd.concat(ends, axis=1).min(axis=1), alike=links["id"].map(alike).fillna(-1.0)
    ).sort_values(["place", "alike", "rank", "weight", "id"], ascending=[True, False, False, False, True])
    return ranked.drop(columns=["place", "alike"]).reset_index(drop=True)


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


def reranked(chunks: pd.DataFrame, query: str, reranker: Reranker) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The chunks by their relevance, kept as ``rerank_score``, ties in the order given; and what is to be said of it:
    a reranker that fails leaves them as they are."""
    if chunks.empty:
        return chunks, ()
    try:
        scores = reranker.rerank(query, chunks["content"].tolist())
    except ModelError as error:
        return chunks, (f"not reranked: {error}",)
    ranked = chunks.assign(rerank_score=scores).sort_values("rerank_score", ascending=False, kind="stable")
    return ranked.reset_index(drop=True), ()
