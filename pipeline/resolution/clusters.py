"""Which names become one, given which pairs pass: never by way of a third.

Two names become one only if they pass, and every other name passes with both or with neither: the critical cliques of
the graph of passing pairs (Lin, Kearney and Jiang 2000, "Phylogenetic k-root and Steiner k-root", section 2). A name
that passes with two that do not pass with each other joins neither. The result knows no order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product

from pipeline.resolution.candidates import Pair

Test = Callable[[int, int], bool]


@dataclass(frozen=True)
class Unit:
    """Names that are one already. ``groups``: those within it that a person has put together count as one name, which
    passes where one of them does and none is forbidden."""

    groups: tuple[tuple[int, ...], ...]

    @cached_property
    def members(self) -> tuple[int, ...]:
        return tuple(sorted(member for group in self.groups for member in group))


@dataclass(frozen=True)
class Criteria:
    """``passes``: the two may be one; ``forbidden``: they must not be."""

    passes: Test
    forbidden: Test

    def joins(self, one: Unit, two: Unit) -> bool:
        return all(self._fits(a, b) for a, b in product(one.groups, two.groups))

    def _fits(self, one: Sequence[int], two: Sequence[int]) -> bool:
        pairs = list(product(one, two))
        return any(self.passes(*pair) for pair in pairs) and not any(self.forbidden(*pair) for pair in pairs)


@dataclass
class Clusters:
    """``units`` of all names, found by the member."""

    units: dict[int, Unit] = field(default_factory=dict)

    def joined(self, pairs: Iterable[Pair], criteria: Criteria) -> "Clusters":
        """One step: the units that ``pairs`` connect, as far as the criteria allow."""
        import networkx as nx

        graph = nx.Graph()
        for one, two in pairs:
            a, b = self.of(one), self.of(two)
            if a != b and not graph.has_edge(a, b) and criteria.joins(a, b):
                graph.add_edge(a, b)
        alike: dict[frozenset[Unit], list[Unit]] = defaultdict(list)
        for unit in graph:
            alike[frozenset((*graph[unit], unit))].append(unit)
        found = dict(self.units)
        for units in alike.values():
            if len(units) > 1:
                whole = Unit(tuple(sorted(group for unit in units for group in unit.groups)))
                found |= dict.fromkeys(whole.members, whole)
        return Clusters(found)

    def of(self, member: int) -> Unit:
        return self.units.get(member) or Unit(((member,),))

    @property
    def of_several(self) -> list[tuple[int, ...]]:
        return sorted({unit.members for unit in self.units.values() if len(unit.members) > 1})


def pinned_units(same: Iterable[Pair]) -> Clusters:
    """What a person has put together, also by way of a third."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(same)
    units = [Unit((tuple(sorted(members)),)) for members in nx.connected_components(graph)]
    return Clusters({member: unit for unit in units for member in unit.members})


def open_pairs(pairs: Iterable[Pair]) -> set[Pair]:
    """Pairs that do not pass, though both pass with a third: what a judge may be asked to close."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_edges_from(pairs)
    ends = (combinations(sorted(graph[middle]), 2) for middle in graph if len(graph[middle]) < 20)
    return {(one, two) for sides in ends for one, two in sides if not graph.has_edge(one, two)}
