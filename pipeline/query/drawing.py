"""Drawings of parts of the graph for a page; a large graph is never drawn as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from pipeline.stores.reads import AttributeLimit, GraphReads, Listing, VectorReads, VectorSearch
from pipeline.stores.records import (
    Attribute,
    Between,
    Community,
    Dot,
    Entity,
    Line,
    Membership,
    Relationship,
    Statement,
)

COMMUNITIES, OPENING = 400, 250
"""Most communities of a drawing, and most entities of the first drawing without communities."""
LINES_A_DOT, MOST_LINES = 6, 4000
"""Most lines of a drawing, per dot and in all."""
LINKS, SAID, TEXT = 50, 12, 3000
"""Relationships and text units shown for one entity, and characters of a text unit."""
STATED, STATED_ALONE = 5, 50
"""Statements shown for each relationship of an entity, and for a relationship by itself."""
TOLD_ATTRIBUTES = AttributeLimit(properties=50, values=10, documents=5)
"""The values shown for an entity."""
FINEST = 100
"""A number of a level below all levels of communities."""
UNITS = 2000
"""Most text units of a document whose entities are drawn."""


@dataclass(frozen=True)
class Named:
    """The part of the graph to draw.

    It is the surroundings of ``entities``, the inside of ``community``, the entities of
    ``document`` or, without all of these, the first drawing of the graph. ``as_entities``: draw the
    entities of a community even if it has parts. ``limit``: most relationships around the
    entities, or most entities.
    """

    entities: Sequence[str] = ()
    community: str = ""
    document: str = ""
    as_entities: bool = False
    limit: int = 200


@dataclass(frozen=True)
class Drawing:
    """Entities with relationships, or communities with the number of links between them.

    ``memberships``: communities of the entities; ``titles``: their titles. ``within``: the
    community that is drawn, after the ones around it, coarsest first. ``document``: title of the
    document whose entities are drawn. ``of``: how many there are of what is drawn, if known.
    """

    dots: Sequence[Dot] = ()
    lines: Sequence[Line] = ()
    communities: Sequence[Community] = ()
    between: Sequence[Between] = ()
    memberships: Sequence[Membership] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    within: Sequence[Community] = ()
    document: str = ""
    of: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "entities": [asdict(dot) for dot in self.dots],
            "relationships": [asdict(line) for line in self.lines],
            "communities": [asdict(found) for found in self.communities],
            "between": [asdict(found) for found in self.between],
            "memberships": {found.entity_id: found.community_id for found in self.memberships},
            "titles": dict(self.titles),
            "within": [asdict(found) for found in self.within],
            "document": self.document,
            "of": self.of,
        }


def draw_opening(graph: GraphReads) -> Drawing:
    """Draw the coarsest communities, or the entities of the highest degree if there are none."""
    parts = graph.parts_of("", COMMUNITIES)
    if parts:
        return _draw_communities(parts, graph)
    return _draw_dots(graph.most_linked(OPENING), graph)


def draw_community(community: str, as_entities: bool, limit: int, graph: GraphReads) -> Drawing:
    """Draw the parts of a community, or its entities of the highest degree."""
    around = _enclosing_communities(community, graph)
    if not around:
        return Drawing()
    itself = around[-1]
    if not as_entities and itself.parts >= 2:
        parts = graph.parts_of(community, COMMUNITIES)
        if parts:
            return replace(_draw_communities(parts, graph), within=around, of=itself.parts)
    dots = graph.most_linked(limit, community)
    return replace(_draw_dots(dots, graph, itself.level + 1), within=around, of=itself.size)


def draw_neighbourhood(entity_ids: Sequence[str], limit: int, graph: GraphReads) -> Drawing:
    """Draw the entities, the ends of their best ``limit`` relationships, and all lines between."""
    leading = graph.lines_of(entity_ids, limit)
    drawn_ids = dict.fromkeys(entity_ids)
    for line in leading:
        drawn_ids[line.source_entity_id] = None
        drawn_ids[line.target_entity_id] = None
    dots = graph.dots(list(drawn_ids))
    drawing = _draw_dots(dots, graph)
    lines = {line.id: line for line in (*leading, *drawing.lines)}
    return replace(drawing, lines=list(lines.values()))


def draw_document(document: str, limit: int, vectors: VectorReads, graph: GraphReads) -> Drawing:
    """Draw the entities of the highest degree that the document's text units mention."""
    units = vectors.unit_ids_of(document, UNITS)
    dots: list[Dot] = []
    if units:
        mentioned = vectors.mentions(units, [], 0)
        dots = graph.dots([entity.id for entity in mentioned])
    title = ""
    if dots:
        [listed], _ = vectors.listed(Listing(ids=[document]))
        title = listed.title
    by_degree = sorted(dots, key=lambda dot: (-dot.degree, dot.id))
    return replace(_draw_dots(by_degree[:limit], graph), document=title, of=len(dots))


def draw(named: Named, vectors: VectorReads, graph: GraphReads) -> Drawing:
    """Draw the part of the graph that ``named`` describes."""
    if named.entities:
        return draw_neighbourhood(named.entities, named.limit, graph)
    if named.community:
        return draw_community(named.community, named.as_entities, named.limit, graph)
    if named.document:
        return draw_document(named.document, named.limit, vectors, graph)
    return draw_opening(graph)


def find_by_name(text: str, limit: int, vectors: VectorReads, graph: GraphReads) -> list[Dot]:
    """Return at most ``limit`` entities whose names contain the text; none for a blank text."""
    return graph.named(text, limit) if text.split() else []


def find_by_meaning(
    vector: np.ndarray, limit: int, vectors: VectorReads, graph: GraphReads
) -> list[Dot]:
    """Return the entities whose name and description are most similar to the vector."""
    [hits] = vectors.nearest([VectorSearch("entities", vector, limit)])
    return graph.dots([id for id, _ in hits])


@dataclass(frozen=True)
class Said:
    """The shown beginning of a text unit; ``order`` is its place in its document."""

    id: str
    document_id: str
    order: int
    title: str
    text: str


@dataclass(frozen=True)
class Details:
    """Details of an entity or of a relationship.

    An entity has its best ``relationships`` and its ``communities``, coarsest first. A relationship
    is the only one of ``relationships``. ``said``: the first of its ``passages`` source text units.
    ``stated``: the first statements of each of the relationships. ``attributes``: the values of the
    entity's properties.
    """

    said: Sequence[Said]
    passages: int
    relationships: Sequence[Relationship]
    entity: Entity | None = None
    communities: Sequence[Community] = ()
    stated: Sequence[Statement] = ()
    attributes: Sequence[Attribute] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "entity": _without_sources(self.entity) if self.entity else None,
            "properties": [asdict(one) for one in self.attributes],
            "relationships": [self._relationship_json(link) for link in self.relationships],
            "communities": [asdict(found) for found in self.communities],
            "said": [asdict(unit) for unit in self.said],
            "passages": self.passages,
        }

    def _relationship_json(self, link: Relationship) -> dict[str, Any]:
        """Return the fields of a relationship, and as ``statements`` what is stated of its ends."""
        stated = [asdict(one) for one in self.stated if one.relationship_id == link.id]
        return {**_without_sources(link), "statements": stated}


def entity_details(id: str, vectors: VectorReads, graph: GraphReads) -> Details | None:
    """Return the details of an entity, or None if there is no such entity."""
    entities = graph.entities([id])
    if not entities:
        return None
    units = entities[0].text_unit_ids
    links = graph.relationships_of([id], LINKS)
    memberships = graph.communities_of([id], FINEST)
    communities: list[Community] = []
    if memberships:
        communities = _enclosing_communities(memberships[0].community_id, graph)
    link_ids = [link.id for link in links]
    return Details(
        said=_read_sources(units, vectors),
        passages=len(units),
        relationships=links,
        entity=entities[0],
        communities=communities,
        stated=vectors.statements_of(link_ids, STATED),
        attributes=vectors.attributes_of([id], TOLD_ATTRIBUTES),
    )


def relationship_details(id: str, vectors: VectorReads, graph: GraphReads) -> Details | None:
    """Return the details of a relationship, or None if there is no such relationship."""
    links = graph.relationships([id])
    if not links:
        return None
    units = links[0].text_unit_ids
    return Details(
        said=_read_sources(units, vectors),
        passages=len(units),
        relationships=links,
        stated=vectors.statements_of([id], STATED_ALONE),
    )


def _read_sources(units: Sequence[str], vectors: VectorReads) -> list[Said]:
    """Return the first text units of a record's sources."""
    first_units = list(units[:SAID])
    openings = vectors.openings(first_units, TEXT)
    places = vectors.places(first_units)
    sources: list[Said] = []
    for id in first_units:
        if id in openings and id in places:
            document_id, order = places[id]
            title, text = openings[id]
            sources.append(Said(id, document_id, order, title, text))
    return sources


def _without_sources(record: Entity | Relationship) -> dict[str, Any]:
    """Return the fields of the record without its text units, which ``Details.said`` holds."""
    return {
        name: value
        for name, value in asdict(record).items()
        if name not in ("text_unit_ids", "number")
    }


def _draw_communities(parts: Sequence[Community], graph: GraphReads) -> Drawing:
    between = graph.between([part.id for part in parts])
    most = LINES_A_DOT * len(parts)
    return Drawing(communities=parts, between=between[:most])


def _draw_dots(dots: Sequence[Dot], graph: GraphReads, level: int = 0) -> Drawing:
    """Draw the dots, the lines between them, and their communities at ``level``."""
    ids = [dot.id for dot in dots]
    most_lines = min(LINES_A_DOT * len(ids), MOST_LINES)
    lines = graph.lines_among(ids, most_lines)
    memberships = graph.communities_of(ids, level)
    community_ids = {membership.community_id for membership in memberships}
    communities = graph.communities(sorted(community_ids))
    titles = {community.id: community.title for community in communities}
    return Drawing(dots, lines, memberships=memberships, titles=titles)


def _enclosing_communities(community: str, graph: GraphReads) -> list[Community]:
    """Return the community after those that enclose it, coarsest first; one read per level."""
    enclosing: list[Community] = []
    while community:
        read = graph.communities([community])
        # Damaged data may have a circle of parents.
        if not read or read[0] in enclosing:
            break
        next_coarser = read[0]
        enclosing.insert(0, next_coarser)
        community = next_coarser.parent
    return enclosing
