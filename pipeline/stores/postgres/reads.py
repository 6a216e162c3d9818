"""Reads of a workspace in PostgreSQL for the query stage: vectors, words, text units, mentions,
reports and claims."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Self

import numpy as np
from psycopg import sql
from sqlalchemy import ColumnElement, Connection, Select, func, or_, select, true

from pipeline.contract.schema_version import refuse_newer
from pipeline.stores.base import Live, refuse_earlier
from pipeline.stores.postgres import queries
from pipeline.stores.postgres.attributes import select_attributes
from pipeline.stores.postgres.conditions import Allowed, AllowedDocuments
from pipeline.stores.postgres.database import Moment, PostgresDatabase, columns_of, cursor
from pipeline.stores.postgres.hnsw import Hnsw, search_parameters, search_settings
from pipeline.stores.postgres.lacking import find_lacking
from pipeline.stores.postgres.lexical import RememberedStatistics, lexical_search
from pipeline.stores.postgres.schema import (
    ATTRIBUTES,
    CHUNKS,
    CLAIMS,
    DOCUMENTS,
    REPORTS,
    VECTOR_TABLES,
)
from pipeline.stores.postgres.sources import limit_to_visible, sources_of
from pipeline.stores.postgres.statements import select_statements
from pipeline.stores.postgres.workspaces import shown_at_begin, workspaces
from pipeline.stores.reads import (
    SOURCES,
    AttributeLimit,
    Hits,
    Lexical,
    Listing,
    Opening,
    PropertyForm,
    VectorSearch,
    Within,
    in_order,
)
from pipeline.stores.records import (
    Attribute,
    Claim,
    Document,
    EntityMentions,
    ListedDocument,
    Passage,
    Report,
    Statement,
    TextUnit,
)
from pipeline.text.terms import Term

PAGE = 5000
"""Rows that are fetched at a time when all text units are read."""
EMBEDDINGS = sql.SQL("SELECT id, embedding FROM {} WHERE workspace = %s AND id = ANY(%s)")


@dataclass(frozen=True)
class PostgresReads(PostgresDatabase):
    """The reads of VectorReads, over the tables of a PostgresStore.

    ``filters`` remembers which conditions few documents satisfy, ``statistics`` the figures that
    BM25 needs.
    """

    hnsw: Hnsw = Hnsw()
    filters: AllowedDocuments = field(
        default_factory=AllowedDocuments, repr=False, compare=False, kw_only=True
    )
    statistics: RememberedStatistics = field(
        default_factory=RememberedStatistics, repr=False, compare=False, kw_only=True
    )

    def allowed(self, within: Within) -> Allowed:
        """Return the documents that satisfy all of ``within``."""
        if not within:
            return Allowed(within)
        live = self.live()
        version = live.version if live else ""
        with self.connection() as connection:
            return self.filters.find(connection, self.workspace, version, within)

    @contextmanager
    def reading(self) -> Iterator[Self]:
        """Yield a store that reads everything in one transaction, see VectorStore.

        Raises NothingLoadedError if the workspace was loaded by an earlier version of the software,
        whose tables lack columns that are read now.
        """
        with self.connection(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        ) as connection:
            live = self._refuse_newer(shown_at_begin(connection, self.workspace))
            if live is not None:
                refuse_earlier(live, f"{self.address}, workspace '{self.workspace}'")
            yield replace(self, moment=Moment(connection, live))

    def live(self) -> Live | None:
        if self.moment is not None:
            return self.moment.live
        with self.connection() as connection:
            return self._refuse_newer(shown_at_begin(connection, self.workspace))

    def live_in(self, connection: Connection) -> Live | None:
        """Return what the workspace shows as seen by the transaction of ``connection``."""
        return self._refuse_newer(workspaces(connection, self.workspace).get(self.workspace))

    def _refuse_newer(self, live: Live | None) -> Live | None:
        """Return ``live``. Raises DataError if a newer version of the software has loaded it."""
        if live is not None:
            refuse_newer(live.schema_version, f"{self.address}, workspace '{self.workspace}'")
        return live

    def nearest(
        self, searches: Sequence[VectorSearch], within: Within = (), rights: Within = ()
    ) -> list[Hits]:
        live = self.live()
        # Vectors of another model have no neighbours here.
        if live is None or any(len(search.vector) != live.dimensions for search in searches):
            return [[] for _ in searches]
        within = (*rights, *within)
        allowed = self.allowed(within)
        with self.connection() as connection:
            search = partial(self._search, connection, live, allowed)
            # What an approximate index finds depends on all rows in it. With ``rights``, rows that
            # the caller may not see would change the result, so every vector is compared.
            if rights or allowed.few is not None:
                return search(searches)
            parameters = search_parameters(searches, self.workspace, live, self.hnsw)
            connection.execute(search_settings(), parameters)
            found = search(searches, by_index=True)
            if within:
                # A search of the index stops at a limit, perhaps before it has seen enough rows
                # that satisfy the conditions. Searches with too few hits are repeated without it.
                too_short: list[int] = []
                for place, hits in enumerate(found):
                    if len(hits) < searches[place].limit:
                        too_short.append(place)
                repeated = search([searches[place] for place in too_short])
                for place, hits in zip(too_short, repeated, strict=True):
                    found[place] = hits
        return found

    def _search(
        self,
        connection: Connection,
        live: Live,
        allowed: Allowed,
        searches: Sequence[VectorSearch],
        by_index: bool = False,
    ) -> list[Hits]:
        """Return the hits of each search, found with the index or by comparing all vectors."""
        if not searches:
            return []
        tables = tuple(search.table for search in searches)
        model = (live.embedding_key, live.dimensions)
        if allowed.within:
            query = queries.searches(tables, *model, by_index, allowed)
        else:
            query = queries.searches_of_all(tables, *model, by_index)
        parameters: dict[str, Any] = {"workspace": self.workspace}
        for place, search in enumerate(searches):
            parameters[f"vector_{place}"] = search.vector
            parameters[f"limit_{place}"] = search.limit
        found: list[list[tuple[float, str]]] = [[] for _ in searches]
        for place, distance, id in connection.execute(query, parameters).all():
            # The place is null in the one row of a result without hits.
            if place is not None:
                found[place].append((distance, id))
        return [_rank_hits(pairs) for pairs in found]

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> Hits:
        query = queries.nearest_of(table, len(vector))
        return _rank_hits(self.rows_of(query, ids=list(ids), vector=vector, limit=limit))

    def documents(self, within: Within = ()) -> list[Document]:
        is_allowed = self.allowed(within).has(DOCUMENTS.c.id, DOCUMENTS.c.workspace)
        in_workspace = DOCUMENTS.c.workspace == self.workspace
        query = select(*columns_of(Document, DOCUMENTS)).where(in_workspace, is_allowed)
        return self.records(Document, query)

    def listed(self, listing: Listing, within: Within = ()) -> tuple[list[ListedDocument], int]:
        """List documents, see VectorReads.

        One statement reads each document once. The number of all documents is a column of each row
        of the page; an empty page has one row with this number alone.
        """
        found = (
            select(DOCUMENTS.c.id, func.lower(DOCUMENTS.c.title).collate("C").label("place"))
            .where(
                DOCUMENTS.c.workspace == self.workspace,
                self.allowed(within).has(DOCUMENTS.c.id, DOCUMENTS.c.workspace),
                *_conditions_of(listing),
            )
            .cte("found")
            .prefix_with("MATERIALIZED")
        )
        by_title = found.c.place, found.c.id.collate("C")
        page = (
            select(found)
            .order_by(*by_title)
            .offset(listing.first)
            .limit(listing.limit)
            .subquery("page")
        )
        number = select(func.count().label("all")).select_from(found).subquery("number")
        # The sum of no rows is null.
        tokens = func.coalesce(func.sum(CHUNKS.c.tokens), 0)
        sums = (
            select(func.count().label("text_units"), tokens.label("tokens"))
            .where(CHUNKS.c.workspace == self.workspace, CHUNKS.c.full_doc_id == page.c.id)
            .lateral("sums")
        )
        shown = [DOCUMENTS.c[name] for name in ("id", "title", "source", "metadata")]
        is_document = (DOCUMENTS.c.workspace == self.workspace) & (DOCUMENTS.c.id == page.c.id)
        query = (
            select(number.c.all, *shown, sums.c.text_units, sums.c.tokens)
            .outerjoin_from(number, page, true())
            .outerjoin(DOCUMENTS, is_document)
            .outerjoin(sums, true())
            .order_by(page.c.place, page.c.id.collate("C"))
        )
        rows = self.rows_of(query)
        number_of_all = rows[0][0]
        documents = [ListedDocument(*row[1:]) for row in rows if row[1] is not None]
        return documents, number_of_all

    def units_of(
        self, document_id: str, first: int, limit: int, within: Within = ()
    ) -> list[TextUnit]:
        place = CHUNKS.c.chunk_order_index
        query = (
            select(
                CHUNKS.c.id,
                CHUNKS.c.full_doc_id,
                place,
                CHUNKS.c.char_start,
                CHUNKS.c.char_end,
                CHUNKS.c.tokens,
                CHUNKS.c.content,
            )
            .where(
                CHUNKS.c.workspace == self.workspace,
                CHUNKS.c.full_doc_id == document_id,
                place >= first,
                place < first + limit,
                self.allowed(within).has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace),
            )
            .order_by(place)
        )
        return self.records(TextUnit, query)

    def unit_ids_of(self, document_id: str, limit: int, within: Within = ()) -> list[str]:
        query = (
            select(CHUNKS.c.id)
            .where(
                CHUNKS.c.workspace == self.workspace,
                CHUNKS.c.full_doc_id == document_id,
                self.allowed(within).has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace),
            )
            .order_by(CHUNKS.c.chunk_order_index)
            .limit(limit)
        )
        return [id for (id,) in self.rows_of(query)]

    def places(
        self, text_unit_ids: Sequence[str], within: Within = ()
    ) -> dict[str, tuple[str, int]]:
        is_visible = self.allowed(within).has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
        query = select(CHUNKS.c.id, CHUNKS.c.full_doc_id, CHUNKS.c.chunk_order_index).where(
            CHUNKS.c.workspace == self.workspace,
            CHUNKS.c.id == func.any(list(text_unit_ids)),
            is_visible,
        )
        return {id: (document, place) for id, document, place in self.rows_of(query)}

    def origins(
        self, table: str, ids: Sequence[str], within: Within
    ) -> dict[str, tuple[bool, bool]]:
        rows = sources_of(self.workspace, VECTOR_TABLES[table], ids).subquery()
        chunk = CHUNKS.alias("source")
        is_source = (chunk.c.workspace == self.workspace) & (chunk.c.id == rows.c.source)
        is_allowed = self.allowed(within).has(chunk.c.full_doc_id, chunk.c.workspace)
        # A source that is gone belongs to no document, so the test of it is null.
        belongs = func.coalesce(is_allowed, False)
        query = (
            select(rows.c.id, func.bool_or(belongs), func.bool_and(belongs))
            .outerjoin_from(rows, chunk, is_source)
            .group_by(rows.c.id)
        )
        return {id: (some, all) for id, some, all in self.rows_of(query)}

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> list[Passage]:
        query = queries.passages(len(question))
        rows = self.rows_of(query, ids=list(ids), question=question)
        return in_order([Passage(**row._mapping) for row in rows], ids)

    def header_of(self, chunk_id: str) -> str:
        """Return the header of a text unit, or "" if it has none."""
        is_text_unit = (CHUNKS.c.workspace == self.workspace) & (CHUNKS.c.id == chunk_id)
        rows = self.rows_of(select(CHUNKS.c.header).where(is_text_unit))
        if not rows:
            return ""
        return rows[0].header or ""

    def contents(self) -> Iterator[list[tuple[str, str]]]:
        query = select(CHUNKS.c.id, CHUNKS.c.content).where(CHUNKS.c.workspace == self.workspace)
        with self.connection() as connection:
            found = connection.execute(query, execution_options={"yield_per": PAGE})
            for page in found.partitions():
                yield [(id, content) for id, content in page]

    def lexical(
        self, question: str, limit: int, within: Within = (), rights: Within = ()
    ) -> Lexical:
        visible = self.allowed(rights)
        allowed = self.allowed((*rights, *within))
        live = self.live()
        version = live.version if live else ""
        with self.connection() as connection:
            known = self.statistics.of(connection, self.workspace, version, visible)
            return lexical_search(
                connection, self.workspace, question, limit, allowed, visible, known
            )

    def lacking(
        self, terms: Sequence[Term], within: Within = (), rights: Within = ()
    ) -> list[Term]:
        visible = self.allowed(rights)
        allowed = self.allowed((*rights, *within))
        live = self.live()
        version = live.version if live else ""
        with self.connection() as connection:
            known = self.statistics.of(connection, self.workspace, version, visible)
            return find_lacking(connection, self.workspace, terms, allowed, known)

    def mentions(
        self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
    ) -> list[EntityMentions]:
        parameters = queries.mentioned_by(text_unit_ids, entity_ids, most)
        return self.records(EntityMentions, queries.mentions(), **parameters)

    def opened_mentions(
        self,
        text_unit_ids: Sequence[str],
        entity_ids: Sequence[str],
        most: int,
        passages: int,
        length: int,
    ) -> tuple[list[EntityMentions], dict[str, Opening]]:
        parameters = queries.mentioned_by(text_unit_ids, entity_ids, most)
        rows = self.rows_of(
            queries.opened_mentions(), **parameters, passages=passages, length=length
        )
        mentioned: list[EntityMentions] = []
        openings: dict[str, Opening] = {}
        for id, name, opening, units in rows:
            if units is None:
                # The row is a text unit; ``name`` is the title of its document.
                openings[id] = (name or "", opening or "")
            else:
                mentioned.append(EntityMentions(id, name, units))
        return sorted(mentioned, key=attrgetter("id")), openings

    def openings(self, ids: Sequence[str], length: int) -> dict[str, Opening]:
        found = self.rows_of(queries.openings(), ids=list(ids), length=length)
        return {id: (title or "", opening or "") for id, title, opening in found}

    def embeddings(self, table: str, ids: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the vectors by id, see VectorReads.

        They are sent in binary: to parse a vector from text takes longer than to find it.
        """
        name = sql.Identifier(VECTOR_TABLES[table].name)
        statement = EMBEDDINGS.format(name)
        with self.connection() as connection:
            in_binary = cursor(connection, binary=True)
            found = in_binary.execute(statement, [self.workspace, list(ids)])
            return {id: vector.to_numpy() for id, vector in found}

    def reports(self, ids: Sequence[str]) -> list[Report]:
        query = _select_reports(self.workspace).where(REPORTS.c.id == func.any(list(ids)))
        return in_order(self.records(Report, query), ids)

    def reports_at(self, level: int, limit: int, within: Within = ()) -> list[Report]:
        is_at_level = REPORTS.c.level == level
        # A community that is not divided further stands for itself at each finer level.
        has_no_children = func.cardinality(REPORTS.c.children) == 0
        is_undivided = (REPORTS.c.level < level) & has_no_children
        best_first = (
            REPORTS.c.weight.desc(),
            REPORTS.c.rating.desc(),
            REPORTS.c.id.collate("C"),
        )
        query = (
            _select_reports(self.workspace)
            .where(or_(is_at_level, is_undivided))
            .order_by(*best_first)
            .limit(limit)
        )
        if within:
            query = query.where(limit_to_visible(REPORTS, self.allowed(within)))
        return self.records(Report, query)

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> list[Claim]:
        ids = func.any(list(entity_ids))
        document = CHUNKS.c.full_doc_id
        document_id = func.coalesce(document, "").label("document_id")
        columns = columns_of(Claim, CLAIMS, {"document_id": document_id})
        in_workspace = CHUNKS.c.workspace == CLAIMS.c.workspace
        is_text_unit = in_workspace & (CHUNKS.c.id == CLAIMS.c.text_unit_id)
        query = (
            select(*columns)
            .outerjoin_from(CLAIMS, CHUNKS, is_text_unit)
            .where(
                CLAIMS.c.workspace == self.workspace,
                or_(CLAIMS.c.subject_id == ids, CLAIMS.c.object_id == ids),
                self.allowed(within).has(document, CLAIMS.c.workspace),
            )
            .order_by(CLAIMS.c.subject.collate("C"), CLAIMS.c.id.collate("C"))
            .limit(limit)
        )
        return self.records(Claim, query)

    def statements_of(
        self, relationship_ids: Sequence[str], limit: int, within: Within = ()
    ) -> list[Statement]:
        allowed = self.allowed(within)
        query = select_statements(self.workspace, relationship_ids, limit, allowed)
        return self.records(Statement, query)

    def attributes_of(
        self, entity_ids: Sequence[str], limit: AttributeLimit, within: Within = ()
    ) -> list[Attribute]:
        if not entity_ids or not self._has_attributes():
            return []
        query = select_attributes(self.workspace, entity_ids, limit, self.allowed(within))
        return self.records(Attribute, query)

    def properties(self, names: Sequence[str] = ()) -> list[PropertyForm]:
        if not self._has_attributes():
            return []
        columns = [ATTRIBUTES.c[name] for name in PropertyForm._fields]
        query = select(*columns).distinct().where(ATTRIBUTES.c.workspace == self.workspace)
        if names:
            query = query.where(ATTRIBUTES.c.name == func.any(list(names)))
        return sorted(PropertyForm(*row) for row in self.rows_of(query))

    def _has_attributes(self) -> bool:
        """Return whether the last load wrote values of properties.

        It is asked before the table is read: a database that an earlier version of the software has
        loaded lacks the table, and most projects have no properties.
        """
        live = self.live()
        state = live.tables.get("attributes") if live else None
        return state is not None and state.rows > 0


def _conditions_of(listing: Listing) -> list[ColumnElement[bool]]:
    """Return the conditions that a document of the listing satisfies."""
    if listing.ids is not None:
        return [DOCUMENTS.c.id == func.any(list(listing.ids))]
    if not listing.part:
        return []
    searched = (DOCUMENTS.c.title, DOCUMENTS.c.source, DOCUMENTS.c.id)
    # The escape makes "%" and "_" of the part stand for themselves.
    has_part = [column.icontains(listing.part, autoescape=True) for column in searched]
    return [or_(*has_part)]


def _rank_hits(found: Sequence[tuple[float | None, str]]) -> Hits:
    """Turn (distance, id) into (id, similarity), the nearest first, ties by id.

    A row without a distance is left out: a vector of zeros has no direction.
    """
    known: list[tuple[float, str]] = []
    for distance, id in found:
        if distance is not None and math.isfinite(distance):
            known.append((distance, id))
    nearest_first = sorted(known)
    return [(id, 1 - distance) for distance, id in nearest_first]


def _select_reports(workspace: str) -> Select:
    """Return a query for all Reports of a workspace, each with its first sources."""
    # An array in PostgreSQL begins at 1.
    first_units = REPORTS.c.chunk_ids[1:SOURCES].label("text_unit_ids")
    columns = columns_of(Report, REPORTS, {"text_unit_ids": first_units})
    return select(*columns).where(REPORTS.c.workspace == workspace)
