"""Reads of the stores that are restricted to the documents that a condition admits.

The rules for each kind of record are:

- A text unit is visible if its document is admitted.
- An entity or a relationship is visible if one of its source text units is. If it has other
  sources too, its texts (description, type, keywords) are blanked, because these mix all sources.
- A report is visible if all of its source text units are.
- A claim, a statement or a value of a property is visible if its only source text unit is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from pipeline.query.property_conditions import resolve_properties
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Result
from pipeline.stores.reads import (
    AttributeLimit,
    GraphReads,
    Hits,
    Lexical,
    Listing,
    Opening,
    PropertyForm,
    VectorReads,
    VectorSearch,
    Within,
    passages_of,
)
from pipeline.stores.records import (
    Attribute,
    Between,
    Claim,
    Community,
    Document,
    Dot,
    Entity,
    EntityMentions,
    Line,
    Link,
    ListedDocument,
    Membership,
    Passage,
    Relationship,
    Report,
    SharedUnit,
    Statement,
    TextUnit,
)
from pipeline.text.terms import Term

Sourced = TypeVar("Sourced", Entity, Relationship)
Work = Callable[[VectorReads, GraphReads], Result]

MORE = 5
"""Factor by which a drawing reads more rows than its limit, because some are filtered out."""


@dataclass(frozen=True)
class NarrowedDocuments:
    """Reads of documents and their text units that add the conditions ``allowed`` to each read."""

    vectors: VectorReads
    allowed: Within

    def documents(self, within: Within = ()) -> list[Document]:
        return self.vectors.documents((*self.allowed, *within))

    def listed(self, listing: Listing, within: Within = ()) -> tuple[list[ListedDocument], int]:
        return self.vectors.listed(listing, (*self.allowed, *within))

    def units_of(
        self, document_id: str, first: int, limit: int, within: Within = ()
    ) -> list[TextUnit]:
        return self.vectors.units_of(document_id, first, limit, (*self.allowed, *within))

    def unit_ids_of(self, document_id: str, limit: int, within: Within = ()) -> list[str]:
        return self.vectors.unit_ids_of(document_id, limit, (*self.allowed, *within))

    def places(
        self, text_unit_ids: Sequence[str], within: Within = ()
    ) -> Mapping[str, tuple[str, int]]:
        return self.vectors.places(text_unit_ids, (*self.allowed, *within))

    def statements_of(
        self, relationship_ids: Sequence[str], limit: int, within: Within = ()
    ) -> list[Statement]:
        return self.vectors.statements_of(relationship_ids, limit, (*self.allowed, *within))

    def properties(self, names: Sequence[str] = ()) -> list[PropertyForm]:
        return self.vectors.properties(names)

    def attributes_of(
        self, entity_ids: Sequence[str], limit: AttributeLimit, within: Within = ()
    ) -> list[Attribute]:
        return self.vectors.attributes_of(entity_ids, limit, (*self.allowed, *within))


@dataclass(frozen=True)
class FilteredVectors(NarrowedDocuments):
    """Vector reads that return only records visible under ``allowed``; see the module."""

    def nearest(
        self, searches: Sequence[VectorSearch], within: Within = (), rights: Within = ()
    ) -> list[Hits]:
        return self.vectors.nearest(searches, (*self.allowed, *within), rights)

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> Hits:
        visible = sorted(self.visible(table, ids))
        return self.vectors.nearest_of(table, visible, vector, limit)

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> list[Passage]:
        visible = self.visible("chunks", ids)
        return self.vectors.chunks([id for id in ids if id in visible], question)

    def origins(
        self, table: str, ids: Sequence[str], within: Within
    ) -> Mapping[str, tuple[bool, bool]]:
        return self.vectors.origins(table, ids, (*self.allowed, *within))

    def lexical(
        self, question: str, limit: int, within: Within = (), rights: Within = ()
    ) -> Lexical:
        return self.vectors.lexical(question, limit, (*self.allowed, *within), rights)

    def lacking(
        self, terms: Sequence[Term], within: Within = (), rights: Within = ()
    ) -> list[Term]:
        return self.vectors.lacking(terms, (*self.allowed, *within), rights)

    def mentions(
        self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
    ) -> list[EntityMentions]:
        mentions = self.vectors.mentions(text_unit_ids, entity_ids, most)
        passages = _distinct_ids([entity.passages for entity in mentions])
        visible_entities = self.visible("entities", [entity.id for entity in mentions])
        visible_passages = self.visible("chunks", passages)
        visible_mentions: list[EntityMentions] = []
        for entity in mentions:
            if entity.id in visible_entities:
                passages = [id for id in entity.passages if id in visible_passages]
                visible_mentions.append(replace(entity, passages=passages))
        return visible_mentions

    def opened_mentions(
        self,
        text_unit_ids: Sequence[str],
        entity_ids: Sequence[str],
        most: int,
        passages: int,
        length: int,
    ) -> tuple[list[EntityMentions], Mapping[str, Opening]]:
        """Return the visible mentions, and the openings of the first visible ``passages``.

        The limit applies after filtering, so this takes several reads instead of the store's one.
        """
        mentioned = self.mentions(text_unit_ids, entity_ids, most)
        first_passages = passages_of(mentioned, passages)
        return mentioned, self.openings(first_passages, length)

    def openings(self, ids: Sequence[str], length: int) -> Mapping[str, Opening]:
        visible = sorted(self.visible("chunks", ids))
        return self.vectors.openings(visible, length)

    def embeddings(self, table: str, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        return self.vectors.embeddings(table, ids)

    def reports(self, ids: Sequence[str]) -> list[Report]:
        reports = self.vectors.reports(ids)
        report_ids = [report.id for report in reports]
        _, entirely = self.partly_and_entirely_visible("reports", report_ids)
        return [report for report in reports if report.id in entirely]

    def reports_at(self, level: int, limit: int, within: Within = ()) -> list[Report]:
        return self.vectors.reports_at(level, limit, (*self.allowed, *within))

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> list[Claim]:
        return self.vectors.claims_of(entity_ids, limit, (*self.allowed, *within))

    def visible(self, table: str, ids: Sequence[str]) -> set[str]:
        """Return the ids that have at least one source in the admitted documents."""
        partly, _ = self.partly_and_entirely_visible(table, ids)
        return partly

    def partly_and_entirely_visible(
        self, table: str, ids: Sequence[str]
    ) -> tuple[set[str], set[str]]:
        """Return two sets of ids: some source is in the admitted documents, and all sources are."""
        origins = self.vectors.origins(table, ids, self.allowed)
        partly = {id for id, (some_sources, _) in origins.items() if some_sources}
        entirely = {id for id, (_, all_sources) in origins.items() if all_sources}
        return partly, entirely


@dataclass(frozen=True)
class FilteredGraph:
    """Graph reads that return only records visible to ``vectors``; see the module."""

    graph: GraphReads
    vectors: FilteredVectors

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        visible, entirely = self._visible_rows("entities", self.graph.entities(ids))
        return [
            entity if entity.id in entirely else replace(entity, description="", type="")
            for entity in visible
        ]

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        return self._visible_relationships(self.graph.relationships(ids))

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        return self._visible_relationships(self.graph.relationships_of(entity_ids, limit))

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        shared = self.graph.shared_units(entity_ids)
        text_unit_ids = list(dict.fromkeys(unit.text_unit_id for unit in shared))
        visible = self.vectors.visible("chunks", text_unit_ids)
        return [unit for unit in shared if unit.text_unit_id in visible]

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        links = self.graph.links(entity_ids, most, limit)
        link_ids = [link.id for link in links]
        visible = self.vectors.visible("relationships", link_ids)
        return [link for link in links if link.id in visible]

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        visible = sorted(self.vectors.visible("entities", entity_ids))
        return self.graph.communities_of(visible, level)

    def named(self, text: str, limit: int) -> list[Dot]:
        dots = self.graph.named(text, MORE * limit)
        return self._visible_dots(dots)[:limit]

    def dots(self, ids: Sequence[str]) -> list[Dot]:
        return self._visible_dots(self.graph.dots(ids))

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        dots = self.graph.most_linked(MORE * limit, community)
        return self._visible_dots(dots)[:limit]

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        lines = self.graph.lines_of(entity_ids, MORE * limit)
        return self._visible_lines(lines)[:limit]

    def lines_among(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        lines = self.graph.lines_among(entity_ids, MORE * limit)
        return self._visible_lines(lines)[:limit]

    def communities(self, ids: Sequence[str]) -> list[Community]:
        """Return no communities: their titles and sizes are made from all documents."""
        return []

    def parts_of(self, community: str, limit: int) -> list[Community]:
        return []

    def between(self, community_ids: Sequence[str]) -> list[Between]:
        return []

    def _visible_dots(self, rows: Sequence[Dot]) -> list[Dot]:
        """Return the dots of visible entities, without the place that all documents decide."""
        entities = self.entities([row.id for row in rows])
        type_of = {entity.id: entity.type for entity in entities}
        visible = [row for row in rows if row.id in type_of]
        return [replace(row, type=type_of[row.id], x=None, y=None) for row in visible]

    def _visible_lines(self, rows: Sequence[Line]) -> list[Line]:
        """Return the lines of visible relationships, each with the first visible keyword or ""."""
        keyword_of: dict[str, str] = {}
        for link in self.relationships([row.id for row in rows]):
            keyword_of[link.id] = next(iter(link.keywords), "")
        visible = [row for row in rows if row.id in keyword_of]
        return [replace(row, keyword=keyword_of[row.id]) for row in visible]

    def _visible_relationships(self, rows: Sequence[Relationship]) -> list[Relationship]:
        visible, entirely = self._visible_rows("relationships", rows)
        return [
            link if link.id in entirely else replace(link, description="", keywords=())
            for link in visible
        ]

    def _visible_rows(self, table: str, rows: Sequence[Sourced]) -> tuple[list[Sourced], set[str]]:
        """Return the visible rows, and the ids of those that have only visible sources.

        The rows name their visible source text units only.
        """
        ids = [row.id for row in rows]
        partly, entirely = self.vectors.partly_and_entirely_visible(table, ids)
        visible = [row for row in rows if row.id in partly]
        sources = _distinct_ids([row.text_unit_ids for row in visible])
        units = self.vectors.visible("chunks", sources)
        narrowed = []
        for row in visible:
            visible_sources = [unit for unit in row.text_unit_ids if unit in units]
            narrowed.append(replace(row, text_unit_ids=visible_sources))
        return narrowed, entirely


def _distinct_ids(lists: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(lists)))


def restrict_to_where(request: QueryRequest, work: Work[Result]) -> Work[Result]:
    """Return ``work`` so that it sees only the documents that the request's ``where`` admits.

    Without ``where`` the work itself is returned.
    """
    if not request.where:
        return work

    def do_restricted(vectors: VectorReads, graph: GraphReads) -> Result:
        where = resolve_properties(request.where, vectors)
        visible = FilteredVectors(vectors, (where,))
        return work(visible, FilteredGraph(graph, visible))

    return do_restricted
