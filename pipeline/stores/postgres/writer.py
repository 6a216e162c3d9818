"""A load of a workspace into PostgreSQL: rows by COPY, indexes after the rows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import pandas as pd
import pyarrow as pa
from psycopg import sql
from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from pipeline.stores.base import Advanced, Delta, Live, TableState
from pipeline.stores.binary_copy import Kind, copy_stream
from pipeline.stores.connection import ahead
from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.drawing import count_between
from pipeline.stores.postgres.hnsw import Hnsw, build_index
from pipeline.stores.postgres.lexical import build_lexical_index, read_statistics
from pipeline.stores.postgres.lightrag_views import make_views
from pipeline.stores.postgres.maintenance import build_document_index, build_mention_index, watched
from pipeline.stores.postgres.rows import hashes, table_states
from pipeline.stores.postgres.schema import (
    CONSTANT_COLUMNS,
    LIVE,
    TABLES,
    VECTOR_TABLES,
    choose_kind,
    name_relation,
)
from pipeline.stores.postgres.workspaces import workspaces

SEARCHED = frozenset(
    {"workspace", "id", "embedding_key", "full_doc_id", "source_entity_id", "target_entity_id"}
)
"""The columns by which rows are looked up."""
IDS_AT_ONCE = 1_000_000
"""The number of ids in one statement. PostgreSQL accepts no value of more than 1 GiB, which is an
array of some 14 million ids."""


@dataclass
class PostgresWriter:
    """A load of a workspace, in the transaction of ``connection``.

    ``written``: the number of rows written to each table. ``touched``: the tables that were
    written to or deleted from, in this order. ``views_made``: whether the views show what was
    loaded.
    """

    connection: Connection
    workspace: str
    tables: Sequence[str]
    hnsw: Hnsw
    live: Live
    advanced: Advanced
    written: Counter[str] = field(default_factory=Counter)
    touched: dict[str, None] = field(default_factory=dict)
    views_made: bool = field(default=False, init=False)

    def states(self) -> Mapping[str, TableState]:
        return table_states(self.connection, self.workspace, self.tables)

    def hashes(self, table: str) -> pa.Table:
        return hashes(self.connection, TABLES[table], self.workspace, self.live.embedding_key)

    def apply(self, table: str, delta: Delta) -> None:
        """Write a delta of a table: delete rows by their ids, then write rows by COPY.

        A row to replace is deleted and written again.
        """
        if delta.empty:
            return
        self.touched[table] = None
        rows = TABLES[table]
        gone = [*delta.deleted, *delta.updated["id"]]
        for start in range(0, len(gone), IDS_AT_ONCE):
            some = gone[start : start + IDS_AT_ONCE]
            self.connection.execute(
                delete(rows).where(rows.c.workspace == self.workspace, rows.c.id == func.any(some))
            )
        expected = self.written[table] + len(delta.inserted) + len(delta.updated) + delta.following
        for frame in (delta.inserted, delta.updated):
            if len(frame):
                self._copy(table, frame, expected)

    def publish(self) -> None:
        """Build the indexes, and record what the workspace shows from now on."""
        self._analyze(self.touched)
        states = self.states()
        for name, table in VECTOR_TABLES.items():
            with watched(self.connection, f"index of {name}", self.advanced):
                build_index(
                    self.connection, table, states[name].rows, self.workspace, self.live, self.hnsw
                )
        with watched(self.connection, "word index of chunks", self.advanced):
            build_lexical_index(self.connection, self.workspace, self.hnsw.build_mb)
        with watched(self.connection, "document index of chunks", self.advanced):
            build_document_index(self.connection, self.workspace, self.hnsw.build_mb)
        with watched(self.connection, "mention index of entities", self.advanced):
            build_mention_index(self.connection, self.workspace, self.hnsw.build_mb)
        for name in TABLES.keys() - set(self.tables):
            self.connection.execute(
                delete(TABLES[name]).where(TABLES[name].c.workspace == self.workspace)
            )
        values = {
            **self.live.stored(states),
            "probe": asdict(self.live.probe) if self.live.probe else None,
            "lexical": read_statistics(self.connection, self.workspace, states["chunks"].rows),
        }
        statement = insert(LIVE).values(workspace=self.workspace, **values)
        self.connection.execute(
            statement.on_conflict_do_update(index_elements=["workspace"], set_=values)
        )
        self.views_made = make_views(self.connection, workspaces)
        # The counts are checked by every load: somebody may have changed them by hand.
        count_between(self.connection, self.workspace)

    def _copy(self, name: str, frame: pd.DataFrame, expected: int) -> None:
        """Write rows by COPY. ``expected``: about how many rows the load writes to the table."""
        table = TABLES[name]
        constants = {"workspace": self.workspace, "embedding_key": self.live.embedding_key}
        constants = {key: value for key, value in constants.items() if key in table.c}
        kinds: dict[str, Kind] = {
            column.name: choose_kind(column)
            for column in table.c
            if column.name not in CONSTANT_COLUMNS
        }
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            sql.Identifier(name_relation(table, self.workspace)),
            sql.SQL(", ").join(sql.Identifier(column) for column in [*constants, *kinds]),
        )
        stream = copy_stream(frame, kinds, list(constants.values()))
        with ahead(stream) as pieces, cursor(self.connection).copy(statement) as copy:
            for rows, piece in pieces:
                copy.write(piece)
                self.written[name] += rows
                if rows:
                    self.advanced(name, self.written[name], expected)

    def _analyze(self, tables: Iterable[str]) -> None:
        """Refresh the planner's statistics of these tables.

        Without it, the first reads after a load would be planned by old statistics, and be slow.
        Only searched columns are sampled, and few rows: to sample vectors takes as long as to load
        them.
        """
        self.connection.execute(select(func.set_config("default_statistics_target", "10", True)))
        for name in tables:
            table = TABLES[name]
            names = [column.name for column in table.c if column.name in SEARCHED]
            statement = sql.SQL("ANALYZE {} ({})").format(
                sql.Identifier(name_relation(table, self.workspace)),
                sql.SQL(", ").join(map(sql.Identifier, names)),
            )
            cursor(self.connection).execute(statement)
