"""Reads of a workspace in PostgreSQL: rows and their hashes, mentions, origins, reports and claims."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from psycopg import sql
from sqlalchemy import ARRAY, ColumnElement, Connection, Select, Table, Text, case, cast, exists, func, or_, select

from pipeline.stores.base import (
    CLAIM_COLUMNS,
    HASHES,
    MENTION_COLUMNS,
    OPENING_COLUMNS,
    REPORT_COLUMNS,
    SOURCES,
    in_order,
)
from pipeline.stores.binary_copy import TEXT, CopiedRows, Kind, copied, digests
from pipeline.stores.list_columns import to_arrow
from pipeline.stores.postgres.hnsw import cursor
from pipeline.stores.postgres.lexical import build_or_settle
from pipeline.stores.postgres.schema import (
    CHUNKS,
    CLAIMS,
    DOCUMENTS,
    ENTITIES,
    KEYS,
    MODEL,
    REPORTS,
    VECTOR_TABLES,
    kind_of,
    partition_of,
)

ID, HASH, CONTENT = "id", "row_hash", "content_hash"


def rows(connection: Connection, table: Table, workspace: str, columns: Sequence[str] | None) -> Iterator[pd.DataFrame]:
    """As Store.rows; in no order."""
    kinds = _hashed_kinds(table)
    fields = [sql.Identifier(HASH), *(_as_hashed(name, kind) for name, kind in kinds.items())]
    asked = [ID, *(name for name in (kinds if columns is None else columns) if name != ID)]
    for part in _copied(connection, table, workspace, fields):
        yield _frame(part, kinds, asked)


def hashes(connection: Connection, table: Table, workspace: str, embedding_key: str) -> pa.Table:
    """As Store.hashes; "" where a vector is another model's."""
    row_hash: sql.Composable = sql.Identifier(HASH)
    if MODEL in table.c:
        row_hash = sql.SQL("CASE WHEN {} = {} THEN {} ELSE '' END").format(
            sql.Identifier(MODEL), sql.Literal(embedding_key), row_hash
        )
    parts = [
        pa.table([to_arrow(part.column(field, "text"), TEXT) for field in range(2)], schema=HASHES)
        for part in _copied(connection, table, workspace, [sql.Identifier(ID), row_hash])
    ]
    return pa.concat_tables(parts) if parts else HASHES.empty_table()


def _copied(
    connection: Connection, table: Table, workspace: str, fields: Sequence[sql.Composable]
) -> Iterator[CopiedRows]:
    statement = sql.SQL("COPY (SELECT {} FROM {} WHERE workspace = {}) TO STDOUT (FORMAT BINARY)").format(
        sql.SQL(", ").join(fields), sql.Identifier(table.name), sql.Literal(workspace)
    )
    with cursor(connection).copy(statement) as copy:
        yield from copied(copy, len(fields))


def _frame(part: CopiedRows, kinds: Mapping[str, Kind], columns: Sequence[str]) -> pd.DataFrame:
    """What PostgreSQL writes as JSON is not what was written, so that it is made anew to be hashed."""
    places = {name: place for place, name in enumerate(kinds, start=1)}
    of_values = "jsonb" in kinds.values()
    made = {name: part.column(places[name], kinds[name]) for name in (kinds if of_values else columns)}
    found = digests(pd.DataFrame(made), kinds) if of_values else part.digests(1)
    shown = {name: made[name] for name in columns}
    return pd.DataFrame({**shown, HASH: part.column(0, "text"), CONTENT: pd.Series(found, dtype=str)})


def _hashed_kinds(table: Table) -> dict[str, Kind]:
    """Of what a row's hash is made of, in its order."""
    names = sorted(column.name for column in table.columns if column.name not in (*KEYS, HASH))
    kinds: dict[str, Kind] = {name: kind_of(table.c[name]) for name in names}
    return {**kinds, **{name: "int8" for name, kind in kinds.items() if kind == "int4"}}


def _as_hashed(name: str, kind: Kind) -> sql.Composable:
    column = sql.Identifier(name)
    return sql.SQL("{}::int8").format(column) if kind == "int8" else column


ID_BYTES = 56
"""More than an id takes in an array."""


EMBEDDINGS = sql.SQL("SELECT id, embedding FROM {} WHERE workspace = %s AND id = ANY(%s)")


def mention_index(workspace: str) -> str:
    return f"{partition_of(ENTITIES, workspace)}_chunk_ids"


def build_mention_index(connection: Connection, workspace: str, build_mb: int) -> None:
    partition, name = partition_of(ENTITIES, workspace), mention_index(workspace)
    statement = sql.SQL("CREATE INDEX {} ON {} USING gin (chunk_ids)")
    build_or_settle(connection, name, statement.format(sql.Identifier(name), sql.Identifier(partition)), build_mb)


def mentions(
    connection: Connection, workspace: str, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
) -> pd.DataFrame:
    """See VectorStore.mentions. A list that is too long is not even read: how much room it takes tells."""
    units = ENTITIES.c.chunk_ids
    few = case((func.pg_column_size(units) <= ID_BYTES * (most + 1), case((func.cardinality(units) <= most, units))))
    query = select(ENTITIES.c.id, ENTITIES.c.entity_name, few).where(
        ENTITIES.c.workspace == workspace,
        or_(units.bool_op("&&")(cast(list(text_unit_ids), ARRAY(Text))), ENTITIES.c.id == func.any(list(entity_ids))),
    )
    found = connection.execute(query.order_by(ENTITIES.c.id.collate("C"))).all()
    return pd.DataFrame([(id, name, units or []) for id, name, units in found], columns=MENTION_COLUMNS)


def openings(connection: Connection, workspace: str, ids: Sequence[str], length: int) -> pd.DataFrame:
    """See VectorStore.openings."""
    query = (
        select(CHUNKS.c.id, DOCUMENTS.c.title, func.substr(CHUNKS.c.content, 1, length))
        .join_from(
            CHUNKS,
            DOCUMENTS,
            (DOCUMENTS.c.id == CHUNKS.c.full_doc_id) & (DOCUMENTS.c.workspace == CHUNKS.c.workspace),
        )
        .where(CHUNKS.c.workspace == workspace, CHUNKS.c.id == func.any(list(ids)))
        .order_by(CHUNKS.c.id.collate("C"))
    )
    return pd.DataFrame(connection.execute(query).all(), columns=OPENING_COLUMNS)


def embeddings(connection: Connection, workspace: str, table: str, ids: Sequence[str]) -> dict[str, np.ndarray]:
    """See VectorStore.embeddings. In binary: as text a vector takes longer to read than to find."""
    statement = EMBEDDINGS.format(sql.Identifier(VECTOR_TABLES[table].name))
    found = cursor(connection, binary=True).execute(statement, [workspace, list(ids)])
    return {id: vector.to_numpy() for id, vector in found}


def told_by(table: Table, documents: Sequence[str]) -> ColumnElement[bool]:
    """The condition that the row is there for who may see these documents only: a report tells of all its sources at
    once, so that all must be theirs."""
    if table is REPORTS:
        return has_source_in(table, documents) & ~_has_source_outside(table, documents)
    return has_source_in(table, documents)


def has_source_in(table: Table, documents: Sequence[str]) -> ColumnElement[bool]:
    """The condition that at least one text unit of these documents is a source of the row."""
    if table is CHUNKS:
        return CHUNKS.c.full_doc_id == func.any(list(documents))
    chunk = CHUNKS.alias("source")
    return exists().where(
        chunk.c.workspace == table.c.workspace,
        chunk.c.id == func.any(table.c.chunk_ids),
        chunk.c.full_doc_id == func.any(list(documents)),
    )


def _has_source_outside(table: Table, documents: Sequence[str]) -> ColumnElement[bool]:
    unit = func.unnest(table.c.chunk_ids).table_valued("id", name="unit").render_derived()
    chunk = CHUNKS.alias("source")
    known = (
        exists()
        .where(
            chunk.c.workspace == table.c.workspace,
            chunk.c.id == unit.c.id,
            chunk.c.full_doc_id == func.any(list(documents)),
        )
        .correlate(unit, table)
    )
    return select(unit.c.id).where(~known).correlate(table).exists()


def origins(table: Table, workspace: str, ids: Sequence[str], documents: Sequence[str]) -> Select:
    """(id, some, all): whether some, or all, of the text units that are a row's sources belong to the documents."""
    rows = _sources(table).where(table.c.workspace == workspace, table.c.id == func.any(list(ids))).subquery()
    chunk = CHUNKS.alias("source")
    belongs = func.coalesce(chunk.c.full_doc_id == func.any(list(documents)), False)
    return (
        select(rows.c.id, func.bool_or(belongs), func.bool_and(belongs))
        .outerjoin_from(rows, chunk, (chunk.c.workspace == workspace) & (chunk.c.id == rows.c.source))
        .group_by(rows.c.id)
    )


def _sources(table: Table) -> Select:
    """(id, source): a row for each text unit that is a row's source."""
    return select(table.c.id, (table.c.id if table is CHUNKS else func.unnest(table.c.chunk_ids)).label("source"))


def reports(connection: Connection, workspace: str, ids: Sequence[str]) -> pd.DataFrame:
    """See VectorReads.reports."""
    query = _reports(workspace).where(REPORTS.c.id == func.any(list(ids)))
    return in_order(pd.DataFrame(connection.execute(query).all(), columns=REPORT_COLUMNS), ids)


def reports_at(
    connection: Connection, workspace: str, level: int, limit: int, within: Sequence[str] | None
) -> pd.DataFrame:
    """See VectorReads.reports_at."""
    without_children = (REPORTS.c.level < level) & (func.cardinality(REPORTS.c.children) == 0)
    query = (
        _reports(workspace)
        .where(or_(REPORTS.c.level == level, without_children))
        .order_by(REPORTS.c.weight.desc(), REPORTS.c.rating.desc(), REPORTS.c.id.collate("C"))
        .limit(limit)
    )
    query = query if within is None else query.where(told_by(REPORTS, within))
    return pd.DataFrame(connection.execute(query).all(), columns=REPORT_COLUMNS)


def claims_of(
    connection: Connection, workspace: str, entity_ids: Sequence[str], limit: int, within: Sequence[str] | None
) -> pd.DataFrame:
    """See VectorReads.claims_of."""
    ids, document = list(entity_ids), CHUNKS.c.full_doc_id
    found = {"document_id": func.coalesce(document, "").label("document_id")}
    query = (
        select(*(found[name] if name in found else CLAIMS.c[name] for name in CLAIM_COLUMNS))
        .outerjoin_from(
            CLAIMS, CHUNKS, (CHUNKS.c.workspace == CLAIMS.c.workspace) & (CHUNKS.c.id == CLAIMS.c.text_unit_id)
        )
        .where(
            CLAIMS.c.workspace == workspace,
            or_(CLAIMS.c.subject_id == func.any(ids), CLAIMS.c.object_id == func.any(ids)),
        )
        .order_by(CLAIMS.c.subject.collate("C"), CLAIMS.c.id.collate("C"))
        .limit(limit)
    )
    query = query if within is None else query.where(document == func.any(list(within)))
    return pd.DataFrame(connection.execute(query).all(), columns=CLAIM_COLUMNS)


def _reports(workspace: str) -> Select:
    units = REPORTS.c.chunk_ids[1:SOURCES].label("text_unit_ids")
    columns = [units if name == "text_unit_ids" else REPORTS.c[name] for name in REPORT_COLUMNS]
    return select(*columns).where(REPORTS.c.workspace == workspace)
