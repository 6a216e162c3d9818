"""The share of gold triples that a graph has, and how much a graph says for each token of text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipeline.text.ids import match_key

Triple = tuple[str, str, str]
"""Subject, relation and object."""


@dataclass
class Extracted:
    """The facts of a graph.

    ``pairs``: the two ends of each relationship, in either order. ``said``: what descriptions say,
    by the name that they are about. All names are keys of `match_key`.
    """

    entities: set[str] = field(default_factory=set)
    pairs: set[frozenset[str]] = field(default_factory=set)
    said: dict[str, list[str]] = field(default_factory=dict)

    def add_entity(self, name: str, description: str) -> None:
        key = match_key(name)
        self.entities.add(key)
        self.said.setdefault(key, []).append(match_key(description))

    def add_relationship(self, source: str, target: str, description: str) -> None:
        ends = (match_key(source), match_key(target))
        self.pairs.add(frozenset(ends))
        for end in ends:
            self.said.setdefault(end, []).append(match_key(description))


def share_found(triples: Iterable[Triple], extracted: Extracted) -> Mapping[str, float]:
    """Return the share of the triples that the graph has, in two senses.

    ``linked``: a relationship joins subject and object. ``stated``: it does, or a description of
    the subject holds the object, as it must where the object is a date or a figure.
    """
    distinct = list(dict.fromkeys(triples))
    linked = stated = 0
    for subject, _, object in distinct:
        ends = (match_key(subject), match_key(object))
        is_linked = frozenset(ends) in extracted.pairs
        is_said = any(_holds(text, ends[1]) for text in extracted.said.get(ends[0], ()))
        if is_linked:
            linked += 1
        if is_linked or is_said:
            stated += 1
    total = len(distinct) or 1
    return {"triples": len(distinct), "linked": linked / total, "stated": stated / total}


def _holds(text: str, words: str) -> bool:
    """Return whether the words stand in the text, not as a part of other words."""
    return f" {words} " in f" {text.replace(',', ' ,')} "
