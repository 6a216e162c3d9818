"""What a retriever finds, before it is cut to a budget: ranked lists merged, text units chosen and
reranked."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from pipeline.errors import ModelError, NoSuchModelError
from pipeline.models.base import Reranker
from pipeline.settings.query_fields import ChunkPick
from pipeline.stores.reads import VectorReads
from pipeline.stores.records import Claim, Entity, Passage, Relationship, Report, SharedUnit

Picks = Mapping[str, int]
"""Text units that a lane has chosen, best first, each with how often it came up there."""
Item = TypeVar("Item")
Sources = Sequence[Sequence[str]]
"""Text units of each of the records found, the best record first."""
CANDIDATES = 3
"""So many times the text units that are shown are found first, where a reranker chooses among
them."""


@dataclass(frozen=True)
class Evidence:
    """Entities, relationships, reports and claims ranked; text units by the lane that found them,
    each lane ranked; what is to be said of the search."""

    entities: Sequence[Entity] = ()
    relationships: Sequence[Relationship] = ()
    chunk_lanes: Mapping[str, Picks] = field(default_factory=dict)
    reports: Sequence[Report] = ()
    claims: Sequence[Claim] = ()
    notes: tuple[str, ...] = ()


def round_robin(by: Callable[[Item], Hashable], *rankings: Sequence[Item]) -> list[Item]:
    """First of each, second of each, ...; of items that are equal ``by`` something the first that
    comes up."""
    turns = range(max(map(len, rankings), default=0))
    found: dict[Hashable, Item] = {}
    for turn in turns:
        for items in rankings:
            if turn < len(items):
                found.setdefault(by(items[turn]), items[turn])
    return list(found.values())


@dataclass(frozen=True)
class ChunkChoice:
    """``number``: about how many for each record, with WEIGHT and VECTOR. ``question``: its
    vector."""

    method: ChunkPick
    number: int
    question: np.ndarray
    vectors: VectorReads

    def among(self, sources: Sources) -> Picks:
        """RELATION: all, in the order of the records."""
        if self.method == "RELATION":
            return counted(chain.from_iterable(sources), sources)
        return (self.method == "VECTOR" and self._nearest(sources)) or by_weight(
            sources, self.number
        )

    def _nearest(self, sources: Sources) -> Picks:
        """Those most similar to the question, half of ``number`` for each record; none where it has
        no vector."""
        if not self.question.any():
            return {}
        units = list(dict.fromkeys(chain.from_iterable(sources)))
        limit = max(1, self.number * len(sources) // 2)
        return counted(
            (id for id, _ in self.vectors.nearest_of("chunks", units, self.question, limit)),
            sources,
        )


def by_question(
    links: Sequence[Relationship],
    entity_ids: Sequence[str],
    question: np.ndarray,
    vectors: VectorReads,
) -> list[Relationship]:
    """Relationships by the entity that leads to them, then by how similar they are to the question,
    then by rank and weight."""
    place = {id: position for position, id in enumerate(entity_ids)}
    alike = dict(
        vectors.nearest_of("relationships", [link.id for link in links], question, len(links))
    )

    def order(link: Relationship) -> tuple[int, float, int, float, str]:
        led = min(
            place.get(link.source_entity_id, len(place)),
            place.get(link.target_entity_id, len(place)),
        )
        return led, -alike.get(link.id, -1.0), -link.rank, -link.weight, link.id

    return sorted(links, key=order)


def by_relation(shared: Sequence[SharedUnit], entity_ids: Sequence[str]) -> Picks:
    """Text units of entities: by the entity that leads to them, then by how many of its neighbours
    share them."""
    place = {id: position for position, id in enumerate(entity_ids)}
    ranked = sorted(
        shared, key=lambda found: (place[found.entity_id], -found.neighbours, found.text_unit_id)
    )
    return Counter(found.text_unit_id for found in ranked)


def by_weight(sources: Sources, most: int) -> Picks:
    """Linear gradient polling: the first record may name ``most`` text units, the last one, those
    between by their place; what a record leaves unused goes to the next that have more. A text unit
    counts for the first record that has it; of a record's own, those that most records have come
    first."""
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


def reranked(
    chunks: Sequence[Passage], query: str, reranker: Reranker
) -> tuple[Sequence[Passage], tuple[str, ...]]:
    """The chunks by their relevance, kept as ``rerank_score``, ties in the order given; and what is
    to be said of it: a reranker that fails leaves them as they are."""
    if not chunks:
        return chunks, ()
    try:
        scores = reranker.rerank(query, [chunk.content for chunk in chunks])
    except (ModelError, NoSuchModelError) as error:
        return chunks, (f"not reranked: {error}",)
    scored = [(float(score), chunk) for score, chunk in zip(scores, chunks, strict=True)]
    scored.sort(key=lambda entry: -entry[0])
    return [replace(chunk, rerank_score=score) for score, chunk in scored], ()
