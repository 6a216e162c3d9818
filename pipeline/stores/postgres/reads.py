"""What queries ask of a workspace in PostgreSQL: vectors, words, text units, mentions, reports and claims."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Self

import numpy as np
from pgvector.sqlalchemy import HALFVEC, VECTOR
from psycopg import sql
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    case,
    cast,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    true,
    union_all,
)

from pipeline.contract.schema_version import refuse_newer
from pipeline.stores.base import Live, refuse_earlier
from pipeline.stores.postgres.conditions import Allowed, AllowedDocuments
from pipeline.stores.postgres.database import Moment, PostgresDatabase, as_given, cursor, field_names
from pipeline.stores.postgres.hnsw import Hnsw, indexed_type, of_model, search_settings, usual_settings
from pipeline.stores.postgres.lexical import RememberedStatistics, lexical_search
from pipeline.stores.postgres.schema import (
    CHUNKS,
    CLAIMS,
    DOCUMENTS,
    ENTITIES,
    ENTITY_IDS,
    REPORTS,
    SOURCE_LISTS,
    VECTOR_TABLES,
)
from pipeline.stores.postgres.workspaces import shown_at_begin, workspaces
from pipeline.stores.reads import SOURCES, Hits, Lexical, Listing, Opening, VectorSearch, Within, in_order
from pipeline.stores.records import (
    Claim,
    Document,
    EntityMentions,
    ListedDocument,
    Passage,
    Report,
    TextUnit,
)

PAGE = 5000
ID_BYTES = 56
"""More than an id takes in an array."""
EMBEDDINGS = sql.SQL("SELECT id, embedding FROM {} WHERE workspace = %s AND id = ANY(%s)")
OF_DOCUMENT = (DOCUMENTS.c.id == CHUNKS.c.full_doc_id) & (DOCUMENTS.c.workspace == CHUNKS.c.workspace)


@dataclass(frozen=True)
class PostgresReads(PostgresDatabase):
    """VectorReads, see there."""

    hnsw: Hnsw = Hnsw()
    filters: AllowedDocuments = field(default_factory=AllowedDocuments, repr=False, compare=False, kw_only=True)
    statistics: RememberedStatistics = field(
        default_factory=RememberedStatistics, repr=False, compare=False, kw_only=True
    )

    def allowed(self, within: Within) -> Allowed:
        if not within:
            return Allowed(within)
        live = self.live()
        with self.connection() as connection:
            return self.filters.find(connection, self.workspace, live.version if live else "", within)

    @contextmanager
    def reading(self) -> Iterator[Self]:
        """See VectorStore. Raises NothingLoadedError where the workspace was loaded by a version of the software whose
        tables lack what is read now."""
        with self.connection(isolation_level="REPEATABLE READ", postgresql_readonly=True) as connection:
            live = self._not_newer(shown_at_begin(connection, self.workspace))
            if live is not None:
                refuse_earlier(live, f"{self.address}, workspace '{self.workspace}'")
            yield replace(self, moment=Moment(connection, live))

    def live(self) -> Live | None:
        if self.moment is not None:
            return self.moment.live
        with self.connection() as connection:
            return self._not_newer(shown_at_begin(connection, self.workspace))

    def live_in(self, connection: Connection) -> Live | None:
        """What the workspace shows in this transaction."""
        return self._not_newer(workspaces(connection, self.workspace).get(self.workspace))

    def _not_newer(self, live: Live | None) -> Live | None:
        if live is not None:
            refuse_newer(live.schema_version, f"{self.address}, workspace '{self.workspace}'")
        return live

    def nearest(self, searches: Sequence[VectorSearch], within: Within = ()) -> list[Hits]:
        live = self.live()
        if live is None or any(len(search.vector) != live.dimensions for search in searches):
            return [[] for _ in searches]
        allowed = self.allowed(within)
        with self.connection() as connection:
            if allowed.few is not None:
                return _hits(connection, [self._search(live, search, allowed) for search in searches])
            tables = [VECTOR_TABLES[search.table] for search in searches]
            most = max((search.limit for search in searches), default=0)
            connection.execute(select(search_settings(tables, self.workspace, live, self.hnsw, most)))
            by_index = [self._search(live, search, allowed, indexed_type(live.dimensions)) for search in searches]
            found = _hits(connection, by_index)
            if within:  # the index gives up before it has seen all
                short = [place for place, hits in enumerate(found) if len(hits) < searches[place].limit]
                exact = _hits(connection, [self._search(live, searches[place], allowed) for place in short])
                found = [dict(zip(short, exact, strict=True)).get(place, hits) for place, hits in enumerate(found)]
        return found

    def _search(
        self, live: Live, search: VectorSearch, allowed: Allowed, kind: VECTOR | HALFVEC | None = None
    ) -> Select:
        """``kind``: of the index that is to find them; without one all vectors are compared."""
        rows = VECTOR_TABLES[search.table]
        vector = rows.c.embedding if kind is None else cast(rows.c.embedding, kind)
        conditions = [rows.c.workspace == self.workspace, of_model(rows, live.embedding_key)]
        if allowed.within:
            conditions.append(told_by(rows, allowed))
        return _nearest(rows.c.id, vector.cosine_distance(search.vector), conditions, search.limit)

    def nearest_of(self, table: str, ids: Sequence[str], vector: np.ndarray, limit: int) -> Hits:
        rows = VECTOR_TABLES[table]
        distance = cast(rows.c.embedding, VECTOR(len(vector))).cosine_distance(vector)
        conditions = [rows.c.workspace == self.workspace, rows.c.id == func.any(list(ids))]
        with self.connection() as connection:
            return _hits(connection, [_nearest(rows.c.id, distance, conditions, limit)])[0]

    def documents(self, within: Within = ()) -> list[Document]:
        there = self.allowed(within).has(DOCUMENTS.c.id, DOCUMENTS.c.workspace)
        columns = (DOCUMENTS.c[name] for name in field_names(Document))
        return self.records(Document, select(*columns).where(DOCUMENTS.c.workspace == self.workspace, there))

    def listed(self, listing: Listing, within: Within = ()) -> tuple[list[ListedDocument], int]:
        """The rows of the page have the number of all with them; a page without rows is asked for it apart."""
        found = select(*(DOCUMENTS.c[name] for name in ("id", "title", "source", "metadata"))).where(
            DOCUMENTS.c.workspace == self.workspace,
            self.allowed(within).has(DOCUMENTS.c.id, DOCUMENTS.c.workspace),
            *_listed(listing),
        )
        order = (func.lower(DOCUMENTS.c.title).collate("C"), DOCUMENTS.c.id.collate("C"))
        page = (
            found.add_columns(func.count().over().label("all"), func.row_number().over(order_by=order).label("place"))
            .order_by("place")
            .offset(listing.first)
            .limit(listing.limit)
            .subquery("page")
        )
        sums = (
            select(func.count().label("text_units"), func.coalesce(func.sum(CHUNKS.c.tokens), 0).label("tokens"))
            .where(CHUNKS.c.workspace == self.workspace, CHUNKS.c.full_doc_id == page.c.id)
            .lateral("sums")
        )
        columns = [page.c[name] for name in ("id", "title", "source", "metadata")]
        query = select(*columns, sums.c.text_units, sums.c.tokens, page.c.all).join_from(page, sums, true())
        rows = self.rows_of(query.order_by(page.c.place))
        if not rows and listing.first:
            return [], self.rows_of(select(func.count()).select_from(found.subquery()))[0][0]
        return [ListedDocument(*row[:-1]) for row in rows], rows[0][-1] if rows else 0

    def units_of(self, document_id: str, first: int, limit: int, within: Within = ()) -> list[TextUnit]:
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

    def places(self, text_unit_ids: Sequence[str], within: Within = ()) -> dict[str, tuple[str, int]]:
        query = select(CHUNKS.c.id, CHUNKS.c.full_doc_id, CHUNKS.c.chunk_order_index).where(
            CHUNKS.c.workspace == self.workspace,
            CHUNKS.c.id == func.any(list(text_unit_ids)),
            self.allowed(within).has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace),
        )
        return {id: (document, place) for id, document, place in self.rows_of(query)}

    def origins(self, table: str, ids: Sequence[str], within: Within) -> dict[str, tuple[bool, bool]]:
        rows = _sources(self.workspace, VECTOR_TABLES[table], ids).subquery()
        chunk = CHUNKS.alias("source")
        belongs = func.coalesce(self.allowed(within).has(chunk.c.full_doc_id, chunk.c.workspace), False)
        query = (
            select(rows.c.id, func.bool_or(belongs), func.bool_and(belongs))
            .outerjoin_from(rows, chunk, (chunk.c.workspace == self.workspace) & (chunk.c.id == rows.c.source))
            .group_by(rows.c.id)
        )
        return {id: (some, all) for id, some, all in self.rows_of(query)}

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> list[Passage]:
        distance = cast(CHUNKS.c.embedding, VECTOR(len(question))).cosine_distance(question)
        query = (
            select(
                CHUNKS.c.id,
                CHUNKS.c.full_doc_id.label("document_id"),
                DOCUMENTS.c.source,
                DOCUMENTS.c.title,
                CHUNKS.c.char_start.label("start"),
                CHUNKS.c.char_end.label("end"),
                CHUNKS.c.tokens,
                CHUNKS.c.content,
                DOCUMENTS.c.metadata,
                (1 - distance).label("score"),
            )
            .join_from(CHUNKS, DOCUMENTS, OF_DOCUMENT)
            .where(CHUNKS.c.workspace == self.workspace, CHUNKS.c.id == func.any(list(ids)))
        )
        return in_order(self.records(Passage, query), ids)

    def contents(self) -> Iterator[list[tuple[str, str]]]:
        query = select(CHUNKS.c.id, CHUNKS.c.content).where(CHUNKS.c.workspace == self.workspace)
        with self.connection() as connection:
            found = connection.execute(query, execution_options={"yield_per": PAGE})
            yield from ([(id, content) for id, content in page] for page in found.partitions())

    def lexical(self, question: str, limit: int, within: Within = ()) -> Lexical:
        allowed, live = self.allowed(within), self.live()
        with self.connection() as connection:
            known = self.statistics.of(connection, self.workspace, live.version if live else "")
            return lexical_search(connection, self.workspace, question, limit, allowed, known)

    def mentions(self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int) -> list[EntityMentions]:
        query = self._mentions(text_unit_ids, entity_ids, most)
        return self.records(EntityMentions, query.order_by(ENTITIES.c.id.collate("C")))

    def opened_mentions(
        self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int, passages: int, length: int
    ) -> tuple[list[EntityMentions], dict[str, Opening]]:
        """One statement, in whose rows entities have passages and passages have none."""
        found = self._mentions(text_unit_ids, entity_ids, most).cte("found").prefix_with("MATERIALIZED")
        units = select(func.unnest(found.c.passages).label("id")).distinct().subquery("units")
        first = select(units).order_by(units.c.id.collate("C")).limit(passages).subquery("first")
        opened = self._openings(length).join(first, first.c.id == CHUNKS.c.id)
        rows = self.rows_of(
            union_all(
                select(found.c.id, found.c.entity_name, literal(""), as_given(found.c.passages)),
                opened.add_columns(null()),
            )
        )
        mentioned = [EntityMentions(id, name, units) for id, name, _, units in rows if units is not None]
        openings = {id: (title or "", opening or "") for id, title, opening, units in rows if units is None}
        return sorted(mentioned, key=attrgetter("id")), openings

    def _mentions(self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int) -> Select:
        """A list that is too long is not even read: how much room it takes tells."""
        units = SOURCE_LISTS.c.chunk_ids
        few = case(
            (func.pg_column_size(units) <= ID_BYTES * (most + 1), case((func.cardinality(units) <= most, units)))
        )
        return (
            select(ENTITIES.c.id, ENTITIES.c.entity_name, func.coalesce(few, _ids([])).label("passages"))
            .join_from(SOURCE_LISTS, ENTITIES, is_of(ENTITIES))
            .where(
                SOURCE_LISTS.c.workspace == self.workspace,
                # Written out, not a parameter, so that PostgreSQL sees it is the index's.
                SOURCE_LISTS.c.id.bool_op("^@")(literal(ENTITY_IDS, literal_execute=True)),
                or_(units.bool_op("&&")(_ids(text_unit_ids)), SOURCE_LISTS.c.id == func.any(list(entity_ids))),
            )
        )

    def openings(self, ids: Sequence[str], length: int) -> dict[str, Opening]:
        query = self._openings(length).where(CHUNKS.c.id == func.any(list(ids)))
        return {id: (title or "", opening or "") for id, title, opening in self.rows_of(query)}

    def _openings(self, length: int) -> Select:
        return (
            select(CHUNKS.c.id, DOCUMENTS.c.title, func.substr(CHUNKS.c.content, 1, length))
            .join_from(CHUNKS, DOCUMENTS, OF_DOCUMENT)
            .where(CHUNKS.c.workspace == self.workspace)
        )

    def embeddings(self, table: str, ids: Sequence[str]) -> dict[str, np.ndarray]:
        """In binary: as text a vector takes longer to read than to find."""
        statement = EMBEDDINGS.format(sql.Identifier(VECTOR_TABLES[table].name))
        with self.connection() as connection:
            found = cursor(connection, binary=True).execute(statement, [self.workspace, list(ids)])
            return {id: vector.to_numpy() for id, vector in found}

    def reports(self, ids: Sequence[str]) -> list[Report]:
        query = _reports(self.workspace).where(REPORTS.c.id == func.any(list(ids)))
        return in_order(self.records(Report, query), ids)

    def reports_at(self, level: int, limit: int, within: Within = ()) -> list[Report]:
        without_children = (REPORTS.c.level < level) & (func.cardinality(REPORTS.c.children) == 0)
        query = (
            _reports(self.workspace)
            .where(or_(REPORTS.c.level == level, without_children))
            .order_by(REPORTS.c.weight.desc(), REPORTS.c.rating.desc(), REPORTS.c.id.collate("C"))
            .limit(limit)
        )
        return self.records(Report, query.where(told_by(REPORTS, self.allowed(within))) if within else query)

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Within = ()) -> list[Claim]:
        ids, document = list(entity_ids), CHUNKS.c.full_doc_id
        found = {"document_id": func.coalesce(document, "").label("document_id")}
        query = (
            select(*(found[name] if name in found else CLAIMS.c[name] for name in field_names(Claim)))
            .outerjoin_from(
                CLAIMS, CHUNKS, (CHUNKS.c.workspace == CLAIMS.c.workspace) & (CHUNKS.c.id == CLAIMS.c.text_unit_id)
            )
            .where(
                CLAIMS.c.workspace == self.workspace,
                or_(CLAIMS.c.subject_id == func.any(ids), CLAIMS.c.object_id == func.any(ids)),
            )
            .order_by(CLAIMS.c.subject.collate("C"), CLAIMS.c.id.collate("C"))
            .limit(limit)
        )
        return self.records(Claim, query.where(self.allowed(within).has(document, CLAIMS.c.workspace)))


def _listed(listing: Listing) -> list[ColumnElement[bool]]:
    if listing.ids is not None:
        return [DOCUMENTS.c.id == func.any(list(listing.ids))]
    told = (DOCUMENTS.c.title, DOCUMENTS.c.source, DOCUMENTS.c.id)
    return [or_(*(column.icontains(listing.part, autoescape=True) for column in told))] if listing.part else []


def _nearest(
    id: ColumnElement[str], distance: ColumnElement[float], conditions: Sequence[ColumnElement[bool]], limit: int
) -> Select:
    near = distance.label("distance")
    return select(id, near).where(*conditions).order_by(near, id.collate("C")).limit(limit)


def _hits(connection: Connection, searches: Sequence[Select]) -> list[Hits]:
    """Of all of the searches in one statement, which ends the settings made for them."""
    if not searches:
        return []
    found: list[list[tuple[float, str]]] = [[] for _ in searches]
    numbered = [search.add_columns(literal(place).label("place")).subquery() for place, search in enumerate(searches)]
    rows = union_all(*(select(each.c.place, each.c.distance, each.c.id) for each in numbered)).subquery("found")
    usual = select(usual_settings().label("setting")).subquery("usual")
    for place, distance, id in connection.execute(select(rows).outerjoin_from(usual, rows, true())).all():
        if distance is not None and np.isfinite(distance):
            found[place].append((distance, id))
    return [[(id, 1 - distance) for distance, id in sorted(hits)] for hits in found]


def told_by(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    """The condition that the row is there for who may see these documents only: a report tells of all its sources at
    once, so that all must be theirs."""
    if table is REPORTS:
        return has_source_in(table, allowed) & ~_has_source_outside(table, allowed)
    return has_source_in(table, allowed)


def has_source_in(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    """The condition that at least one text unit of these documents is a source of the row."""
    if table is CHUNKS:
        return allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    chunk, lists = CHUNKS.alias("source"), _lists_of(table)
    there = chunk.c.workspace == table.c.workspace, allowed.has(chunk.c.full_doc_id, chunk.c.workspace)
    if allowed.few is None:
        found = exists().where(chunk.c.id == func.any(lists.c.chunk_ids), *there)
        return found if lists is table else found.where(is_of(table))
    units = func.array(select(chunk.c.id).where(*there).scalar_subquery())
    some = lists.c.chunk_ids.bool_op("&&")(units)
    return some if lists is table else exists().where(is_of(table), some)


def _has_source_outside(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    unit = func.unnest(table.c.chunk_ids).table_valued("id", name="unit").render_derived()
    chunk = CHUNKS.alias("source")
    known = (
        exists()
        .where(
            chunk.c.workspace == table.c.workspace,
            chunk.c.id == unit.c.id,
            allowed.has(chunk.c.full_doc_id, chunk.c.workspace),
        )
        .correlate(unit, table)
    )
    return select(unit.c.id).where(~known).correlate(table).exists()


def _sources(workspace: str, table: Table, ids: Sequence[str]) -> Select:
    """(id, source): a row for each text unit that is a source of these rows of the table."""
    rows = CHUNKS if table is CHUNKS else _lists_of(table)
    source = rows.c.id if rows is CHUNKS else func.unnest(rows.c.chunk_ids)
    return select(rows.c.id, source.label("source")).where(
        rows.c.workspace == workspace, rows.c.id == func.any(list(ids))
    )


def _lists_of(table: Table) -> Table:
    """The table that has the text units that the rows of this one were made of."""
    return table if table is REPORTS else SOURCE_LISTS


def is_of(table: Table) -> ColumnElement[bool]:
    """The condition that a list of sources is that of the row."""
    return (SOURCE_LISTS.c.workspace == table.c.workspace) & (SOURCE_LISTS.c.id == table.c.id)


def _ids(ids: Sequence[str]) -> ColumnElement[Sequence[str]]:
    return cast(list(ids), ARRAY(Text))


def _reports(workspace: str) -> Select:
    units = REPORTS.c.chunk_ids[1:SOURCES].label("text_unit_ids")
    columns = [units if name == "text_unit_ids" else REPORTS.c[name] for name in field_names(Report)]
    return select(*columns).where(REPORTS.c.workspace == workspace)
