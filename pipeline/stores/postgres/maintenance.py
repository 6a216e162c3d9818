"""Make the PostgreSQL tables, what they lack of this version's, and their indexes; and watch these
being built."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg import errors, sql
from sqlalchemy import Connection, Engine, cast, func, select, text
from sqlalchemy.dialects.postgresql import REGCLASS

from pipeline.stores.base import Advanced
from pipeline.stores.postgres.database import cursor, register_types
from pipeline.stores.postgres.schema import (
    CHUNKS,
    ENTITY_IDS,
    LIVE,
    METADATA,
    PARTITIONED,
    PLAIN_LIMIT,
    SOURCE_LISTS,
    TABLES,
    VECTOR_TABLES,
    kind_of,
    partition_of,
    stored_in,
)

if TYPE_CHECKING:  # it loads tables
    from pipeline.stores.binary_copy import Kind

PLAIN, EXTERNAL = "p", "e"
PATIENCE = "500ms"
"""How long a change of a table may wait for those who read it, since all who come after it wait as
well."""
DEAD_SHARE, FEW_DEAD = 0.2, 50
"""Of a table's rows that may be dead; so few do no harm, whatever their share."""
LOOKS_EVERY = 1.0
"""Seconds."""
LOOK_PATIENCE = "2s"
BUILDING = text(
    "SELECT blocks_done, blocks_total FROM pg_stat_progress_create_index WHERE pid = :process"
)
COLUMNS = text("""
    SELECT name, attname FROM unnest(CAST(:names AS text[]))
        AS name JOIN pg_attribute ON attrelid = to_regclass(name)
    WHERE attnum > 0 AND NOT attisdropped
    """)
STORED_OTHERWISE = text("""
    SELECT name FROM unnest(CAST(:names AS text[]))
        AS name JOIN pg_attribute ON attrelid = to_regclass(name)
    WHERE attname = 'embedding' AND attstorage <> :storage
    """)
COLUMN_TYPES: Mapping[Kind, sql.SQL] = {
    "text": sql.SQL("text"),
    "text[]": sql.SQL("text[]"),
    "int4": sql.SQL("int4"),
    "int8": sql.SQL("int8"),
    "float8": sql.SQL("float8"),
    "jsonb": sql.SQL("jsonb"),
    "vector": sql.SQL("vector"),
}


def create_tables(connection: Connection, workspace: str) -> None:
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("graphmill/tables"))))
    if not connection.execute(select(func.to_regclass(LIVE.name))).scalar():
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        register_types(connection.connection.dbapi_connection)
    METADATA.create_all(connection)  # those that are not there
    _add_columns(connection)
    partitions = {partition_of(table, workspace): table.name for table in PARTITIONED}
    for partition in missing(connection, list(partitions)):
        _create_partition(cursor(connection), partitions[partition], partition, workspace)


def missing(connection: Connection, names: Sequence[str]) -> list[str]:
    """Those of these tables and indexes that are not there."""
    query = text(
        "SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(name) IS NULL"
    )
    return list(connection.execute(query, {"names": list(names)}).scalars())


def columns_there(connection: Connection, tables: Sequence[str]) -> set[tuple[str, str]]:
    """The columns of these tables, each with its table."""
    return {
        (table, column) for table, column in connection.execute(COLUMNS, {"names": list(tables)})
    }


def place_vectors(connection: Connection, workspace: str, dimensions: int) -> bool:
    """Have vectors of so many dimensions kept in their row's page where they fit: reading them is
    then faster, and the planner knows what it costs. Concerns rows still to be written. The
    workspace must be locked.

    False, with not all done, where somebody has read a table for longer than those who come after
    may wait.
    """
    storage = PLAIN if dimensions <= PLAIN_LIMIT else EXTERNAL
    connection.execute(select(func.set_config("lock_timeout", PATIENCE, True)))
    partitions = [partition_of(table, workspace) for table in VECTOR_TABLES.values()]
    for partition in (
        connection.execute(STORED_OTHERWISE, {"names": partitions, "storage": storage})
        .scalars()
        .all()
    ):
        statement = sql.SQL("ALTER TABLE {} ALTER COLUMN embedding SET STORAGE {}").format(
            sql.Identifier(partition), sql.SQL("PLAIN" if storage == PLAIN else "EXTERNAL")
        )
        try:
            with connection.begin_nested():
                cursor(connection).execute(statement)
        except errors.LockNotAvailable:
            return False
    return True


def _add_columns(connection: Connection) -> None:
    """What this version has and the one before had not. Only where it is missing: ALTER TABLE waits
    for the loads of other workspaces even when it has nothing to do."""
    tables = (LIVE, *TABLES.values())
    there = columns_there(connection, [table.name for table in tables])
    for table in tables:
        for column in table.columns:
            if (table.name, column.name) not in there:
                statement = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}").format(
                    sql.Identifier(table.name),
                    sql.Identifier(column.name),
                    COLUMN_TYPES[kind_of(column)],
                )
                cursor(connection).execute(statement)


def _create_partition(found: Any, table: str, partition: str, workspace: str) -> None:
    """Made apart and attached, which waits for nobody; CREATE TABLE ... PARTITION OF would wait for
    the loads of other workspaces, and every read for it."""
    names = {"table": sql.Identifier(table), "partition": sql.Identifier(partition)}
    found.execute(sql.SQL("CREATE TABLE {partition} (LIKE {table} INCLUDING ALL)").format(**names))
    found.execute(
        sql.SQL(
            "ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES IN ({workspace})"
        ).format(**names, workspace=sql.Literal(workspace))
    )


def worn_tables(connection: Connection, workspace: str) -> list[str]:
    """Those that the workspace's rows are in of whose rows more than a fifth are dead: left by what
    replaced them."""
    names = [stored_in(table, workspace) for table in TABLES.values()]
    query = text(
        "SELECT relname FROM pg_stat_user_tables WHERE relname = ANY(:names) AND relid ="
        " to_regclass(relname::text) AND n_dead_tup > :least AND n_dead_tup > :share * (n_live_tup"
        " + n_dead_tup) ORDER BY relname"
    )
    found = connection.execute(query, {"names": names, "least": FEW_DEAD, "share": DEAD_SHARE})
    return list(found.scalars())


def vacuum(connection: Connection, name: str) -> None:
    """Let what is written next take the place of its dead rows. Reads and loads go on meanwhile.
    The connection must not be in a transaction."""
    cursor(connection).execute(sql.SQL("VACUUM {}").format(sql.Identifier(name)))


def execute_in_parallel(connection: Connection, statement: sql.Composed, build_mb: int) -> None:
    """Build an index in so much memory. Parallel workers share memory of the system, of which
    containers have little: then by one process."""
    connection.execute(select(func.set_config("maintenance_work_mem", f"{build_mb}MB", True)))
    try:
        with connection.begin_nested():
            cursor(connection).execute(statement)
    except (errors.DiskFull, errors.OutOfMemory, errors.InsufficientResources):
        connection.execute(text("SET LOCAL max_parallel_maintenance_workers = 0"))
        cursor(connection).execute(statement)


def build_or_settle(
    connection: Connection, name: str, statement: sql.Composed, build_mb: int
) -> None:
    """Build a GIN index where it is not there; else sort what was written since into it, which
    reads would have to go through one by one."""
    if connection.execute(select(func.to_regclass(name))).scalar():
        connection.execute(select(func.gin_clean_pending_list(cast(name, REGCLASS))))
    else:
        execute_in_parallel(connection, statement, build_mb)


def mention_index(workspace: str) -> str:
    return f"{partition_of(SOURCE_LISTS, workspace)}_mentions"


def build_mention_index(connection: Connection, workspace: str, build_mb: int) -> None:
    """Of entities alone, which are the fewer: nobody asks for the relationships of a text unit."""
    partition, name = partition_of(SOURCE_LISTS, workspace), mention_index(workspace)
    statement = sql.SQL("CREATE INDEX {} ON {} USING gin (chunk_ids) WHERE id ^@ {}")
    names = sql.Identifier(name), sql.Identifier(partition)
    build_or_settle(connection, name, statement.format(*names, sql.Literal(ENTITY_IDS)), build_mb)


def document_index(workspace: str) -> str:
    return f"{partition_of(CHUNKS, workspace)}_documents"


def build_document_index(connection: Connection, workspace: str, build_mb: int) -> None:
    """Of text units by their document."""
    partition, name = partition_of(CHUNKS, workspace), document_index(workspace)
    if not connection.execute(select(func.to_regclass(name))).scalar():
        statement = sql.SQL("CREATE INDEX {} ON {} (full_doc_id, chunk_order_index)")
        execute_in_parallel(
            connection, statement.format(sql.Identifier(name), sql.Identifier(partition)), build_mb
        )


@contextmanager
def watched(connection: Connection, part: str, advanced: Advanced) -> Iterator[None]:
    """While the connection builds an index of the part, ``advanced`` is told how many of the
    table's pages are in it. Best effort: where the server does not show it, nothing is told but the
    beginning and the end."""
    advanced(part, 0, 1)
    watch = _Watch(
        connection.engine, cursor(connection).connection.info.backend_pid, part, advanced
    )
    thread = threading.Thread(target=watch.look, name="index progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watch.over.set()
        thread.join()
    advanced(part, watch.pages, watch.pages)


@dataclass
class _Watch:
    engine: Engine
    process: int
    part: str
    advanced: Advanced
    pages: int = 1
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Until it is over, or a look fails. What is quickly built is not looked at, and costs no
        connection."""
        with suppress(Exception):
            if self.over.wait(LOOKS_EVERY):
                return
            with self.engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            ) as connection:
                connection.execute(
                    select(func.set_config("statement_timeout", LOOK_PATIENCE, False))
                )
                try:
                    self._tell(connection)
                finally:
                    # Closed, and not kept with a timeout that is not the others'.
                    connection.invalidate()

    def _tell(self, connection: Connection) -> None:
        while True:
            found = connection.execute(BUILDING, {"process": self.process}).first()
            if found and found.blocks_total:
                self.pages = found.blocks_total
                self.advanced(self.part, min(found.blocks_done, self.pages), self.pages)
            if self.over.wait(LOOKS_EVERY):
                return
