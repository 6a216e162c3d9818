"""Pairs of names with what they are, and what the default rules make of them."""

import csv
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from pipeline.resolution.name import read_name
from pipeline.resolution.resolve import MERGE, Resolution
from pipeline.verbs.resolve_entities import ResolveParams

DEFAULTS = ResolveParams()


@dataclass(frozen=True)
class Labelled:
    """``label``: same or different. ``met``: in how many text units of some corpus each of the
    names stands, and in how many both. A third of the pairs is held out: no rule was written with
    an eye on them."""

    kind: str
    a: str
    b: str
    type_a: str
    type_b: str
    label: str
    met: tuple[int, int, int] = (0, 0, 0)

    @property
    def held_out(self) -> bool:
        return self.kind == "unseen" or (
            self.kind != "seen" and crc32(f"{self.a}|{self.b}".encode()) % 3 == 0
        )

    @property
    def merged(self) -> bool:
        names = [read_name(self.a, self.type_a), read_name(self.b, self.type_b)]
        resolution = Resolution(names, DEFAULTS.similarity, DEFAULTS.candidates, units=self._units)
        return any(one.decision == MERGE for one in resolution.decided(resolution.clusters()))

    @property
    def _units(self) -> list[frozenset[str]]:
        one, two, both = self.met
        shared = [f"both {place}" for place in range(both)]
        return [
            frozenset([*shared, *(f"{end} {place}" for place in range(alone - both))])
            for end, alone in (("one", one), ("two", two))
        ]


def labelled() -> list[Labelled]:
    """Names with their types, as a model gives them; nothing is known of where they stand."""
    return [
        Labelled(row["kind"], row["a"], row["b"], row["type_a"], row["type_b"], row["label"])
        for row in _rows("pairs.csv")
    ]


def met() -> list[Labelled]:
    """Names of 2WikiMultiHopQA's passages as the fast graph types them, judged by the passages: 296
    pairs drawn by a seed (and 4 more) from what the rules joined and doubted at the time, and 148,
    which no rule has seen, from what they join and doubt since."""
    return [
        Labelled(
            row["kind"],
            row["a"],
            row["b"],
            row["type_a"],
            row["type_b"],
            row["label"],
            (int(row["units_a"]), int(row["units_b"]), int(row["units_both"])),
        )
        for row in _rows("pairs_met.csv")
    ]


def _rows(name: str) -> list[dict[str, str]]:
    with (Path(__file__).parent / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Score:
    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        return self.right / max(self.right + self.wrong, 1)

    @property
    def recall(self) -> float:
        return self.right / max(self.right + self.missed, 1)


def score(pairs: Iterable[Labelled]) -> Score:
    counts = Counter((pair.label == "same", pair.merged) for pair in pairs)
    return Score(counts[True, True], counts[False, True], counts[True, False])
