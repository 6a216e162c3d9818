"""PostgreSQL with pgvector: chunks, entities and relationships with vectors, loaded in one transaction."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import psycopg
from pgvector.sqlalchemy import HALFVEC, VECTOR
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    cast,
    create_engine,
    event,
    func,
    literal,
    literal_column,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from pipeline.errors import StoreError
from pipeline.schema_version import UNMARKED, refuse_newer
from pipeline.stores.base import CHUNK_COLUMNS, Live, TableState, in_order, read_states
from pipeline.stores.postgres_rows import hashes, rows
from pipeline.stores.postgres_workspaces import drop, has_partitions, lock, workspaces
from pipeline.stores.postgres_writer import PostgresWriter, create_tables, register_types, table_states
from pipeline.stores.tables import (
    CHUNKS,
    DOCUMENTS,
    GRAPH_TABLES,
    HALFVEC_LIMIT,
    LIVE,
    TABLES,
    VECTOR_LIMIT,
    VECTOR_TABLES,
)


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
    def writing(self) -> Iterator[PostgresWriter]:
        ready = False
        while not ready:
            with self.connection() as connection:
                create_tables(connection, self.workspace)
            with self.connection() as connection:
                lock(connection, self.workspace)
                if ready := has_partitions(connection, self.workspace):
                    yield PostgresWriter(connection, self.workspace, self.tables, self.exact_below)

    def live(self) -> Live | None:
        with self.connection() as connection:
            if not connection.execute(select(func.to_regclass(LIVE.name))).scalar():
                return None
            every_column = select(literal_column("*")).select_from(LIVE)  # an earlier version's table has fewer
            row = connection.execute(every_column.where(LIVE.c.workspace == self.workspace)).mappings().first()
        if row is None:
            return None
        schema_version = row.get("schema_version") or UNMARKED
        refuse_newer(schema_version, f"stores.postgres.url: {_shown(self.url)}, workspace '{self.workspace}'")
        return Live(
            row["workflow"],
            row["version"],
            row["embedding"],
            row["dimensions"],
            read_states(row.get("tables")),
            schema_version,
        )

    def table_states(self) -> dict[str, TableState]:
        with self.connection() as connection:
            return table_states(connection, self.workspace, self.tables)

    def hashes(self, table: str) -> Mapping[str, str]:
        with self.connection() as connection:
            return hashes(connection, TABLES[table], self.workspace)

    def rows(self, table: str) -> Iterator[pd.DataFrame]:
        with self.connection() as connection:
            yield from rows(connection, TABLES[table], self.workspace)

    def workspaces(self) -> Mapping[str, Live]:
        with self.connection() as connection:
            return workspaces(connection)

    def drop(self) -> Mapping[str, int]:
        return drop(self.connection, self.workspace)

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


def _has_dimensions(embedding: ColumnElement, dimensions: int) -> ColumnElement[bool]:
    """The condition of the index, which keeps rows of an earlier model out of it. Written out, not a
    parameter, so that PostgreSQL sees it is the index's."""
    return func.vector_dims(embedding) == literal(dimensions, literal_execute=True)


def _indexed_type(dimensions: int) -> VECTOR | HALFVEC:
    return VECTOR(dimensions) if not VECTOR_LIMIT < dimensions <= HALFVEC_LIMIT else HALFVEC(dimensions)


def _on_connect(connection: Any, _: Any) -> None:
    register_types(connection)
    connection.rollback()


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
