"""Decide about every pair of names that may be one, from rules, verdicts of a judge and pins.

A pair of names passes if a rule, a verdict or a pin says that the two are the same. Two names are
merged only if they pass, and every other name passes with both or with neither. These groups are
the critical cliques of the graph of passing pairs (Lin, Kearney and Jiang 2000, "Phylogenetic
k-root and Steiner k-root", section 2). A name that passes with two names that do not pass with
each other is merged with neither. The result does not depend on the order of names or pairs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Literal

from pipeline.resolution.name import Name
from pipeline.resolution.pairs import (
    Comparison,
    Pair,
    Rules,
    SharedMentions,
    defined_acronyms,
    named_pairs,
)
from pipeline.resolution.pins import Decision

if TYPE_CHECKING:
    import networkx as nx

Test = Callable[[int, int], bool]
"""A property of a pair of positions; its arguments may be given in either order."""
By = Literal["rule", "model", "person", "cluster"]
"""The source of a decision; "cluster" means that a third name overruled a rule or the model."""
MERGE, KEEP = "merge", "keep"
TOO_MANY_NEIGHBOURS = 20
"""The number of passing names from which on a name opens no pairs: they grow with its square."""
RECORDED_CLASHES = frozenset({"legal form", "title"})
"""Rules that forbid a pair and make it one of the decisions that people see.

Different numbers forbid a pair too, but all names of a series would be such pairs.
"""
CERTAIN = frozenset({"spelling"})
"""Rules whose pairs are merged first.

Without this, a name that passes only with one of two spellings would keep the spellings apart.
"""


@dataclass(frozen=True)
class NameGroup:
    """Names that are merged already, given by their positions.

    Each of ``pinned`` holds names that pins put together, or a single name. It counts as one name,
    which passes with another if one of its names passes and none is forbidden.
    """

    pinned: tuple[tuple[int, ...], ...]

    @cached_property
    def members(self) -> tuple[int, ...]:
        """All positions in ascending order."""
        return tuple(sorted(member for names in self.pinned for member in names))


@dataclass(frozen=True)
class Criteria:
    """Two tests of pairs: ``passes`` is true if they may be one, ``forbidden`` if they must not.

    A pair may be neither, or both: then it is forbidden. Between two groups, one forbidden pair
    outweighs all that pass.
    """

    passes: Test
    forbidden: Test

    def joins(self, one: NameGroup, two: NameGroup) -> bool:
        """Return whether all that is pinned in one group passes with all that is in the other."""
        return all(self._pinned_pass(a, b) for a, b in product(one.pinned, two.pinned))

    def _pinned_pass(self, one: Sequence[int], two: Sequence[int]) -> bool:
        """Return whether one pair of these names passes and none is forbidden."""
        pairs = list(product(one, two))
        if not any(self.passes(*pair) for pair in pairs):
            return False
        return not any(self.forbidden(*pair) for pair in pairs)


@dataclass
class Clusters:
    """The names that are merged; ``groups`` maps each of their positions to its `NameGroup`."""

    groups: dict[int, NameGroup] = field(default_factory=dict)

    def join(self, pairs: Iterable[Pair], criteria: Criteria) -> "Clusters":
        """Return the clusters after merging the critical cliques of the groups that pairs connect.

        Two groups are connected by a pair of their names if the criteria join them.
        """
        graph = _graph_of([])
        for one, two in pairs:
            a, b = self.group_of(one), self.group_of(two)
            if a != b and not graph.has_edge(a, b) and criteria.joins(a, b):
                graph.add_edge(a, b)
        # Groups with the same neighbours, counting themselves, form a critical clique.
        cliques: dict[frozenset[NameGroup], list[NameGroup]] = defaultdict(list)
        for group in graph:
            neighbours = frozenset((*graph[group], group))
            cliques[neighbours].append(group)
        found = dict(self.groups)
        for clique in cliques.values():
            if len(clique) > 1:
                pinned = [names for group in clique for names in group.pinned]
                merged = NameGroup(tuple(sorted(pinned)))
                found |= dict.fromkeys(merged.members, merged)
        return Clusters(found)

    def group_of(self, member: int) -> NameGroup:
        """Return the group of a position; a name that is not merged has one of its own."""
        return self.groups.get(member) or NameGroup(((member,),))

    @property
    def of_several(self) -> list[tuple[int, ...]]:
        """The positions of each cluster with more than one name, sorted."""
        return sorted({group.members for group in self.groups.values() if len(group.members) > 1})


def pinned_clusters(same: Iterable[Pair]) -> Clusters:
    """Return the clusters of names that pins connect, directly or by a chain of pins."""
    import networkx as nx

    found: dict[int, NameGroup] = {}
    for members in nx.connected_components(_graph_of(same)):
        group = NameGroup((tuple(sorted(members)),))
        found |= dict.fromkeys(members, group)
    return Clusters(found)


def _graph_of(pairs: Iterable[Pair]) -> "nx.Graph[Any]":
    """Return the graph whose edges are the pairs."""
    # The library is imported here: it takes long, and comparing names alone needs none.
    import networkx as nx

    graph: nx.Graph[Any] = nx.Graph()
    graph.add_edges_from(pairs)
    return graph


def pairs_split_by_a_third(pairs: Iterable[Pair]) -> set[Pair]:
    """Return pairs that do not pass though both names pass with a third.

    ``pairs`` are the passing pairs. A third name with `TOO_MANY_NEIGHBOURS` passing names or more
    is skipped.
    """
    graph = _graph_of(pairs)
    found: set[Pair] = set()
    for middle in graph:
        if len(graph[middle]) >= TOO_MANY_NEIGHBOURS:
            continue
        for one, two in combinations(sorted(graph[middle]), 2):
            if not graph.has_edge(one, two):
                found.add((one, two))
    return found


@dataclass(frozen=True)
class PairDecision:
    """The decision about a pair of names: `MERGE` or `KEEP`.

    ``rule`` and ``score`` are those of the comparison. ``by`` is the source of the decision; it is
    "cluster" if a third name changed what a rule or the model found.
    """

    pair: Pair
    score: float
    rule: str
    decision: str
    by: By


@dataclass
class Resolution:
    """The resolution of a list of names; pairs are given by positions, the smaller first.

    ``similarity`` is the lowest score of a doubtful pair, ``most`` the largest number of doubtful
    pairs of one name. ``pins`` are the decisions of people. ``near`` maps pairs of near vectors to
    their cosine. ``text_units`` has the ids of those that mention each name; without them no two
    names are known to be mentioned together. ``verdicts`` are filled in as a judge answers.
    """

    names: Sequence[Name]
    similarity: float
    most: int
    pins: Mapping[Pair, Decision] = field(default_factory=dict)
    near: Mapping[Pair, float] = field(default_factory=dict)
    text_units: Sequence[frozenset[str]] = ()
    verdicts: dict[Pair, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rules = Rules(self.similarity, defined_acronyms(self.names))
        self._compared: dict[Pair, Comparison] = {}

    @cached_property
    def found(self) -> dict[Pair, Comparison]:
        """The comparisons of pairs that a rule merges, or forbids by one of `RECORDED_CLASHES`, and
        of those that may be the same."""
        pairs = sorted(named_pairs(self.names) | set(self.near))
        comparisons = {pair: self._comparison_with_vectors(pair) for pair in pairs}
        kept: set[Pair] = set()
        doubtful_scores: dict[Pair, float] = {}
        for pair, comparison in comparisons.items():
            if comparison.outcome == "same" or comparison.rule in RECORDED_CLASHES:
                kept.add(pair)
            elif comparison.outcome == "perhaps":
                doubtful_scores[pair] = comparison.score
        kept |= _best_pairs(doubtful_scores, self.most)
        return {pair: comparisons[pair] for pair in sorted(kept)}

    @property
    def doubtful(self) -> list[Pair]:
        """The pairs to ask the judge about: they may be the same, and no pin decides."""
        return [
            pair
            for pair, comparison in self.found.items()
            if comparison.outcome == "perhaps" and pair not in self.pins
        ]

    def doubtful_after_verdicts(self) -> list[Pair]:
        """Return pairs to ask the judge about after its first verdicts, sorted.

        They have neither verdict nor pin and are not forbidden, but keep names apart that both
        pass with a third. The list is empty before there are verdicts.
        """
        if not self.verdicts:
            return []
        passing = [pair for pair in self._candidates() if self._passes(*pair)]
        unknown = [
            pair
            for pair in pairs_split_by_a_third(passing)
            if pair not in self.verdicts and pair not in self.pins
        ]
        return sorted(pair for pair in unknown if not self._forbidden(*pair))

    def clusters(self) -> Clusters:
        """Return the clusters: pins first, then certain rules, then all other passing pairs."""
        criteria = Criteria(self._passes, self._forbidden)
        pinned = pinned_clusters(pair for pair, decision in self.pins.items() if decision == "same")
        spelled = [
            pair
            for pair, comparison in self.found.items()
            if comparison.rule in CERTAIN and comparison.outcome == "same"
        ]
        return pinned.join(spelled, criteria).join(self._candidates(), criteria)

    def decided(self, clusters: Clusters) -> Iterator[PairDecision]:
        """Yield the decision about each pair that was considered, in the order of the pairs."""
        for pair in self._candidates():
            one, two = pair
            comparison = self._comparison(pair)
            together = clusters.group_of(one) == clusters.group_of(two)
            yield PairDecision(
                pair=pair,
                score=comparison.score,
                rule=comparison.rule,
                decision=MERGE if together else KEEP,
                by=self._decided_by(pair, together),
            )

    def _decided_by(self, pair: Pair, together: bool) -> By:
        """Return who decided that a pair is together or apart."""
        if pair in self.pins:
            return "person"
        if self._passes(*pair) != together:
            return "cluster"
        is_by_rule = pair not in self.verdicts or self._comparison(pair).outcome == "same"
        return "rule" if is_by_rule else "model"

    def _candidates(self) -> list[Pair]:
        """Return the pairs that are found, pinned or judged, sorted."""
        return sorted({*self.found, *self.pins, *self.verdicts})

    def _passes(self, one: int, two: int) -> bool:
        """Return whether the two may be one: by a pin, or else by a rule or a verdict."""
        pair = _sorted_pair(one, two)
        if pair in self.pins:
            return self.pins[pair] == "same"
        return self._comparison(pair).outcome == "same" or self.verdicts.get(pair, False)

    def _forbidden(self, one: int, two: int) -> bool:
        """Return whether the two must not be one: by a pin, or else by a verdict or a rule.

        The rules that forbid are `RECORDED_CLASHES` and different numbers. A pair that is only
        unlike is not forbidden.
        """
        pair = _sorted_pair(one, two)
        if pair in self.pins:
            return self.pins[pair] == "different"
        comparison = self._comparison(pair)
        clash = comparison.outcome == "different" and comparison.rule != "similarity"
        return clash or not self.verdicts.get(pair, True)

    def _comparison(self, pair: Pair) -> Comparison:
        """Return the comparison of a pair, whether it is among those found or not."""
        return self.found.get(pair) or self._comparison_with_vectors(pair)

    def _shared_mentions(self, one: int, two: int) -> SharedMentions:
        """Count the text units that mention each name and both; zeros if they are not known."""
        if not self.text_units:
            return SharedMentions()
        first, second = self.text_units[one], self.text_units[two]
        return SharedMentions(len(first), len(second), len(first & second))

    def _comparison_with_vectors(self, pair: Pair) -> Comparison:
        """Compare the names of a pair; if no rule decides and they are unlike, use the vectors."""
        known = self._compared.get(pair)
        if known:
            return known
        one, two = pair
        mentions = self._shared_mentions(one, two)
        comparison = self._rules.compare(self.names[one], self.names[two], mentions)
        is_unlike = comparison.outcome == "different" and comparison.rule == "similarity"
        if is_unlike and pair in self.near:
            comparison = Comparison("perhaps", "embedding", self.near[pair])
        self._compared[pair] = comparison
        return comparison


def pins_by_position(
    pins: Mapping[tuple[str, str], Decision], positions: Mapping[str, int]
) -> dict[Pair, Decision]:
    """Return the pins by pairs of positions instead of entity ids.

    Pins of entities without a position are left out.
    """
    return {
        _sorted_pair(positions[a], positions[b]): decision
        for (a, b), decision in pins.items()
        if a in positions and b in positions
    }


def _best_pairs(scores: Mapping[Pair, float], most: int) -> set[Pair]:
    """Return the pairs with the highest scores, at most ``most`` of each position."""
    taken: Counter[int] = Counter()
    best: set[Pair] = set()
    for pair in sorted(scores, key=lambda pair: (-scores[pair], pair)):
        if all(taken[end] < most for end in pair):
            best.add(pair)
            taken.update(pair)
    return best


def _sorted_pair(one: int, two: int) -> Pair:
    return (one, two) if one < two else (two, one)


def most_frequent_member(
    members: Iterable[int], frequencies: Sequence[int], names: Sequence[Name]
) -> int:
    """Return the member whose name the cluster takes: the most frequent, ties by code point."""
    return min(members, key=lambda member: (-frequencies[member], names[member].name))
