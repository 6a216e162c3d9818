"""The stores as those see them who may see some documents only.

A text unit of another document is not there. An entity or relationship is there if a text unit of
these documents is one of its sources; what was written of it from other documents too (description,
type, keywords) is left out. A report is there if all of its sources are text units of these
documents, a claim if its one is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from pipeline.query.request import QueryRequest
from pipeline.query.resources import Result
from pipeline.stores.reads import (
    GraphReads,
    Hits,
    Lexical,
    Listing,
    Opening,
    VectorReads,
    VectorSearch,
    Within,
    passages_of,
)
from pipeline.stores.records import (
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
    TextUnit,
)

Sourced = TypeVar("Sourced", Entity, Relationship)
Work = Callable[[VectorReads, GraphReads], Result]

MORE = 5
"""So many times the rows of a drawing are looked at, for those that are left."""


@dataclass(frozen=True)
class NarrowedDocuments:
    """The reads of documents and of their text units, of those alone that satisfy ``allowed``."""

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


@dataclass(frozen=True)
class FilteredVectors(NarrowedDocuments):
    def nearest(
        self, searches: Sequence[VectorSearch], within: Within = (), rights: Within = ()
    ) -> list[Hits]:
        return self.vectors.nearest(searches, (*self.allowed, *within), rights)

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> Hits:
        return self.vectors.nearest_of(table, sorted(self.visible(table, ids)), vector, limit)

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> list[Passage]:
        seen = self.visible("chunks", ids)
        return self.vectors.chunks([id for id in ids if id in seen], question)

    def origins(
        self, table: str, ids: Sequence[str], within: Within
    ) -> Mapping[str, tuple[bool, bool]]:
        return self.vectors.origins(table, ids, (*self.allowed, *within))

    def lexical(
        self, question: str, limit: int, within: Within = (), rights: Within = ()
    ) -> Lexical:
        return self.vectors.lexical(question, limit, (*self.allowed, *within), rights)

    def mentions(
        self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
    ) -> list[EntityMentions]:
        found = self.vectors.mentions(text_unit_ids, entity_ids, most)
        entities = self.visible("entities", [entity.id for entity in found])
        units = self.visible("chunks", _each([entity.passages for entity in found]))
        return [
            replace(entity, passages=[unit for unit in entity.passages if unit in units])
            for entity in found
            if entity.id in entities
        ]

    def opened_mentions(
        self,
        text_unit_ids: Sequence[str],
        entity_ids: Sequence[str],
        most: int,
        passages: int,
        length: int,
    ) -> tuple[list[EntityMentions], Mapping[str, Opening]]:
        """More statements than one: of the passages the first are those that are left."""
        mentioned = self.mentions(text_unit_ids, entity_ids, most)
        return mentioned, self.openings(passages_of(mentioned, passages), length)

    def openings(self, ids: Sequence[str], length: int) -> Mapping[str, Opening]:
        return self.vectors.openings(sorted(self.visible("chunks", ids)), length)

    def embeddings(self, table: str, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        return self.vectors.embeddings(table, ids)

    def reports(self, ids: Sequence[str]) -> list[Report]:
        found = self.vectors.reports(ids)
        whole = self.visible_and_whole("reports", [report.id for report in found])[1]
        return [report for report in found if report.id in whole]

    def reports_at(self, level: int, limit: int, within: Within = ()) -> list[Report]:
        return self.vectors.reports_at(level, limit, (*self.allowed, *within))

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> list[Claim]:
        return self.vectors.claims_of(entity_ids, limit, (*self.allowed, *within))

    def visible(self, table: str, ids: Sequence[str]) -> set[str]:
        """The ids that have a source in the documents."""
        return self.visible_and_whole(table, ids)[0]

    def visible_and_whole(self, table: str, ids: Sequence[str]) -> tuple[set[str], set[str]]:
        """The ids that have a source in the documents, and those of them that have no other."""
        origins = self.vectors.origins(table, ids, self.allowed)
        return {id for id, (some, _) in origins.items() if some}, {
            id for id, (_, all) in origins.items() if all
        }


@dataclass(frozen=True)
class FilteredGraph:
    graph: GraphReads
    vectors: FilteredVectors

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        seen, whole = self._seen("entities", self.graph.entities(ids))
        return [row if row.id in whole else replace(row, description="", type="") for row in seen]

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        return self._told(self.graph.relationships(ids))

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        return self._told(self.graph.relationships_of(entity_ids, limit))

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        shared = self.graph.shared_units(entity_ids)
        visible = self.vectors.visible(
            "chunks", list(dict.fromkeys(found.text_unit_id for found in shared))
        )
        return [found for found in shared if found.text_unit_id in visible]

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        links = self.graph.links(entity_ids, most, limit)
        visible = self.vectors.visible("relationships", [link.id for link in links])
        return [link for link in links if link.id in visible]

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        return self.graph.communities_of(
            sorted(self.vectors.visible("entities", entity_ids)), level
        )

    def named(self, text: str, limit: int) -> list[Dot]:
        return self._dots(self.graph.named(text, MORE * limit))[:limit]

    def dots(self, ids: Sequence[str]) -> list[Dot]:
        return self._dots(self.graph.dots(ids))

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        return self._dots(self.graph.most_linked(MORE * limit, community))[:limit]

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        return self._lines(self.graph.lines_of(entity_ids, MORE * limit))[:limit]

    def lines_among(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        return self._lines(self.graph.lines_among(entity_ids, MORE * limit))[:limit]

    def communities(self, ids: Sequence[str]) -> list[Community]:
        """None: what they are called and how large they are tells of all documents."""
        return []

    def parts_of(self, community: str, limit: int) -> list[Community]:
        return []

    def between(self, community_ids: Sequence[str]) -> list[Between]:
        return []

    def _dots(self, rows: Sequence[Dot]) -> list[Dot]:
        told = {entity.id: entity for entity in self.entities([row.id for row in rows])}
        return [
            replace(row, type=told[row.id].type, x=None, y=None) for row in rows if row.id in told
        ]

    def _lines(self, rows: Sequence[Line]) -> list[Line]:
        told = {link.id: link for link in self.relationships([row.id for row in rows])}
        return [
            replace(row, keyword=next(iter(told[row.id].keywords), ""))
            for row in rows
            if row.id in told
        ]

    def _told(self, rows: Sequence[Relationship]) -> list[Relationship]:
        seen, whole = self._seen("relationships", rows)
        return [
            row if row.id in whole else replace(row, description="", keywords=()) for row in seen
        ]

    def _seen(self, table: str, rows: Sequence[Sourced]) -> tuple[list[Sourced], set[str]]:
        """The rows that have a source in the documents, with those sources; and the ids of those
        that have no other, of which all may be told that was written."""
        visible, whole = self.vectors.visible_and_whole(table, [row.id for row in rows])
        seen = [row for row in rows if row.id in visible]
        units = self.vectors.visible("chunks", _each([row.text_unit_ids for row in seen]))
        return [
            replace(row, text_unit_ids=[unit for unit in row.text_unit_ids if unit in units])
            for row in seen
        ], whole


def _each(lists: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(lists)))


def allowed(request: QueryRequest, work: Work[Result]) -> Work[Result]:
    """The same work over the documents of ``where`` alone."""
    if not request.where:
        return work

    def look(vectors: VectorReads, graph: GraphReads) -> Result:
        seen = FilteredVectors(vectors, (request.where,))
        return work(seen, FilteredGraph(graph, seen))

    return look
