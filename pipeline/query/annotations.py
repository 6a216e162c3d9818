"""The citations of an answer as data: where each stands in the text, of which passage, and whether
that supports it."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Annotation:
    """A citation in an answer's text: ``text[start:end]``, counted in Unicode code points.

    ``number``: the passage that is cited, the ``id`` of a reference. ``supported``: the passage
    holds the names and numbers of what is said before the citation.
    """

    start: int
    end: int
    number: int
    supported: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "end": self.end,
            "number": self.number,
            "supported": self.supported,
        }


@dataclass(frozen=True)
class Piece:
    """A part of an answer's text, and the citations in it; their places are those in the whole
    text."""

    text: str
    annotations: tuple[Annotation, ...] = ()


@dataclass
class Cited:
    """By an answer: the ``annotations`` of its text; numbers of text units and of reports, each
    once, in its order.

    ``records``: how many citations of records of other kinds stand in it, ``removed``: how many
    citations were taken out, and ``addresses``: how many addresses.
    """

    removed: int = 0
    addresses: int = 0
    records: int = 0
    sources: list[int] = field(default_factory=list)
    reports: list[int] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
