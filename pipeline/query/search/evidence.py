"""Evidence before it is cut to a budget: rankings merged and text units chosen."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TypeVar

import numpy as np

from pipeline.settings.query_fields import ChunkPick
from pipeline.stores.reads import VectorReads
from pipeline.stores.records import (
    Attribute,
    Claim,
    Entity,
    Passage,
    Relationship,
    Report,
    SharedUnit,
    Statement,
)

UnitCounts = Mapping[str, int]
"""The ids of text units that one lane has chosen, best first, each with how often it occurred."""
Item = TypeVar("Item")
Sources = Sequence[Sequence[str]]
"""Ids of the source text units of each record found, the best record first."""
LANES = ("vector", "graph", "entity", "relationship")
"""Ways to find text units, in the order in which they take turns."""
RECORDS_OF_UNIT = 5
"""Entities, and relationships, that are searched for each text unit that is wanted. Many are of the
same text unit, so as many records as text units would give too few of these."""
MOST_FOR_UNITS = 1_000
"""Records up to which RECORDS_OF_UNIT counts. Without it a question for thousands of text units
would read tens of thousands of records."""


@dataclass(frozen=True)
class Evidence:
    """The ranked records that a search has found, and notes on the search for the caller.

    ``unit_lanes`` maps a lane of LANES to the text units that it has chosen. ``absence``: a clause
    that says which words of the question no passage has; "" if none is missing. ``statements``:
    those of the relationships, if the question wants data. ``attributes``: the values of the
    entities' properties.
    """

    entities: Sequence[Entity] = ()
    relationships: Sequence[Relationship] = ()
    unit_lanes: Mapping[str, UnitCounts] = field(default_factory=dict)
    reports: Sequence[Report] = ()
    claims: Sequence[Claim] = ()
    notes: tuple[str, ...] = ()
    absence: str = ""
    statements: Sequence[Statement] = ()
    attributes: Sequence[Attribute] = ()


EvidenceAndUnits = tuple[Evidence, Sequence[Passage]]
"""The evidence for a question, and the text units to show, in their order."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A text unit to read.

    ``lane``: the first lane that chose it. ``place``: its rank there, from 1. ``frequency``: how
    often it occurred there.
    """

    id: str
    lane: str
    frequency: int
    place: int


def pick_units(evidence: Evidence, limit: int) -> list[Pick]:
    """Return at most ``limit`` text units; the lanes take turns, each gives its best first."""
    lanes: list[list[Pick]] = []
    for lane in sorted(evidence.unit_lanes, key=LANES.index):
        picks: list[Pick] = []
        for place, (id, frequency) in enumerate(evidence.unit_lanes[lane].items(), 1):
            picks.append(Pick(id, lane, frequency, place))
        lanes.append(picks)
    return interleave(attrgetter("id"), *lanes)[:limit]


def interleave(by: Callable[[Item], Hashable], *rankings: Sequence[Item]) -> list[Item]:
    """Merge the rankings: the first item of each, then the second of each, and so on.

    Of items with the same key ``by``, only the first is kept.
    """
    longest = max(map(len, rankings), default=0)
    item_of_key: dict[Hashable, Item] = {}
    for turn in range(longest):
        for items in rankings:
            if turn < len(items):
                item = items[turn]
                item_of_key.setdefault(by(item), item)
    return list(item_of_key.values())


@dataclass(frozen=True)
class Limits:
    """Limits of the search for entities, or for relationships.

    ``records``: the most that are shown. ``n_units``: the text units that are wanted. Where those
    of the first ``records`` are fewer, those of the next ones follow.
    """

    records: int
    n_units: int

    @property
    def searched(self) -> int:
        """Return the number of records to search for, at least one for each text unit."""
        for_units = min(RECORDS_OF_UNIT * self.n_units, MOST_FOR_UNITS)
        return max(self.records, self.n_units, for_units)

    def count_needed(self, sources: Sources) -> int:
        """Return from how many records, the best first, text units are taken."""
        units: set[str] = set()
        for n_records, own in enumerate(sources):
            if n_records >= self.records and len(units) >= self.n_units:
                return n_records
            units.update(own)
        return len(sources)


@dataclass(frozen=True)
class UnitChoice:
    """A method to choose among the source text units of the records found.

    ``number``: about how many to choose per record, with WEIGHT and VECTOR. ``question``: the
    question's vector.
    """

    method: ChunkPick
    number: int
    question: np.ndarray
    vectors: VectorReads

    def choose_among(self, sources: Sources) -> UnitCounts:
        """Choose text units of ``sources`` by the method.

        RELATION takes all, in the order of the records. VECTOR takes the nearest ones; if it finds
        none, WEIGHT decides.
        """
        if self.method == "RELATION":
            return count_frequencies(chain.from_iterable(sources), sources)
        nearest = self._nearest(sources) if self.method == "VECTOR" else {}
        return nearest or choose_by_weight(sources, self.number)

    def _nearest(self, sources: Sources) -> UnitCounts:
        """Return the text units most similar to the question, half of ``number`` per record.

        Half of it is about what WEIGHT chooses: its quotas fall from ``number`` to 1. The result is
        empty if the question's vector is zero.
        """
        if not self.question.any():
            return {}
        units = list(dict.fromkeys(chain.from_iterable(sources)))
        limit = max(1, self.number * len(sources) // 2)
        # The databases call text units chunks.
        hits = self.vectors.nearest_of("chunks", units, self.question, limit)
        return count_frequencies([id for id, _ in hits], sources)


def sort_by_question(
    links: Sequence[Relationship],
    entity_ids: Sequence[str],
    question: np.ndarray,
    vectors: VectorReads,
) -> list[Relationship]:
    """Sort relationships by their end that was found first, then by similarity to the question.

    Ties are sorted by the sum of the ends' degrees, by weight and by id. ``entity_ids`` has the
    ends in the order in which they were found; ``question`` is the question's vector.
    """
    position_of = {id: position for position, id in enumerate(entity_ids)}
    link_ids = [link.id for link in links]
    similarity = dict(vectors.nearest_of("relationships", link_ids, question, len(links)))
    behind_all = len(position_of)

    def sort_key(link: Relationship) -> tuple[int, float, int, float, str]:
        source_position = position_of.get(link.source_entity_id, behind_all)
        target_position = position_of.get(link.target_entity_id, behind_all)
        first_end = min(source_position, target_position)
        # -1 is the least similarity. The rank of a link is the sum of degrees, no position.
        return first_end, -similarity.get(link.id, -1.0), -link.rank, -link.weight, link.id

    return sorted(links, key=sort_key)


def rank_by_relation(shared: Sequence[SharedUnit], entity_ids: Sequence[str]) -> UnitCounts:
    """Rank text units by their entity, then by the number of its neighbours that share them.

    ``entity_ids`` has the entities in the order in which they were found.
    """
    position_of = {id: position for position, id in enumerate(entity_ids)}

    def rank_unit(unit: SharedUnit) -> tuple[int, int, str]:
        return position_of[unit.entity_id], -unit.neighbours, unit.text_unit_id

    # A counter keeps the order in which it has met its keys.
    return Counter(unit.text_unit_id for unit in sorted(shared, key=rank_unit))


def choose_by_weight(sources: Sources, most: int) -> UnitCounts:
    """Choose text units by linear gradient polling.

    The first record may choose ``most`` text units, the last one may choose 1, and those between
    a linear number by their position. A text unit belongs to the first record that has it. Of its
    own, a record prefers those that most records have. What records do not use of their numbers
    is filled with the text units left over, those of the first records first.
    """
    if not sources:
        return {}
    frequency = _frequencies(sources)
    ranked: list[list[str]] = []
    seen: set[str] = set()
    for units in sources:
        own = [unit for unit in dict.fromkeys(units) if unit not in seen]
        seen.update(units)
        ranked.append(sorted(own, key=lambda unit: -frequency[unit]))
    quotas = [round(quota) for quota in np.linspace(most, 1, num=len(ranked))]
    chosen: list[str] = []
    left_over: list[str] = []
    for units, quota in zip(ranked, quotas, strict=True):
        chosen += units[:quota]
        left_over += units[quota:]
    n_unused = sum(quotas) - len(chosen)
    return count_frequencies([*chosen, *left_over[:n_unused]], sources)


def count_frequencies(units: Iterable[str], sources: Sources) -> UnitCounts:
    """Return each distinct text unit with the number of records that have it as a source."""
    frequency = _frequencies(sources)
    return {unit: frequency[unit] for unit in dict.fromkeys(units)}


def _frequencies(sources: Sources) -> Counter[str]:
    """Return the number of records that have each text unit as a source."""
    frequency: Counter[str] = Counter()
    for units in sources:
        # A record that names a text unit twice counts once.
        frequency.update(set(units))
    return frequency
