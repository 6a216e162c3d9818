"""What a question finds, a record each: entities, relationships, passages, reports and claims, and
what leads to them.

Plain values: a table of twenty rows costs more to make than to fill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entity:
    """``number``: what a context that numbers its records cites it by, here and below; 0 where it
    does not."""

    id: str
    name: str
    type: str
    description: str
    degree: int
    text_unit_ids: Sequence[str]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Relationship:
    """``rank``: the degrees of both ends together."""

    id: str
    source_entity_id: str
    target_entity_id: str
    source: str
    target: str
    description: str
    keywords: Sequence[str]
    weight: float
    rank: int
    text_unit_ids: Sequence[str]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """A text unit, and its document. ``score``: its similarity to the question. ``lane``: what
    chose it first, ``place`` where in that lane, from 1, ``frequency`` how often it came up
    there."""

    id: str
    document_id: str
    source: str
    title: str
    start: int
    end: int
    tokens: int
    content: str
    metadata: Mapping[str, Any] | None
    score: float
    lane: str = ""
    frequency: int = 0
    place: int = 0
    rerank_score: float | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """``found_entities``: how many of the entities that were found are in its community."""

    id: str
    level: int
    parent: str
    children: Sequence[str]
    title: str
    summary: str
    content: str
    rating: float
    weight: int
    size: int
    text_unit_ids: Sequence[str]
    found_entities: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    id: str
    subject_id: str
    object_id: str
    subject: str
    object: str
    type: str
    status: str
    start_date: str
    end_date: str
    description: str
    source_text: str
    text_unit_id: str
    document_id: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A relationship, as far as a walk needs it."""

    id: str
    source_entity_id: str
    target_entity_id: str


@dataclass(frozen=True, slots=True)
class Dot:
    """An entity, as far as a drawing needs it. ``x``, ``y``: its place, between -1 and 1, where the
    workflow lays the graph out."""

    id: str
    name: str
    type: str
    degree: int
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A relationship, as far as a drawing needs it. ``keyword``: the first of its own."""

    id: str
    source_entity_id: str
    target_entity_id: str
    keyword: str
    weight: float


@dataclass(frozen=True, slots=True)
class Community:
    """``parent``: "" of the coarsest. ``size``: its entities; ``parts``: the communities that it is
    the parent of."""

    id: str
    level: int
    parent: str
    title: str
    summary: str
    size: int
    parts: int


@dataclass(frozen=True, slots=True)
class Between:
    """How many relationships there are between the entities of two communities, and their weights
    together."""

    one_id: str
    other_id: str
    relationships: int
    weight: float


@dataclass(frozen=True, slots=True)
class EntityMentions:
    """An entity, and the passages that mention it."""

    id: str
    name: str
    passages: Sequence[str]


@dataclass(frozen=True, slots=True)
class SharedUnit:
    """A text unit of an entity, and how many of its neighbours have it too."""

    entity_id: str
    text_unit_id: str
    neighbours: int


@dataclass(frozen=True, slots=True)
class Membership:
    """The community that an entity is in."""

    entity_id: str
    community_id: str
    level: int


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    source: str
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document as a list shows it. ``text_units``: how many it has, ``tokens`` in all."""

    id: str
    title: str
    source: str
    metadata: Mapping[str, Any] | None
    text_units: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TextUnit:
    """``order``: its place in its document, from 0; ``start``, ``end``: in characters of the
    document's text."""

    id: str
    document_id: str
    order: int
    start: int
    end: int
    tokens: int
    content: str
