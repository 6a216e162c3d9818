"""A workspace in PostgreSQL with pgvector, as a load uses it: one transaction writes all tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
from sqlalchemy import case, func, select

from pipeline.errors import StoreError
from pipeline.stores.base import Advanced, Live, TableState, Waits, silent
from pipeline.stores.connection import PAUSE_SECONDS
from pipeline.stores.postgres.drawing import miscounted
from pipeline.stores.postgres.hnsw import (
    broken_indexes,
    drop_index,
    indexes,
    outdated_indexes,
    unindexed,
)
from pipeline.stores.postgres.lexical import index_name as lexical_index
from pipeline.stores.postgres.lexical_endings import endings_index
from pipeline.stores.postgres.lightrag_views import make_views
from pipeline.stores.postgres.maintenance import (
    create_tables,
    document_index,
    mention_index,
    missing,
    place_vectors,
    vacuum,
    worn_tables,
)
from pipeline.stores.postgres.reads import PostgresReads
from pipeline.stores.postgres.rows import hashes, rows, table_states
from pipeline.stores.postgres.schema import (
    DOCUMENTS,
    GRAPH_TABLES,
    HALFVEC_LIMIT,
    TABLES,
    VECTOR_TABLES,
)
from pipeline.stores.postgres.workspaces import drop, has_partitions, lock, workspaces
from pipeline.stores.postgres.writer import PostgresWriter

NO_INDEX = (
    "no index takes vectors of {:,} dimensions, so every search compares them all; have a model"
    " give at most {:,}"
)


@dataclass(frozen=True)
class PostgresStore(PostgresReads):
    """A workspace of a PostgreSQL database.

    ``with_graph``: it holds the graph as well. ``vacuums``: each load vacuums tables with many dead
    rows, for a server that never runs long enough to do so by itself.
    """

    with_graph: bool = True
    name: str = "postgres"
    vacuums: bool = False

    @property
    def tables(self) -> list[str]:
        """The names of the tables that are loaded, in the order in which to load them."""
        return [name for name in TABLES if self.with_graph or name not in GRAPH_TABLES]

    @contextmanager
    def alone(self, waits: Waits = silent) -> Iterator[None]:
        with self.connection() as connection:
            lock(connection, f"{self.workspace}/stores", waits)
            yield

    @contextmanager
    def writing(
        self, live: Live, advanced: Advanced = silent, waits: Waits = silent
    ) -> Iterator[PostgresWriter]:
        """Yield the writer of a load, in one transaction; then drop old indexes and vacuum."""
        self._prepare(live, waits)
        views_made = False
        ready = False
        while not ready:
            with self.connection() as connection:
                lock(connection, self.workspace, waits)
                # A drop may have removed the partitions before the lock was taken.
                ready = has_partitions(connection, self.workspace)
                if ready:
                    writer = PostgresWriter(
                        connection, self.workspace, self.tables, self.hnsw, live, advanced
                    )
                    yield writer
                    views_made = writer.views_made
                    if self.vacuums:
                        # Otherwise the server would count this load's dead rows only later.
                        connection.execute(select(func.pg_stat_force_next_flush()))
            if not ready:
                self._prepare(live, waits)
        self._drop_outdated_indexes(live)
        with suppress(StoreError), self.connection() as connection:
            if not views_made:
                make_views(connection, workspaces)
        if self.vacuums:
            self._vacuum(advanced)

    def begun(self) -> bool:
        """Return False: a load is one transaction, so readers never see a part of it."""
        return False

    def table_states(self) -> dict[str, TableState]:
        with self.connection() as connection:
            return table_states(connection, self.workspace, self.tables)

    def outdated(self) -> list[str]:
        with self.connection() as connection:
            live = self.live_in(connection)
            if live is None:
                return []
            there = indexes(connection, self.workspace)
            needed = (lexical_index, endings_index, document_index, mention_index)
            names = [index(self.workspace) for index in needed]
            gone = missing(connection, names)
        facts = [f"index {name} is gone" for name in gone]
        facts += [
            f"{table}: its vectors have no index such as stores.postgres.hnsw asks for"
            for table in unindexed(there, self.workspace, live, self.hnsw)
        ]
        facts += [
            f"index {name} of earlier settings or another model is still there"
            for name in outdated_indexes(there, self.workspace, live, self.hnsw)
        ]
        return facts

    def miscounted(self) -> int:
        with self.connection() as connection:
            return miscounted(connection, self.workspace)

    def notes(self) -> list[str]:
        live = self.live()
        notes = self.outdated()
        if live is None or live.dimensions <= HALFVEC_LIMIT:
            return notes
        rows = [live.tables[table].rows for table in VECTOR_TABLES if table in live.tables]
        # Smaller tables have no index in any case.
        if any(number >= self.hnsw.exact_below for number in rows):
            notes.append(NO_INDEX.format(live.dimensions, HALFVEC_LIMIT))
        return notes

    def hashes(self, table: str) -> pa.Table:
        with self.connection() as connection:
            live = self.live_in(connection)
            embedding_key = live.embedding_key if live else ""
            return hashes(connection, TABLES[table], self.workspace, embedding_key)

    def rows(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        with self.connection() as connection:
            yield from rows(connection, TABLES[table], self.workspace, columns)

    def as_stored(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows

    def workspaces(self) -> Mapping[str, Live]:
        with self.connection() as connection:
            return workspaces(connection)

    def fields(self, workspace: str) -> set[str]:
        """Return the keys of the metadata of a workspace's documents."""
        is_object = func.jsonb_typeof(DOCUMENTS.c.metadata) == "object"
        # Null where it is no object: PostgreSQL refuses to list the keys of other values.
        metadata = case((is_object, DOCUMENTS.c.metadata))
        keys = select(func.jsonb_object_keys(metadata))
        keys = keys.where(DOCUMENTS.c.workspace == workspace).distinct()
        return {name for (name,) in self.rows_of(keys)}

    def drop(self) -> Mapping[str, int]:
        return drop(self.connection, self.workspace)

    def _prepare(self, live: Live, waits: Waits) -> None:
        """Create tables and partitions, and drop broken indexes, before a load.

        The load has a transaction of its own: those here make loads of other workspaces wait.
        """
        with self.connection() as connection:
            create_tables(connection, self.workspace)
        while not self._vectors_are_placed(live, waits):
            time.sleep(PAUSE_SECONDS)
        with self.connection() as connection:
            broken = broken_indexes(indexes(connection, self.workspace))
        self._drop_indexes(broken)

    def _vectors_are_placed(self, live: Live, waits: Waits) -> bool:
        """Set how vectors are stored; return False if readers kept a table busy for too long.

        There is nothing to do if a drop has removed the partitions meanwhile.
        """
        with self.connection() as connection:
            lock(connection, self.workspace, waits)
            there = has_partitions(connection, self.workspace)
            return not there or place_vectors(connection, self.workspace, live.dimensions)

    def _drop_outdated_indexes(self, live: Live) -> None:
        """Drop indexes of earlier settings and models, after a load.

        The load has succeeded, so an error is ignored. What is left is reported by ``outdated`` and
        dropped by the next load.
        """
        with suppress(StoreError):
            with self.connection() as connection:
                there = indexes(connection, self.workspace)
            self._drop_indexes(outdated_indexes(there, self.workspace, live, self.hnsw))

    def _vacuum(self, advanced: Advanced) -> None:
        """Run VACUUM on tables with many dead rows, after a load.

        The load has succeeded, so an error is ignored. What is left is vacuumed by the next load.
        """
        with suppress(StoreError):
            with self.connection() as connection:
                names = worn_tables(connection, self.workspace)
            with self.autocommit() as connection:
                for place, name in enumerate(names):
                    advanced("dead rows of tables", place, len(names))
                    vacuum(connection, name)
                    advanced("dead rows of tables", place + 1, len(names))

    def _drop_indexes(self, names: Sequence[str]) -> None:
        """Drop these indexes while reads go on; nothing is connected to if there are none."""
        if not names:
            return
        with self.autocommit() as connection:
            for name in names:
                drop_index(connection, name)
