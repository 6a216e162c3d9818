"""The numbers by which a query's records are cited."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Numbers:
    """Of each kind of record from 1, in the order in which they come up: the same record has the same number in all
    that a query shows."""

    given: dict[str, dict[str, int]] = field(default_factory=dict)

    def of(self, kind: str, ids: Sequence[str]) -> list[int]:
        known = self.given.setdefault(kind, {})
        return [known.setdefault(id, len(known) + 1) for id in ids]
