"""One load of a workspace into PostgreSQL: rows by COPY, indexes after the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import pandas as pd
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.types.json import Jsonb
from sqlalchemy import (
    ColumnElement,
    Connection,
    Numeric,
    Table,
    Text,
    cast,
    delete,
    func,
    inspect,
    literal,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import insert

from pipeline.stores.base import Delta, Live, TableState
from pipeline.stores.tables import HALFVEC_LIMIT, LIVE, METADATA, TABLES, VECTOR_LIMIT, VECTOR_TABLES
from pipeline.text import digest

DIALECT = postgresql.dialect()
COPY_TYPES = {
    "TEXT": "text",
    "TEXT[]": "text[]",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "DOUBLE PRECISION": "float8",
    "JSONB": "jsonb",
    "VECTOR": "vector",
}


@dataclass(frozen=True)
class PostgresWriter:
    connection: Connection
    workspace: str
    tables: Sequence[str]
    exact_below: int

    def hashes(self, table: str) -> Mapping[str, str]:
        rows = TABLES[table]
        query = select(rows.c.id, rows.c.row_hash).where(rows.c.workspace == self.workspace)
        return {row.id: row.row_hash for row in self.connection.execute(query)}

    def apply(self, table: str, delta: Delta) -> None:
        """Replace by delete and COPY: one statement and one stream, however many rows."""
        rows = TABLES[table]
        gone = [*delta.deleted, *delta.updated["id"]]
        if gone:
            self.connection.execute(delete(rows).where(rows.c.workspace == self.workspace, rows.c.id == func.any(gone)))
        for frame in (delta.inserted, delta.updated):
            if len(frame):
                self._copy(rows, frame)
        self._analyze(rows)

    def publish(self, live: Live) -> None:
        states = table_states(self.connection, self.workspace, self.tables)
        values = {
            "workflow": live.workflow,
            "version": live.version,
            "embedding": dict(live.embedding),
            "dimensions": live.dimensions,
            "tables": {table: asdict(state) for table, state in states.items()},
            "schema_version": live.schema_version,
        }
        statement = insert(LIVE).values(workspace=self.workspace, **values)
        self.connection.execute(statement.on_conflict_do_update(index_elements=["workspace"], set_=values))
        for table in VECTOR_TABLES.values():
            self._index(table, live.dimensions)

    def _copy(self, table: Table, frame: pd.DataFrame) -> None:
        columns = [column for column in table.columns if column.name != "workspace"]
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            sql.Identifier(table.name),
            sql.SQL(", ").join(sql.Identifier(name) for name in ["workspace", *(c.name for c in columns)]),
        )
        cursor = _cursor(self.connection)
        with cursor.copy(statement) as copy:
            copy.set_types(["text", *(_copy_type(column.type) for column in columns)])
            cells = [_cells(frame[column.name], column.type) for column in columns]
            for row in zip(*cells, strict=True):
                copy.write_row((self.workspace, *row))

    def _index(self, table: Table, dimensions: int) -> None:
        """An HNSW index for a partition that has grown large enough and has none for these dimensions."""
        partition = _partition(table, self.workspace)
        name = f"{partition}_hnsw{dimensions}"
        if not 0 < dimensions <= HALFVEC_LIMIT or self.connection.execute(select(func.to_regclass(name))).scalar():
            return
        rows = select(func.count()).select_from(table).where(table.c.workspace == self.workspace)
        if self.connection.execute(rows).scalar_one() < self.exact_below:
            return
        type_name = "vector" if dimensions <= VECTOR_LIMIT else "halfvec"
        self.connection.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
        _cursor(self.connection).execute(
            sql.SQL(
                "CREATE INDEX {} ON {} USING hnsw ((embedding::{}({})) {}) WHERE vector_dims(embedding) = {}"
            ).format(
                sql.Identifier(name),
                sql.Identifier(partition),
                sql.Identifier(type_name),
                sql.Literal(dimensions),
                sql.Identifier(f"{type_name}_cosine_ops"),
                sql.Literal(dimensions),
            )
        )

    def _analyze(self, table: Table) -> None:
        """Else the first reads after a load are planned by the figures of the one before, and slow."""
        name = _partition(table, self.workspace) if table in VECTOR_TABLES.values() else table.name
        _cursor(self.connection).execute(sql.SQL("ANALYZE {}").format(sql.Identifier(name)))


def table_states(connection: Connection, workspace: str, tables: Sequence[str]) -> dict[str, TableState]:
    """All in one query; the tables must exist."""
    states = [
        select(literal(name), func.count(), func.coalesce(func.sum(_row_number(TABLES[name])), 0).cast(Text)).where(
            TABLES[name].c.workspace == workspace
        )
        for name in tables
    ]
    return {name: TableState(rows, checksum) for name, rows, checksum in connection.execute(union_all(*states))}


def _row_number(table: Table) -> ColumnElement[Decimal]:
    """A number of the row's id and hash that PostgreSQL makes; as numeric, so that no sum is too large."""
    return cast(func.hashtextextended(table.c.id + table.c.row_hash, 0), Numeric)


def create_tables(connection: Connection, workspace: str) -> None:
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("graphmill/tables"))))
    if not connection.execute(select(func.to_regclass(LIVE.name))).scalar():
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        METADATA.create_all(connection)
        register_types(connection.connection.dbapi_connection)
    _add_columns(connection)
    for table in VECTOR_TABLES.values():
        partition = _partition(table, workspace)
        if not connection.execute(select(func.to_regclass(partition))).scalar():
            _create_partition(_cursor(connection), table.name, partition, workspace)


def _add_columns(connection: Connection) -> None:
    """What this version has and the one before had not. Only where it is missing: ALTER TABLE waits for the
    loads of other workspaces even when it has nothing to do."""
    names = {column["name"] for column in inspect(connection).get_columns(LIVE.name)}
    for column in (LIVE.c.tables, LIVE.c.schema_version):
        if column.name not in names:
            kind = column.type.compile(dialect=DIALECT)
            connection.execute(text(f"ALTER TABLE {LIVE.name} ADD COLUMN IF NOT EXISTS {column.name} {kind}"))


def _create_partition(cursor: Any, table: str, partition: str, workspace: str) -> None:
    """Made apart and attached, which waits for nobody; CREATE TABLE ... PARTITION OF would wait for the loads
    of other workspaces, and every read for it."""
    names = {"table": sql.Identifier(table), "partition": sql.Identifier(partition)}
    cursor.execute(sql.SQL("CREATE TABLE {partition} (LIKE {table} INCLUDING ALL)").format(**names))
    cursor.execute(
        sql.SQL("ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES IN ({workspace})").format(
            **names, workspace=sql.Literal(workspace)
        )
    )


def register_types(connection: Any) -> None:
    """Teach the connection pgvector's types, once the extension is there."""
    with connection.cursor() as cursor:
        there = cursor.execute("SELECT 1 FROM pg_type WHERE typname = 'vector'").fetchone()
    if there:
        register_vector(connection)


def _partition(table: Table, workspace: str) -> str:
    return f"{table.name}_{digest(workspace)[:12]}"


def _copy_type(type_: Any) -> str:
    return COPY_TYPES[type_.compile(dialect=DIALECT)]


def _cells(column: pd.Series, type_: Any) -> list[Any]:
    """The column's values as psycopg sends them for the type."""
    adapt = {"text[]": list, "vector": Vector, "jsonb": Jsonb}.get(_copy_type(type_))
    return [adapt(value) for value in column] if adapt else column.tolist()


def _cursor(connection: Connection) -> Any:
    """psycopg's own cursor inside this transaction: for COPY and for quoted identifiers."""
    return connection.connection.cursor()
