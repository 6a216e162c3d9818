"""Reads of the stores for a caller who may know nothing about some documents.

Only the visible documents and their text units can be read. Vectors of entities, relationships and
reports, degrees, communities and names are made from all documents together, so each of them would
reveal something about the hidden ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.contract.conditions import Conditions
from pipeline.errors import NotAllowedError
from pipeline.query.caller import MADE_OF_ALL
from pipeline.query.resources import ReadTogether, Result
from pipeline.query.search.filtered import NarrowedDocuments, Work
from pipeline.stores.reads import (
    AttributeLimit,
    GraphReads,
    Hits,
    Lexical,
    Opening,
    PropertyForm,
    VectorReads,
    VectorSearch,
    Within,
)
from pipeline.stores.records import (
    Attribute,
    Between,
    Claim,
    Community,
    Dot,
    Entity,
    EntityMentions,
    Line,
    Link,
    Membership,
    Passage,
    Relationship,
    Report,
    SharedUnit,
)
from pipeline.text.terms import Term


@dataclass(frozen=True)
class VisiblePassages(NarrowedDocuments):
    """Vector reads as if the documents that satisfy ``allowed`` were the only ones."""

    def nearest(
        self, searches: Sequence[VectorSearch], within: Within = (), rights: Within = ()
    ) -> list[Hits]:
        # Only a text unit is of one document: searches of other tables find nothing.
        of_text_units = [search for search in searches if search.table == "chunks"]
        hits = iter(self.vectors.nearest(of_text_units, within, (*self.allowed, *rights)))
        return [next(hits) if search.table == "chunks" else [] for search in searches]

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> Hits:
        return self.vectors.nearest_of(table, self._visible_units(table, ids), vector, limit)

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> list[Passage]:
        return self.vectors.chunks(self._visible_units("chunks", ids), question)

    def origins(
        self, table: str, ids: Sequence[str], within: Within
    ) -> Mapping[str, tuple[bool, bool]]:
        return self.vectors.origins(
            table, self._visible_units(table, ids), (*self.allowed, *within)
        )

    def lexical(
        self, question: str, limit: int, within: Within = (), rights: Within = ()
    ) -> Lexical:
        return self.vectors.lexical(question, limit, within, (*self.allowed, *rights))

    def lacking(
        self, terms: Sequence[Term], within: Within = (), rights: Within = ()
    ) -> list[Term]:
        return self.vectors.lacking(terms, within, (*self.allowed, *rights))

    def mentions(
        self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
    ) -> list[EntityMentions]:
        return []

    def opened_mentions(
        self,
        text_unit_ids: Sequence[str],
        entity_ids: Sequence[str],
        most: int,
        passages: int,
        length: int,
    ) -> tuple[list[EntityMentions], Mapping[str, Opening]]:
        return [], {}

    def openings(self, ids: Sequence[str], length: int) -> Mapping[str, Opening]:
        return self.vectors.openings(self._visible_units("chunks", ids), length)

    def embeddings(self, table: str, ids: Sequence[str]) -> Mapping[str, np.ndarray]:
        return self.vectors.embeddings(table, self._visible_units(table, ids))

    def reports(self, ids: Sequence[str]) -> list[Report]:
        return []

    def reports_at(self, level: int, limit: int, within: Within = ()) -> list[Report]:
        return []

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> list[Claim]:
        return []

    def properties(self, names: Sequence[str] = ()) -> list[PropertyForm]:
        """Raise NotAllowedError, for the same reason as ``attributes_of`` returns no values."""
        raise NotAllowedError(
            f"where: properties of entities are not known here: {MADE_OF_ALL}; ask with fields of"
            " documents"
        )

    def attributes_of(
        self, entity_ids: Sequence[str], limit: AttributeLimit, within: Within = ()
    ) -> list[Attribute]:
        """Return no values: whether one counts depends on the entity's type in all documents."""
        return []

    def _visible_units(self, table: str, ids: Sequence[str]) -> list[str]:
        """Return the ids that are text units of visible documents, in the same order."""
        if table != "chunks":
            return []
        visible = self.places(ids)
        return [id for id in ids if id in visible]


class NoGraph:
    """An empty graph: the real one is made from all documents, so nothing of it may be shown."""

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        return []

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        return []

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        return []

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        return []

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        return []

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        return []

    def named(self, text: str, limit: int) -> list[Dot]:
        return []

    def dots(self, ids: Sequence[str]) -> list[Dot]:
        return []

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        return []

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        return []

    def lines_among(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        return []

    def communities(self, ids: Sequence[str]) -> list[Community]:
        return []

    def parts_of(self, community: str, limit: int) -> list[Community]:
        return []

    def between(self, community_ids: Sequence[str]) -> list[Between]:
        return []


def restrict_to_visible(where: Conditions, read: ReadTogether) -> ReadTogether:
    """Return ``read`` restricted to documents of ``where``; without conditions ``read`` itself.

    The notes on the state of the stores are left out, because they concern the graph.
    """

    def read_visible(work: Work[Result], /) -> tuple[Result, tuple[str, ...]]:
        def do_restricted(vectors: VectorReads, graph: GraphReads) -> Result:
            return work(VisiblePassages(vectors, (where,)), NoGraph())

        result, _ = read(do_restricted)
        return result, ()

    return read_visible if where else read
