"""PostgreSQL with pgvector: chunks, entities and relationships with vectors, loaded in one transaction."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector
from pgvector.sqlalchemy import HALFVEC, VECTOR
from psycopg import sql
from psycopg.types.json import Jsonb
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    cast,
    create_engine,
    delete,
    event,
    func,
    literal,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from pipeline.errors import StoreError
from pipeline.stores.base import CHUNK_COLUMNS, Delta, Live, in_order
from pipeline.stores.tables import CHUNKS, DOCUMENTS, GRAPH_TABLES, LIVE, METADATA, TABLES, VECTOR_TABLES
from pipeline.text import digest

VECTOR_LIMIT, HALFVEC_LIMIT = 2000, 4000
"""Dimensions up to which pgvector can index a ``vector`` and a ``halfvec``."""

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
class PostgresStore:
    """One workspace in one database. ``with_graph``: it holds the graph as well. Below ``exact_below`` rows
    a search compares every vector; above, it uses an HNSW index."""

    url: str = field(repr=False)
    workspace: str = "default"
    with_graph: bool = True
    exact_below: int = 5000
    name: str = "postgres"

    @property
    def tables(self) -> list[str]:
        return [name for name in TABLES if self.with_graph or name not in GRAPH_TABLES]

    @cached_property
    def engine(self) -> Engine:
        engine = create_engine(_driver_url(self.url), pool_pre_ping=True, connect_args={"connect_timeout": 10})
        event.listen(engine, "connect", _on_connect)
        return engine

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A transaction. Raises StoreError where the database cannot be reached or refuses."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except OperationalError as error:
            raise StoreError(
                f"stores.postgres.url: {_shown(self.url)} does not answer ({_first_line(error)}); "
                "start it, or use the embedded one (url: embedded)"
            ) from error
        except (DBAPIError, psycopg.Error) as error:
            raise StoreError(f"stores.postgres.url: {_shown(self.url)}: {_first_line(error)}") from error

    @contextmanager
    def writing(self) -> Iterator["PostgresWriter"]:
        with self.connection() as connection:
            _create_tables(connection, self.workspace)
        with self.connection() as connection:
            connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"graphmill/{self.workspace}"))))
            yield PostgresWriter(connection, self.workspace, self.exact_below)

    def live(self) -> Live | None:
        with self.connection() as connection:
            if not connection.execute(select(func.to_regclass(LIVE.name))).scalar():
                return None
            row = connection.execute(select(LIVE).where(LIVE.c.workspace == self.workspace)).mappings().first()
        if row is None:
            return None
        return Live(row["workflow"], row["version"], row["embedding"], row["dimensions"])

    def nearest(self, table: str, vector: np.ndarray, limit: int) -> list[tuple[str, float]]:
        rows = VECTOR_TABLES[table]
        distance = cast(rows.c.embedding, _indexed_type(len(vector))).cosine_distance(vector)
        query = (
            select(rows.c.id, (1 - distance).label("score"))
            .where(rows.c.workspace == self.workspace, _has_dimensions(rows.c.embedding, len(vector)))
            .order_by(distance, rows.c.id.collate("C"))
            .limit(limit)
        )
        with self.connection() as connection:
            connection.execute(
                select(
                    func.set_config("hnsw.ef_search", str(min(max(2 * limit, 100), 1000)), True),
                    func.set_config("hnsw.iterative_scan", "strict_order", True),
                )
            )
            found = connection.execute(query).all()
        return [(id, float(score)) for id, score in found if np.isfinite(score)]

    def chunks(self, ids: Sequence[str], question: np.ndarray) -> pd.DataFrame:
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
            .join_from(
                CHUNKS,
                DOCUMENTS,
                (DOCUMENTS.c.id == CHUNKS.c.full_doc_id) & (DOCUMENTS.c.workspace == CHUNKS.c.workspace),
            )
            .where(CHUNKS.c.workspace == self.workspace, CHUNKS.c.id == func.any(list(ids)))
        )
        with self.connection() as connection:
            found = pd.DataFrame(connection.execute(query).all(), columns=CHUNK_COLUMNS)
        return in_order(found, ids)

    def close(self) -> None:
        if "engine" in self.__dict__:
            self.engine.dispose()


@dataclass(frozen=True)
class PostgresWriter:
    connection: Connection
    workspace: str
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
        values = {
            "workflow": live.workflow,
            "version": live.version,
            "embedding": dict(live.embedding),
            "dimensions": live.dimensions,
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


def _create_tables(connection: Connection, workspace: str) -> None:
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("graphmill/tables"))))
    if not connection.execute(select(func.to_regclass(LIVE.name))).scalar():
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        METADATA.create_all(connection)
        _register_vector(connection.connection.dbapi_connection)
    for table in VECTOR_TABLES.values():
        partition = _partition(table, workspace)
        if not connection.execute(select(func.to_regclass(partition))).scalar():
            _create_partition(_cursor(connection), table.name, partition, workspace)


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


def _partition(table: Table, workspace: str) -> str:
    return f"{table.name}_{digest(workspace)[:12]}"


def _has_dimensions(embedding: ColumnElement, dimensions: int) -> ColumnElement[bool]:
    """The condition of the index, which keeps rows of an earlier model out of it. Written out, not a
    parameter, so that PostgreSQL sees it is the index's."""
    return func.vector_dims(embedding) == literal(dimensions, literal_execute=True)


def _indexed_type(dimensions: int) -> VECTOR | HALFVEC:
    return VECTOR(dimensions) if not VECTOR_LIMIT < dimensions <= HALFVEC_LIMIT else HALFVEC(dimensions)


def _copy_type(type_: Any) -> str:
    return COPY_TYPES[type_.compile(dialect=DIALECT)]


def _cells(column: pd.Series, type_: Any) -> list[Any]:
    """The column's values as psycopg sends them for the type."""
    adapt = {"text[]": list, "vector": Vector, "jsonb": Jsonb}.get(_copy_type(type_))
    return [adapt(value) for value in column] if adapt else column.tolist()


def _cursor(connection: Connection) -> Any:
    """psycopg's own cursor inside this transaction: for COPY and for quoted identifiers."""
    return connection.connection.cursor()


def _on_connect(connection: Any, _: Any) -> None:
    _register_vector(connection)
    connection.rollback()


def _register_vector(connection: Any) -> None:
    """Teach the connection pgvector's types, once the extension is there."""
    with connection.cursor() as cursor:
        there = cursor.execute("SELECT 1 FROM pg_type WHERE typname = 'vector'").fetchone()
    if there:
        register_vector(connection)


def _driver_url(url: str) -> str:
    try:
        return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            "stores.postgres.url: not a URL; write postgresql://user:password@host:5432/database, or embedded"
        ) from error


def _shown(url: str) -> str:
    return make_url(url).set(query={}).render_as_string(hide_password=True)


def _first_line(error: DBAPIError | psycopg.Error) -> str:
    return str(getattr(error, "orig", error)).strip().split("\n")[0]
