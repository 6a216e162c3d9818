"""Rows of a workspace as a load has written them into PostgreSQL."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from pgvector import Vector
from pgvector.sqlalchemy import VECTOR
from psycopg import sql
from sqlalchemy import Connection, Double, Integer, Table, case, select

from pipeline.stores.tables import KEYS, MODEL

ROWS_AT_ONCE = 5000


def rows(connection: Connection, table: Table, workspace: str) -> Iterator[pd.DataFrame]:
    """Every row the workspace has in the table, some thousands at a time, in no order: all columns but
    those that are the same in all, in the types that load/projection.py gave them."""
    columns = [column for column in table.columns if column.name not in KEYS]
    statement = sql.SQL("SELECT {} FROM {} WHERE workspace = {}").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        sql.Identifier(table.name),
        sql.Placeholder(),
    )
    on_server: Any = connection.connection.cursor(name=f"rows of {table.name}", binary=True)
    with on_server as cursor:
        cursor.execute(statement, [workspace])
        while found := cursor.fetchmany(ROWS_AT_ONCE):
            cells = zip(*found, strict=True)
            yield pd.DataFrame(
                {column.name: _typed(values, column.type) for column, values in zip(columns, cells, strict=True)}
            )


def hashes(connection: Connection, table: Table, workspace: str, embedding_key: str) -> dict[str, str]:
    """id -> row_hash of every row the workspace has in the table; "" where its vector is another model's."""
    row_hash = table.c.row_hash
    if MODEL in table.c:
        row_hash = case((table.c[MODEL] == embedding_key, row_hash), else_="")
    return dict(connection.execute(select(table.c.id, row_hash).where(table.c.workspace == workspace)).all())


def _typed(values: Sequence[Any], type_: Any) -> pd.Series:
    if isinstance(type_, VECTOR):
        return pd.Series([_array(value) for value in values], dtype=object)
    if isinstance(type_, Integer):
        return pd.Series(values, dtype="Int64" if None in values else "int64")
    return pd.Series(values, dtype="float64" if isinstance(type_, Double) else object)


def _array(vector: Vector | None) -> Any:
    return None if vector is None else vector.to_numpy()
