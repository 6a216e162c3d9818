"""Parts of the graph as a page draws them: never the whole of a large one at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from pipeline.stores.reads import GraphReads, Listing, VectorReads, VectorSearch
from pipeline.stores.records import Between, Community, Dot, Entity, Line, Membership, Relationship

COMMUNITIES, OPENING = 400, 250
"""Communities, and entities where there are none, that the graph opens with."""
LINES_A_DOT, MOST_LINES = 6, 4000
LINKS, SAID, TEXT = 50, 12, 3000
"""Relationships and text units of one entity that are told, and characters of a text unit."""
FINEST = 100
"""A level that no community goes below."""
UNITS = 2000
"""Text units of a document whose entities are drawn."""


@dataclass(frozen=True)
class Named:
    """What is to be drawn: the surroundings of entities, the inside of a community
    (``as_entities``: also where it has parts), the entities of a document, or nothing of these, for
    what the graph opens with. ``limit``: of what leads to the entities, or of entities."""

    entities: Sequence[str] = ()
    community: str = ""
    document: str = ""
    as_entities: bool = False
    limit: int = 200


@dataclass(frozen=True)
class Drawing:
    """Entities and relationships, or communities and what leads between them. ``memberships``: of
    the entities; ``titles``: of the communities in these. ``within``: the community that it is the
    inside of, and those around that, the coarsest first; ``document``: the title of that whose
    entities these are. ``of``: how many there are of what is drawn, where that is known."""

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
    """The coarsest communities, or the entities of the highest degree where the workflow has made
    none."""
    parts = graph.parts_of("", COMMUNITIES)
    return _of_communities(parts, graph) if parts else _of_dots(graph.most_linked(OPENING), graph)


def draw_community(community: str, as_entities: bool, limit: int, graph: GraphReads) -> Drawing:
    """What a community is made of: its parts, or its entities of the highest degree."""
    around = _around(community, graph)
    if not around:
        return Drawing()
    itself = around[-1]
    parts = () if as_entities or itself.parts < 2 else graph.parts_of(community, COMMUNITIES)
    if parts:
        return replace(_of_communities(parts, graph), within=around, of=itself.parts)
    dots = graph.most_linked(limit, community)
    return replace(_of_dots(dots, graph, itself.level + 1), within=around, of=itself.size)


def draw_neighbourhood(entity_ids: Sequence[str], limit: int, graph: GraphReads) -> Drawing:
    """The entities, those that their best ``limit`` relationships lead to, and all that leads
    between these."""
    leading = graph.lines_of(entity_ids, limit)
    ends = chain.from_iterable((line.source_entity_id, line.target_entity_id) for line in leading)
    dots = graph.dots(list(dict.fromkeys([*entity_ids, *ends])))
    drawn = _of_dots(dots, graph)
    return replace(drawn, lines=_each_once([*leading, *drawn.lines]))


def draw_document(document: str, limit: int, vectors: VectorReads, graph: GraphReads) -> Drawing:
    """The entities of the highest degree that the document's text mentions."""
    units = vectors.unit_ids_of(document, UNITS)
    found = graph.dots([entity.id for entity in vectors.mentions(units, [], 0)]) if units else []
    best = sorted(found, key=lambda dot: (-dot.degree, dot.id))[:limit]
    [titled], _ = vectors.listed(Listing(ids=[document])) if found else ([None], 0)
    return replace(_of_dots(best, graph), document=titled.title if titled else "", of=len(found))


def draw(named: Named, vectors: VectorReads, graph: GraphReads) -> Drawing:
    if named.entities:
        return draw_neighbourhood(named.entities, named.limit, graph)
    if named.community:
        return draw_community(named.community, named.as_entities, named.limit, graph)
    if named.document:
        return draw_document(named.document, named.limit, vectors, graph)
    return draw_opening(graph)


def find_by_name(text: str, limit: int, graph: GraphReads) -> list[Dot]:
    return graph.named(text, limit) if text.split() else []


def find_by_meaning(
    vector: np.ndarray, limit: int, vectors: VectorReads, graph: GraphReads
) -> list[Dot]:
    """The entities whose name and description are nearest to the vector."""
    [hits] = vectors.nearest([VectorSearch("entities", vector, limit)])
    return graph.dots([id for id, _ in hits])


@dataclass(frozen=True)
class Said:
    """A text unit, as far as it is shown: ``order`` is its place in its document."""

    id: str
    document_id: str
    order: int
    title: str
    text: str


@dataclass(frozen=True)
class Details:
    """Of an entity: its relationships, the best first, and the communities that it is in, the
    coarsest first; of a relationship: itself. ``said``: where it is said, the first of ``passages``
    text units."""

    said: Sequence[Said]
    passages: int
    relationships: Sequence[Relationship]
    entity: Entity | None = None
    communities: Sequence[Community] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "entity": _shown(self.entity) if self.entity else None,
            "relationships": [_shown(link) for link in self.relationships],
            "communities": [asdict(found) for found in self.communities],
            "said": [asdict(unit) for unit in self.said],
            "passages": self.passages,
        }


def entity_details(id: str, vectors: VectorReads, graph: GraphReads) -> Details | None:
    entities = graph.entities([id])
    if not entities:
        return None
    units = entities[0].text_unit_ids
    links = graph.relationships_of([id], LINKS)
    found = graph.communities_of([id], FINEST)
    around = _around(found[0].community_id, graph) if found else []
    return Details(_said(units, vectors), len(units), links, entities[0], around)


def relationship_details(id: str, vectors: VectorReads, graph: GraphReads) -> Details | None:
    links = graph.relationships([id])
    return (
        Details(_said(links[0].text_unit_ids, vectors), len(links[0].text_unit_ids), links)
        if links
        else None
    )


def _said(units: Sequence[str], vectors: VectorReads) -> list[Said]:
    first = list(units[:SAID])
    texts, places = vectors.openings(first, TEXT), vectors.places(first)
    return [Said(id, *places[id], *texts[id]) for id in first if id in texts and id in places]


def _shown(record: Entity | Relationship) -> dict[str, Any]:
    """All but the text units, which are told by ``said``."""
    return {
        name: value
        for name, value in asdict(record).items()
        if name not in ("text_unit_ids", "number")
    }


def _of_communities(parts: Sequence[Community], graph: GraphReads) -> Drawing:
    between = graph.between([part.id for part in parts])[: LINES_A_DOT * len(parts)]
    return Drawing(communities=parts, between=between)


def _of_dots(dots: Sequence[Dot], graph: GraphReads, level: int = 0) -> Drawing:
    """``level``: of the communities that they are told to be in."""
    ids = [dot.id for dot in dots]
    lines = graph.lines_among(ids, min(LINES_A_DOT * len(ids), MOST_LINES))
    memberships = graph.communities_of(ids, level)
    named = graph.communities(sorted({found.community_id for found in memberships}))
    return Drawing(
        dots, lines, memberships=memberships, titles={found.id: found.title for found in named}
    )


def _around(community: str, graph: GraphReads) -> list[Community]:
    """The community and those that it is a part of, the coarsest first. Levels are few."""
    found: list[Community] = []
    while community and (read := graph.communities([community])) and read[0] not in found:
        found.insert(0, read[0])
        community = read[0].parent
    return found


def _each_once(lines: Iterable[Line]) -> list[Line]:
    return list({line.id: line for line in lines}.values())
