"""Reads all rows of a workspace's tables from PostgreSQL, or their hashes, or their states."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import pandas as pd
import pyarrow as pa
from psycopg import sql
from sqlalchemy import (
    ColumnElement,
    Connection,
    Numeric,
    Select,
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
from pipeline.stores.postgres.schema import CONSTANT_COLUMNS, EMBEDDING_KEY, TABLES, choose_kind

ID, HASH, CONTENT = "id", "row_hash", "content_hash"
ROW_HASH = sql.Identifier(HASH)
COPY_ROWS = sql.SQL(
    "COPY (SELECT {fields} FROM {table} WHERE workspace = {workspace}) TO STDOUT (FORMAT BINARY)"
)


def rows(
    connection: Connection, table: Table, workspace: str, columns: Sequence[str] | None
) -> Iterator[pd.DataFrame]:
    """Yield all rows in no order, see ``Store.rows``."""
    kinds = _hashed_kinds(table)
    hashed_fields = [_as_hashed(name, kind) for name, kind in kinds.items()]
    wanted = kinds if columns is None else columns
    shown = [ID, *(name for name in wanted if name != ID)]
    for copied_rows in _copy_rows(connection, table, workspace, [ROW_HASH, *hashed_fields]):
        yield _decode_rows(copied_rows, kinds, shown)


def hashes(connection: Connection, table: Table, workspace: str, embedding_key: str) -> pa.Table:
    """Return HASHES of all rows, see ``Store.hashes``; "" where the vector is another model's."""
    row_hash: sql.Composable = ROW_HASH
    if EMBEDDING_KEY in table.c:
        row_hash = sql.SQL("CASE WHEN {} = {} THEN {} ELSE '' END").format(
            sql.Identifier(EMBEDDING_KEY), sql.Literal(embedding_key), row_hash
        )
    tables: list[pa.Table] = []
    for copied_rows in _copy_rows(connection, table, workspace, [sql.Identifier(ID), row_hash]):
        columns = [to_arrow(copied_rows.column(field, "text"), TEXT) for field in (0, 1)]
        tables.append(pa.table(columns, schema=HASHES))
    return pa.concat_tables(tables) if tables else HASHES.empty_table()


def _copy_rows(
    connection: Connection, table: Table, workspace: str, fields: Sequence[sql.Composable]
) -> Iterator[CopiedRows]:
    """Read these fields of all rows by COPY, some thousands of rows at a time."""
    statement = COPY_ROWS.format(
        fields=sql.SQL(", ").join(fields),
        table=sql.Identifier(table.name),
        workspace=sql.Literal(workspace),
    )
    with cursor(connection).copy(statement) as copy:
        yield from copied(copy, len(fields))


def _decode_rows(
    copied_rows: CopiedRows, kinds: Mapping[str, Kind], columns: Sequence[str]
) -> pd.DataFrame:
    """Return rows with these columns, their row_hash, and the hash of their contents.

    ``kinds``: the fields after row_hash, over which contents are hashed. They are hashed as they
    arrive. Only JSON is decoded and encoded again: PostgreSQL formats it in another way than it was
    written.
    """
    places = {name: place for place, name in enumerate(kinds, start=1)}
    has_json = "jsonb" in kinds.values()
    decoded: dict[str, pd.Series] = {}
    for name in kinds if has_json else columns:
        decoded[name] = copied_rows.column(places[name], kinds[name])
    # Field 0 is row_hash, so contents begin with field 1.
    contents = digests(pd.DataFrame(decoded), kinds) if has_json else copied_rows.digests(1)
    found = {name: decoded[name] for name in columns}
    found[HASH] = copied_rows.column(0, "text")
    found[CONTENT] = pd.Series(contents, dtype=str)
    return pd.DataFrame(found)


def _hashed_kinds(table: Table) -> dict[str, Kind]:
    """Return the kinds of the columns that a row's hash covers, in the order of the hash.

    Integers are hashed as eight bytes whatever the type of their column.
    """
    names = sorted(
        column.name for column in table.columns if column.name not in (*CONSTANT_COLUMNS, HASH)
    )
    kinds: dict[str, Kind] = {}
    for name in names:
        kind = choose_kind(table.c[name])
        kinds[name] = "int8" if kind == "int4" else kind
    return kinds


def _as_hashed(name: str, kind: Kind) -> sql.Composable:
    """Return the expression that reads a column in the form in which it is hashed."""
    column = sql.Identifier(name)
    return sql.SQL("{}::int8").format(column) if kind == "int8" else column


def table_states(
    connection: Connection, workspace: str, tables: Sequence[str]
) -> dict[str, TableState]:
    """Return the state of each of the tables, which must exist; one query reads all."""
    states: list[Select] = []
    for name in tables:
        table = TABLES[name]
        checksum = func.coalesce(func.sum(_hash_row(table)), 0).cast(Text)
        state = select(literal(name), func.count(), checksum)
        states.append(state.where(table.c.workspace == workspace))
    return {
        name: TableState(rows, checksum)
        for name, rows, checksum in connection.execute(union_all(*states))
    }


def _hash_row(table: Table) -> ColumnElement[Decimal]:
    """Return a number that PostgreSQL computes from a row's id, its hash and its embedding_key.

    It is a numeric, so that no sum of it overflows.
    """
    texts = table.c.id + table.c.row_hash
    if EMBEDDING_KEY in table.c:
        texts = texts + func.coalesce(table.c[EMBEDDING_KEY], "")
    return cast(func.hashtextextended(texts, 0), Numeric)
