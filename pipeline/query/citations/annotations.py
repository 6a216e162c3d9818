"""Citations of an answer as data: place in the text, passage cited, and support by it."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Annotation:
    """A citation in an answer's text: ``text[start:end]``, counted in Unicode code points.

    ``number``: the ``id`` of the reference to the cited passage. ``supported``: the passage
    contains the names and numbers of the statement before the citation.
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
    """A piece of an answer's text, and its citations, with their places in the whole text."""

    text: str
    annotations: tuple[Annotation, ...] = ()


@dataclass
class Cited:
    """All that an answer cites.

    ``annotations``: the citations in its text. ``sources`` and ``reports``: numbers of the cited
    text units and reports, each once, in the order of the text. ``records``: number of citations of
    other kinds of records. ``removed``: number of citations removed; ``addresses``: number of
    addresses removed.
    """

    removed: int = 0
    addresses: int = 0
    records: int = 0
    sources: list[int] = field(default_factory=list)
    reports: list[int] = field(default_factory=list)
    annotations: list[Annotation] = field(default_factory=list)
