"""The records that reads for a question or a drawing return: entities, relationships, passages,
reports and claims.

They are plain values and no data frames: for twenty rows, a data frame costs more than its values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity. ``number``, here and in the records below, is the number by which a prompt cites
    the record; 0 if it has none."""

    id: str
    name: str
    type: str
    description: str
    degree: int
    text_unit_ids: Sequence[str]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Relationship:
    """A relationship. ``rank`` is the sum of the degrees of both ends."""

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
    """A text unit with its document.

    ``score``: its similarity to the question. ``lane``: the search that chose it first. ``place``:
    its rank in that search, from 1. ``frequency``: how often that search found it. ``heading``: the
    headings above it, joined by " > ". ``date``: that of its document in ISO 8601, with the
    precision that is known. ``header``: the header with which it is searched, "" if it has none.
    """

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
    heading: str = ""
    date: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A report about a community.

    ``found_entities``: how many of the entities found for the question are in the community.
    """

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
    """A claim that a text unit makes about entities."""

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
class Statement:
    """A fact that a text unit states of the two ends of a relationship.

    ``document_id``, ``title`` and ``order``: the document of the text unit, its title, and the
    position of the text unit in it.
    """

    id: str
    relationship_id: str
    type: str
    description: str
    valid_from: str
    valid_to: str
    attributes: Mapping[str, Any]
    text_unit_id: str
    document_id: str
    title: str
    order: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """A value that a document gives for a property of an entity.

    ``type`` and ``unit`` are those of the property. ``text_unit_id``: the first text unit of the
    document that gives it. ``title``, ``order`` and ``date``: the title of the document, the
    position of the text unit in it, and the date of the document, "" if it has none.
    """

    id: str
    entity_id: str
    name: str
    type: str
    value: str
    unit: str
    text_unit_id: str
    document_id: str
    title: str
    order: int
    date: str


@dataclass(frozen=True, slots=True)
class Link:
    """The ends of a relationship, for walks through the graph."""

    id: str
    source_entity_id: str
    target_entity_id: str


@dataclass(frozen=True, slots=True)
class Dot:
    """The fields of an entity that a drawing needs.

    ``x``, ``y``: its place, between -1 and 1; None if the workflow does not lay the graph out.
    """

    id: str
    name: str
    type: str
    degree: int
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """The fields of a relationship that a drawing needs. ``keyword`` is the first of its
    keywords."""

    id: str
    source_entity_id: str
    target_entity_id: str
    keyword: str
    weight: float


@dataclass(frozen=True, slots=True)
class Community:
    """A community.

    ``parent``: "" for the coarsest communities. ``size``: the number of its entities. ``parts``:
    the number of its children.
    """

    id: str
    level: int
    parent: str
    title: str
    summary: str
    size: int
    parts: int


@dataclass(frozen=True, slots=True)
class Between:
    """The number of relationships between the entities of two communities, and the sum of their
    weights."""

    one_id: str
    other_id: str
    relationships: int
    weight: float


@dataclass(frozen=True, slots=True)
class EntityMentions:
    """An entity, and the ids of the text units that mention it."""

    id: str
    name: str
    passages: Sequence[str]


@dataclass(frozen=True, slots=True)
class SharedUnit:
    """A text unit of an entity, and the number of the entity's neighbours that have it too."""

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
    """A document without its text."""

    id: str
    title: str
    source: str
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """A document in a list. ``text_units``: how many it has. ``tokens``: their sum."""

    id: str
    title: str
    source: str
    metadata: Mapping[str, Any] | None
    text_units: int
    tokens: int


@dataclass(frozen=True, slots=True)
class TextUnit:
    """A text unit.

    ``order``: its position in the document, from 0. ``start``, ``end``: the characters of the
    document's text that it covers.
    """

    id: str
    document_id: str
    order: int
    start: int
    end: int
    tokens: int
    content: str
