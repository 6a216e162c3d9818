"""The decision about every pair of names that may be one, from rules, a judge's verdicts and a person's pins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pipeline.resolution.candidates import Pair, defined_acronyms, named_pairs
from pipeline.resolution.clusters import Clusters, Criteria, open_pairs, pinned_units
from pipeline.resolution.name import Name
from pipeline.resolution.pins import Decision
from pipeline.resolution.rules import Comparison, Rules

By = Literal["rule", "model", "person", "cluster"]
MERGE, KEEP = "merge", "keep"
CERTAIN = frozenset({"spelling"})
"""Rules whose pairs are joined first, so that a doubtful neighbour of one spelling does not part it from another."""


@dataclass(frozen=True)
class Decided:
    """``by``: "cluster" where a rule or the model found the two the same, and a third name stands between them."""

    pair: Pair
    score: float
    rule: str
    decision: str
    by: By


@dataclass
class Resolution:
    """``pins``: what a person says of pairs. ``near``: pairs whose vectors are near, with their cosine. Positions of
    names, the smaller first, stand for them. ``most``: of one name's doubtful pairs, how many are considered."""

    names: Sequence[Name]
    similarity: float
    most: int
    pins: Mapping[Pair, Decision] = field(default_factory=dict)
    near: Mapping[Pair, float] = field(default_factory=dict)
    verdicts: dict[Pair, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rules = Rules(self.similarity, defined_acronyms(self.names))
        self._compared: dict[Pair, Comparison] = {}

    @cached_property
    def found(self) -> dict[Pair, Comparison]:
        """The pairs that a rule joins or forbids, or that may be the same."""
        pairs = sorted(named_pairs(self.names) | set(self.near))
        every = {pair: self._with_vectors(pair) for pair in pairs}
        kept = {pair for pair, one in every.items() if one.outcome == "same" or one.rule in ("legal form", "title")}
        kept |= _best({pair: one.score for pair, one in every.items() if one.outcome == "perhaps"}, self.most)
        return {pair: every[pair] for pair in sorted(kept)}

    @property
    def doubtful(self) -> list[Pair]:
        """What a judge may be asked."""
        return [pair for pair, one in self.found.items() if one.outcome == "perhaps" and pair not in self.pins]

    def unclosed(self) -> list[Pair]:
        """Pairs that nobody has looked at, and that stand between the verdicts and a cluster."""
        passing = [pair for pair in self._candidates() if self._passes(*pair)]
        unseen = (pair for pair in open_pairs(passing) if pair not in self.verdicts and pair not in self.pins)
        return sorted(pair for pair in unseen if not self._forbidden(*pair)) if self.verdicts else []

    def clusters(self) -> Clusters:
        criteria = Criteria(self._passes, self._forbidden)
        pinned = pinned_units(pair for pair, decision in self.pins.items() if decision == "same")
        spelled = [pair for pair, one in self.found.items() if one.rule in CERTAIN and one.outcome == "same"]
        return pinned.joined(spelled, criteria).joined(self._candidates(), criteria)

    def decided(self, clusters: Clusters) -> Iterator[Decided]:
        for pair in self._candidates():
            one = self._comparison(pair)
            together = clusters.of(pair[0]) == clusters.of(pair[1])
            yield Decided(pair, one.score, one.rule, MERGE if together else KEEP, self._by(pair, together))

    def _by(self, pair: Pair, together: bool) -> By:
        if pair in self.pins:
            return "person"
        if self._passes(*pair) != together:
            return "cluster"
        return "model" if pair in self.verdicts and self._comparison(pair).outcome != "same" else "rule"

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

    def _with_vectors(self, pair: Pair) -> Comparison:
        """By the names and, where these say nothing, by the vectors."""
        if pair not in self._compared:
            one = self._rules.compare(self.names[pair[0]], self.names[pair[1]])
            if one.outcome == "different" and one.rule == "similarity" and pair in self.near:
                one = Comparison("perhaps", "embedding", self.near[pair])
            self._compared[pair] = one
        return self._compared[pair]


def read_pins_of(pins: Mapping[tuple[str, str], Decision], positions: Mapping[str, int]) -> dict[Pair, Decision]:
    """Pins of entity ids as pins of positions; those of entities that are not there are left out."""
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
