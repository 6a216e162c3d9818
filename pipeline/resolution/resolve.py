"""The decision about every pair of names that may be one, from rules, a judge's verdicts and a
person's pins.

Two names become one only if they pass, and every other name passes with both or with neither: the
critical cliques of the graph of passing pairs (Lin, Kearney and Jiang 2000, "Phylogenetic k-root
and Steiner k-root", section 2). A name that passes with two that do not pass with each other joins
neither. The result knows no order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import Literal

from pipeline.resolution.name import Name
from pipeline.resolution.pairs import (
    Company,
    Comparison,
    Pair,
    Rules,
    defined_acronyms,
    named_pairs,
)
from pipeline.resolution.pins import Decision

Test = Callable[[int, int], bool]
By = Literal["rule", "model", "person", "cluster"]
MERGE, KEEP = "merge", "keep"
CERTAIN = frozenset({"spelling"})
"""Rules whose pairs are joined first, so that a doubtful neighbour of one spelling does not part it
from another."""


@dataclass(frozen=True)
class NameGroup:
    """Names that are one already. ``groups``: those within it that a person has put together count
    as one name, which passes where one of them does and none is forbidden."""

    groups: tuple[tuple[int, ...], ...]

    @cached_property
    def members(self) -> tuple[int, ...]:
        return tuple(sorted(member for group in self.groups for member in group))


@dataclass(frozen=True)
class Criteria:
    """``passes``: the two may be one; ``forbidden``: they must not be."""

    passes: Test
    forbidden: Test

    def joins(self, one: NameGroup, two: NameGroup) -> bool:
        return all(self._fits(a, b) for a, b in product(one.groups, two.groups))

    def _fits(self, one: Sequence[int], two: Sequence[int]) -> bool:
        pairs = list(product(one, two))
        return any(self.passes(*pair) for pair in pairs) and not any(
            self.forbidden(*pair) for pair in pairs
        )


@dataclass
class Clusters:
    """``units`` of all names, found by the member."""

    units: dict[int, NameGroup] = field(default_factory=dict)

    def joined(self, pairs: Iterable[Pair], criteria: Criteria) -> "Clusters":
        """One step: the units that ``pairs`` connect, as far as the criteria allow."""
        import networkx as nx

        graph = nx.Graph()
        for one, two in pairs:
            a, b = self.of(one), self.of(two)
            if a != b and not graph.has_edge(a, b) and criteria.joins(a, b):
                graph.add_edge(a, b)
        alike: dict[frozenset[NameGroup], list[NameGroup]] = defaultdict(list)
        for unit in graph:
            alike[frozenset((*graph[unit], unit))].append(unit)
        found = dict(self.units)
        for units in alike.values():
            if len(units) > 1:
                whole = NameGroup(tuple(sorted(group for unit in units for group in unit.groups)))
                found |= dict.fromkeys(whole.members, whole)
        return Clusters(found)

    def of(self, member: int) -> NameGroup:
        return self.units.get(member) or NameGroup(((member,),))

    @property
    def of_several(self) -> list[tuple[int, ...]]:
        return sorted({unit.members for unit in self.units.values() if len(unit.members) > 1})


def pinned_units(same: Iterable[Pair]) -> Clusters:
    """What a person has put together, also by way of a third."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(same)
    units = [NameGroup((tuple(sorted(members)),)) for members in nx.connected_components(graph)]
    return Clusters({member: unit for unit in units for member in unit.members})


def open_pairs(pairs: Iterable[Pair]) -> set[Pair]:
    """Pairs that do not pass, though both pass with a third: what a judge may be asked to close."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(pairs)
    ends = (combinations(sorted(graph[middle]), 2) for middle in graph if len(graph[middle]) < 20)
    return {(one, two) for sides in ends for one, two in sides if not graph.has_edge(one, two)}


@dataclass(frozen=True)
class PairDecision:
    """``by``: "cluster" where a rule or the model found the two the same, and a third name stands
    between them."""

    pair: Pair
    score: float
    rule: str
    decision: str
    by: By


@dataclass
class Resolution:
    """``pins``: what a person says of pairs. ``near``: pairs whose vectors are near, with their
    cosine. Positions of names, the smaller first, stand for them. ``most``: of one name's doubtful
    pairs, how many are considered. ``units``: the text units of each name."""

    names: Sequence[Name]
    similarity: float
    most: int
    pins: Mapping[Pair, Decision] = field(default_factory=dict)
    near: Mapping[Pair, float] = field(default_factory=dict)
    units: Sequence[frozenset[str]] = ()
    verdicts: dict[Pair, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rules = Rules(self.similarity, defined_acronyms(self.names))
        self._compared: dict[Pair, Comparison] = {}

    @cached_property
    def found(self) -> dict[Pair, Comparison]:
        """The pairs that a rule joins or forbids, or that may be the same."""
        pairs = sorted(named_pairs(self.names) | set(self.near))
        every = {pair: self._with_vectors(pair) for pair in pairs}
        kept = {
            pair
            for pair, one in every.items()
            if one.outcome == "same" or one.rule in ("legal form", "title")
        }
        kept |= _best(
            {pair: one.score for pair, one in every.items() if one.outcome == "perhaps"}, self.most
        )
        return {pair: every[pair] for pair in sorted(kept)}

    @property
    def doubtful(self) -> list[Pair]:
        """What a judge may be asked."""
        return [
            pair
            for pair, one in self.found.items()
            if one.outcome == "perhaps" and pair not in self.pins
        ]

    def unclosed(self) -> list[Pair]:
        """Pairs that nobody has looked at, and that stand between the verdicts and a cluster."""
        passing = [pair for pair in self._candidates() if self._passes(*pair)]
        unseen = (
            pair
            for pair in open_pairs(passing)
            if pair not in self.verdicts and pair not in self.pins
        )
        return (
            sorted(pair for pair in unseen if not self._forbidden(*pair)) if self.verdicts else []
        )

    def clusters(self) -> Clusters:
        criteria = Criteria(self._passes, self._forbidden)
        pinned = pinned_units(pair for pair, decision in self.pins.items() if decision == "same")
        spelled = [
            pair
            for pair, one in self.found.items()
            if one.rule in CERTAIN and one.outcome == "same"
        ]
        return pinned.joined(spelled, criteria).joined(self._candidates(), criteria)

    def decided(self, clusters: Clusters) -> Iterator[PairDecision]:
        for pair in self._candidates():
            one = self._comparison(pair)
            together = clusters.of(pair[0]) == clusters.of(pair[1])
            yield PairDecision(
                pair, one.score, one.rule, MERGE if together else KEEP, self._by(pair, together)
            )

    def _by(self, pair: Pair, together: bool) -> By:
        if pair in self.pins:
            return "person"
        if self._passes(*pair) != together:
            return "cluster"
        return (
            "model"
            if pair in self.verdicts and self._comparison(pair).outcome != "same"
            else "rule"
        )

    def _candidates(self) -> list[Pair]:
        return sorted({*self.found, *self.pins, *self.verdicts})

    def _passes(self, one: int, two: int) -> bool:
        pair = _ordered(one, two)
        if pair in self.pins:
            return self.pins[pair] == "same"
        return self._comparison(pair).outcome == "same" or self.verdicts.get(pair, False)

    def _forbidden(self, one: int, two: int) -> bool:
        """Pinned apart, found different by the model, or by what the names count or are called."""
        pair = _ordered(one, two)
        if pair in self.pins:
            return self.pins[pair] == "different"
        comparison = self._comparison(pair)
        clash = comparison.outcome == "different" and comparison.rule != "similarity"
        return clash or not self.verdicts.get(pair, True)

    def _comparison(self, pair: Pair) -> Comparison:
        return self.found.get(pair) or self._with_vectors(pair)

    def _company(self, one: int, two: int) -> Company:
        if not self.units:
            return Company()
        first, second = self.units[one], self.units[two]
        return Company(len(first), len(second), len(first & second))

    def _with_vectors(self, pair: Pair) -> Comparison:
        """By the names and, where these say nothing, by the vectors."""
        if pair not in self._compared:
            one = self._rules.compare(
                self.names[pair[0]], self.names[pair[1]], self._company(*pair)
            )
            if one.outcome == "different" and one.rule == "similarity" and pair in self.near:
                one = Comparison("perhaps", "embedding", self.near[pair])
            self._compared[pair] = one
        return self._compared[pair]


def read_pins_of(
    pins: Mapping[tuple[str, str], Decision], positions: Mapping[str, int]
) -> dict[Pair, Decision]:
    """Pins of entity ids as pins of positions; those of entities that are not there are left
    out."""
    return {
        _ordered(positions[a], positions[b]): decision
        for (a, b), decision in pins.items()
        if a in positions and b in positions
    }


def _best(scores: Mapping[Pair, float], most: int) -> set[Pair]:
    """The pairs with the highest scores, so many at most of each position."""
    taken: dict[int, int] = {}
    best = set()
    for pair in sorted(scores, key=lambda pair: (-scores[pair], pair)):
        if all(taken.get(end, 0) < most for end in pair):
            best.add(pair)
            taken |= {end: taken.get(end, 0) + 1 for end in pair}
    return best


def _ordered(one: int, two: int) -> Pair:
    return (one, two) if one < two else (two, one)


def chosen(members: Iterable[int], frequencies: Sequence[int], names: Sequence[Name]) -> int:
    """The member whose name all take: the most frequent, ties by code point."""
    return min(members, key=lambda member: (-frequencies[member], names[member].name))
