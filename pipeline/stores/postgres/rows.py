"""Rows of a workspace's tables as PostgreSQL has them: all of them, their hashes, and their
state."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import pandas as pd
import pyarrow as pa
from psycopg import sql
from sqlalchemy import (
    ColumnElement,
    Connection,
    Numeric,
    Table,
    Text,
    cast,
    func,
    literal,
    select,
    union_all,
)

from pipeline.contract.schemas import HASHES
from pipeline.stores.base import TableState
from pipeline.stores.binary_copy import TEXT, CopiedRows, Kind, copied, digests
from pipeline.stores.list_columns import to_arrow
from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.schema import KEYS, MODEL, TABLES, kind_of

ID, HASH, CONTENT = "id", "row_hash", "content_hash"
ROW_HASH = sql.Identifier(HASH)
COPY_ROWS = sql.SQL(
    "COPY (SELECT {fields} FROM {table} WHERE workspace = {workspace}) TO STDOUT (FORMAT BINARY)"
)


def rows(
    connection: Connection, table: Table, workspace: str, columns: Sequence[str] | None
) -> Iterator[pd.DataFrame]:
    """As Store.rows; in no order."""
    kinds = _hashed_kinds(table)
    fields = [ROW_HASH, *(_as_hashed(name, kind) for name, kind in kinds.items())]
    asked = [ID, *(name for name in (kinds if columns is None else columns) if name != ID)]
    for part in _copied(connection, table, workspace, fields):
        yield _frame(part, kinds, asked)


def hashes(connection: Connection, table: Table, workspace: str, embedding_key: str) -> pa.Table:
    """As Store.hashes; "" where a vector is another model's."""
    row_hash: sql.Composable = ROW_HASH
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
    statement = COPY_ROWS.format(
        fields=sql.SQL(", ").join(fields),
        table=sql.Identifier(table.name),
        workspace=sql.Literal(workspace),
    )
    with cursor(connection).copy(statement) as copy:
        yield from copied(copy, len(fields))


def _frame(part: CopiedRows, kinds: Mapping[str, Kind], columns: Sequence[str]) -> pd.DataFrame:
    """What PostgreSQL writes as JSON is not what was written, so that it is made anew to be
    hashed."""
    places = {name: place for place, name in enumerate(kinds, start=1)}
    of_values = "jsonb" in kinds.values()
    made = {
        name: part.column(places[name], kinds[name]) for name in (kinds if of_values else columns)
    }
    found = digests(pd.DataFrame(made), kinds) if of_values else part.digests(1)
    shown = {name: made[name] for name in columns}
    return pd.DataFrame(
        {**shown, HASH: part.column(0, "text"), CONTENT: pd.Series(found, dtype=str)}
    )


def _hashed_kinds(table: Table) -> dict[str, Kind]:
    """Of what a row's hash is made of, in its order."""
    names = sorted(column.name for column in table.columns if column.name not in (*KEYS, HASH))
    kinds: dict[str, Kind] = {name: kind_of(table.c[name]) for name in names}
    return {**kinds, **{name: "int8" for name, kind in kinds.items() if kind == "int4"}}


def _as_hashed(name: str, kind: Kind) -> sql.Composable:
    column = sql.Identifier(name)
    return sql.SQL("{}::int8").format(column) if kind == "int8" else column


def table_states(
    connection: Connection, workspace: str, tables: Sequence[str]
) -> dict[str, TableState]:
    """All in one query; the tables must exist."""
    states = [
        select(
            literal(name),
            func.count(),
            func.coalesce(func.sum(_row_number(TABLES[name])), 0).cast(Text),
        ).where(TABLES[name].c.workspace == workspace)
        for name in tables
    ]
    return {
        name: TableState(rows, checksum)
        for name, rows, checksum in connection.execute(union_all(*states))
    }


def _row_number(table: Table) -> ColumnElement[Decimal]:
    """A number of the row's id and hash, and of whose its vector is, that PostgreSQL makes; as
    numeric, so that no sum is too large."""
    texts = table.c.id + table.c.row_hash
    texts = texts + func.coalesce(table.c[MODEL], "") if MODEL in table.c else texts
    return cast(func.hashtextextended(texts, 0), Numeric)
