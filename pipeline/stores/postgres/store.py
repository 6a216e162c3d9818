"""PostgreSQL with pgvector: chunks, entities and relationships with vectors, loaded in one transaction."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy import ColumnElement, Connection, Engine, Select, cast, create_engine, event, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from pipeline.contract.schemas import refuse_newer
from pipeline.errors import StoreError
from pipeline.settings.addresses import fault_of_postgres
from pipeline.stores.base import (
    CHUNK_COLUMNS,
    CLAIM_COLUMNS,
    REPORT_COLUMNS,
    Advanced,
    Lexical,
    Live,
    TableState,
    Waits,
    in_order,
    silent,
    this_client,
    unheard,
)
from pipeline.stores.connection import PAUSE_SECONDS
from pipeline.stores.postgres.errors import store_error
from pipeline.stores.postgres.hnsw import (
    Hnsw,
    broken_indexes,
    drop_index,
    indexed_type,
    of_model,
    outdated_indexes,
    search_settings,
    unindexed,
    usual_settings,
)
from pipeline.stores.postgres.lexical import index_name as lexical_index
from pipeline.stores.postgres.lexical import lexical_search
from pipeline.stores.postgres.maintenance import create_tables, place_vectors, register_types, vacuum, worn_tables
from pipeline.stores.postgres.reads import (
    claims_of,
    embeddings,
    hashes,
    mention_index,
    mentions,
    openings,
    origins,
    reports,
    reports_at,
    rows,
    told_by,
)
from pipeline.stores.postgres.schema import CHUNKS, DOCUMENTS, GRAPH_TABLES, HALFVEC_LIMIT, SINCE, TABLES, VECTOR_TABLES
from pipeline.stores.postgres.workspaces import drop, has_partitions, lock, workspaces
from pipeline.stores.postgres.writer import PostgresWriter, table_states

KNOWS_TYPES = "graphmill_types"
NO_INDEX = (
    "no index takes vectors of {:,} dimensions, so every search compares them all; have a model give at most {:,}"
)


@dataclass(frozen=True)
class ReadTransaction:
    """A transaction in which the store stays as it is, and what it shows."""

    connection: Connection
    live: Live | None


@dataclass(frozen=True)
class PostgresStore:
    """One workspace in one database. ``with_graph``: it holds the graph as well. ``vacuums``: each load clears away the
    dead rows that it leaves, for a server that never runs long enough to do so itself."""

    url: str = field(repr=False)
    workspace: str = "default"
    with_graph: bool = True
    hnsw: Hnsw = Hnsw()
    name: str = "postgres"
    moment: ReadTransaction | None = None
    vacuums: bool = False

    @property
    def tables(self) -> list[str]:
        return [name for name in TABLES if self.with_graph or name not in GRAPH_TABLES]

    @cached_property
    def engine(self) -> Engine:
        engine = create_engine(_driver_url(self.url), pool_pre_ping=True, connect_args=_connect_args())
        event.listen(engine, "connect", self._on_connect)
        event.listen(engine, "checkout", _on_checkout)
        return engine

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A transaction. Raises StoreError where the database cannot be reached or refuses, LostConnectionError where
        it has gone away."""
        if self.moment is not None:
            yield self.moment.connection
            return
        with self._errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def alone(self, waits: Waits = unheard) -> Iterator[None]:
        with self.connection() as connection:
            lock(connection, f"{self.workspace}/stores", waits)
            yield

    @contextmanager
    def writing(self, live: Live, advanced: Advanced = silent, waits: Waits = unheard) -> Iterator[PostgresWriter]:
        self._prepare(live, waits)
        ready = False
        while not ready:
            with self.connection() as connection:
                lock(connection, self.workspace, waits)
                if ready := has_partitions(connection, self.workspace):
                    yield PostgresWriter(connection, self.workspace, self.tables, self.hnsw, live, advanced)
                    if self.vacuums:  # else what died in this load is not counted yet when it has ended
                        connection.execute(select(func.pg_stat_force_next_flush()))
            if not ready:
                self._prepare(live, waits)
        self._drop_outdated_indexes(live)
        if self.vacuums:
            self._vacuum(advanced)

    @contextmanager
    def reading(self) -> Iterator["PostgresStore"]:
        """The store as it is at this moment, whatever is loaded meanwhile."""
        with self.connection() as connection:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield replace(self, moment=ReadTransaction(connection, self._live(connection)))

    def live(self) -> Live | None:
        if self.moment is not None:
            return self.moment.live
        with self.connection() as connection:
            return self._live(connection)

    def _live(self, connection: Connection) -> Live | None:
        live = workspaces(connection, self.workspace).get(self.workspace)
        if live is not None:
            refuse_newer(live.schema_version, f"stores.postgres.url: {_shown(self.url)}, workspace '{self.workspace}'")
        return live

    def holds(self, table: str) -> bool:
        """Whether what is shown can have rows in the table; where an earlier version of the software has loaded it, the
        table may not even be there."""
        live = self.live()
        return live is not None and live.schema_version >= SINCE.get(table, 0)

    def begun(self) -> bool:
        """A load is one transaction."""
        return False

    def table_states(self) -> dict[str, TableState]:
        with self.connection() as connection:
            return table_states(connection, self.workspace, self.tables)

    def outdated(self) -> list[str]:
        with self.connection() as connection:
            live = self._live(connection)
            if live is None:
                return []
            without = unindexed(connection, self.workspace, live, self.hnsw)
            old = outdated_indexes(connection, self.workspace, live, self.hnsw)
            usual = (lexical_index(self.workspace), mention_index(self.workspace))
            gone = [name for name in usual if not connection.execute(select(func.to_regclass(name))).scalar()]
        return [
            *(f"index {name} is gone" for name in gone),
            *(f"{table}: its vectors have no index such as stores.postgres.hnsw asks for" for table in without),
            *(f"index {name} of earlier settings or another model is still there" for name in old),
        ]

    def notes(self) -> list[str]:
        live = self.live()
        if live is None or live.dimensions <= HALFVEC_LIMIT:
            return self.outdated()
        few = all(live.tables[table].rows < self.hnsw.exact_below for table in VECTOR_TABLES if table in live.tables)
        return self.outdated() if few else [*self.outdated(), NO_INDEX.format(live.dimensions, HALFVEC_LIMIT)]

    def hashes(self, table: str) -> pa.Table:
        with self.connection() as connection:
            live = self._live(connection)
            return hashes(connection, TABLES[table], self.workspace, live.embedding_key if live else "")

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        with self.connection() as connection:
            yield from rows(connection, TABLES[table], self.workspace, columns)

    def as_stored(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows

    def workspaces(self) -> Mapping[str, Live]:
        with self.connection() as connection:
            return workspaces(connection)

    def drop(self) -> Mapping[str, int]:
        return drop(self.connection, self.workspace)

    def nearest(
        self, table: str, vector: np.ndarray, limit: int, within: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        live = self.live()
        if live is None or live.dimensions != len(vector) or live.schema_version < SINCE.get(table, 0):
            return []
        rows = VECTOR_TABLES[table]
        conditions = [rows.c.workspace == self.workspace, of_model(rows, live.embedding_key)]
        if within is not None:
            conditions.append(told_by(rows, within))
        distance = cast(rows.c.embedding, indexed_type(len(vector))).cosine_distance(vector)
        with self.connection() as connection:
            connection.execute(select(search_settings(rows, self.workspace, live, self.hnsw, limit)))
            found = connection.execute(_nearest(rows.c.id, distance, conditions, limit)).all()
            connection.execute(select(usual_settings()))
            if within is not None and len(found) < limit:  # the index gives up before it has seen all
                unindexed = rows.c.embedding.cosine_distance(vector)
                found = connection.execute(_nearest(rows.c.id, unindexed, conditions, limit)).all()
        return [(id, float(score)) for id, score in found if np.isfinite(score)]

    def nearest_of(self, chunk_ids: Sequence[str], vector: np.ndarray, limit: int) -> list[tuple[str, float]]:
        distance = cast(CHUNKS.c.embedding, VECTOR(len(vector))).cosine_distance(vector)
        conditions = [CHUNKS.c.workspace == self.workspace, CHUNKS.c.id == func.any(list(chunk_ids))]
        with self.connection() as connection:
            found = connection.execute(_nearest(CHUNKS.c.id, distance, conditions, limit)).all()
        return [(id, float(score)) for id, score in found if np.isfinite(score)]

    def documents(self) -> pd.DataFrame:
        columns = [DOCUMENTS.c[name] for name in ("id", "title", "source", "metadata")]
        with self.connection() as connection:
            found = connection.execute(select(*columns).where(DOCUMENTS.c.workspace == self.workspace)).all()
        return pd.DataFrame(found, columns=[column.name for column in columns])

    def origins(self, table: str, ids: Sequence[str], documents: Sequence[str]) -> pd.DataFrame:
        with self.connection() as connection:
            found = connection.execute(origins(VECTOR_TABLES[table], self.workspace, ids, documents)).all()
        return pd.DataFrame(found, columns=["id", "some", "all"])

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

    def lexical(self, question: str, limit: int, within: Sequence[str] | None = None) -> Lexical:
        with self.connection() as connection:
            return lexical_search(connection, self.workspace, question, limit, within)

    def mentions(self, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int) -> pd.DataFrame:
        with self.connection() as connection:
            return mentions(connection, self.workspace, text_unit_ids, entity_ids, most)

    def openings(self, ids: Sequence[str], length: int) -> pd.DataFrame:
        with self.connection() as connection:
            return openings(connection, self.workspace, ids, length)

    def embeddings(self, table: str, ids: Sequence[str]) -> dict[str, np.ndarray]:
        with self.connection() as connection:
            return embeddings(connection, self.workspace, table, ids)

    def reports(self, ids: Sequence[str]) -> pd.DataFrame:
        if not self.holds("reports"):
            return pd.DataFrame(columns=REPORT_COLUMNS)
        with self.connection() as connection:
            return reports(connection, self.workspace, ids)

    def reports_at(self, level: int, limit: int, within: Sequence[str] | None = None) -> pd.DataFrame:
        if not self.holds("reports"):
            return pd.DataFrame(columns=REPORT_COLUMNS)
        with self.connection() as connection:
            return reports_at(connection, self.workspace, level, limit, within)

    def claims_of(self, entity_ids: Sequence[str], limit: int, within: Sequence[str] | None = None) -> pd.DataFrame:
        if not self.holds("claims"):
            return pd.DataFrame(columns=CLAIM_COLUMNS)
        with self.connection() as connection:
            return claims_of(connection, self.workspace, entity_ids, limit, within)

    def close(self) -> None:
        if "engine" in self.__dict__:
            self.engine.dispose()

    def _prepare(self, live: Live, waits: Waits) -> None:
        """Tables and partitions. In transactions of their own: other workspaces' loads wait for them."""
        with self.connection() as connection:
            create_tables(connection, self.workspace)
        while not self._vectors_are_placed(live, waits):
            time.sleep(PAUSE_SECONDS)
        with self.connection() as connection:
            broken = broken_indexes(connection, self.workspace)
        self._drop_indexes(broken)

    def _vectors_are_placed(self, live: Live, waits: Waits) -> bool:
        with self.connection() as connection:
            lock(connection, self.workspace, waits)
            there = has_partitions(connection, self.workspace)
            return not there or place_vectors(connection, self.workspace, live.dimensions)

    def _drop_outdated_indexes(self, live: Live) -> None:
        """The load is over: what cannot be dropped now is left to the next, and told by ``outdated``."""
        with suppress(StoreError):
            with self.connection() as connection:
                names = outdated_indexes(connection, self.workspace, live, self.hnsw)
            self._drop_indexes(names)

    def _vacuum(self, advanced: Advanced) -> None:
        """The load is over: what cannot be cleared away now is left to the next."""
        with suppress(StoreError):
            with self.connection() as connection:
                names = worn_tables(connection, self.workspace)
            with self._errors(), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                for place, name in enumerate(names):
                    advanced("dead rows of tables", place, len(names))
                    vacuum(connection, name)
                    advanced("dead rows of tables", place + 1, len(names))

    def _drop_indexes(self, names: Sequence[str]) -> None:
        if not names:
            return
        with self._errors(), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for name in names:
                drop_index(connection, name)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, psycopg.Error) as error:
            raise store_error(error, f"stores.postgres.url: {_shown(self.url)}", self._was_there.is_set()) from error
        except PoolTimeoutError as error:
            raise StoreError(
                f"stores.postgres.url: {_shown(self.url)}: every connection is in use; ask again, or lower "
                "serve.concurrency"
            ) from error

    @cached_property
    def _was_there(self) -> threading.Event:
        return threading.Event()

    def _on_connect(self, connection: Any, _: Any) -> None:
        self._was_there.set()


def _on_checkout(connection: Any, record: Any, _: Any) -> None:
    """A connection may be older than the extension, whose types it learns once they are there."""
    if not record.info.get(KNOWS_TYPES):
        record.info[KNOWS_TYPES] = register_types(connection)
        connection.rollback()


def _nearest(
    id: ColumnElement[str], distance: ColumnElement[float], conditions: Sequence[ColumnElement[bool]], limit: int
) -> Select:
    return select(id, (1 - distance).label("score")).where(*conditions).order_by(distance, id.collate("C")).limit(limit)


def _connect_args() -> dict[str, Any]:
    """By its name, which the server cuts at 63 bytes, other clients tell people who holds a lock; a name in the address
    goes before it."""
    return {"connect_timeout": 10, "fallback_application_name": this_client()}


def _driver_url(url: str) -> str:
    if fault := fault_of_postgres(url):
        raise StoreError(f"stores.postgres.url: {fault}")
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def _shown(url: str) -> str:
    return make_url(url).set(query={}).render_as_string(hide_password=True)
