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
    """``label``: same or different. A third of the pairs is held out: no rule was written with an eye on them."""

    kind: str
    a: str
    b: str
    type_a: str
    type_b: str
    label: str

    @property
    def held_out(self) -> bool:
        return crc32(f"{self.a}|{self.b}".encode()) % 3 == 0

    @property
    def merged(self) -> bool:
        names = [read_name(self.a, self.type_a), read_name(self.b, self.type_b)]
        resolution = Resolution(names, DEFAULTS.similarity, DEFAULTS.candidates)
        return any(one.decision == MERGE for one in resolution.decided(resolution.clusters()))


def labelled() -> list[Labelled]:
    with (Path(__file__).parent / "pairs.csv").open(encoding="utf-8", newline="") as file:
        return [Labelled(**row) for row in csv.DictReader(file)]


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
