"""Creates the tables in PostgreSQL, adds missing columns, builds indexes and reports their
progress."""

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
    ENTITY_ID_PREFIX,
    INLINE_LIMIT,
    LIVE,
    METADATA,
    PARTITIONED,
    SOURCE_LISTS,
    TABLES,
    VECTOR_TABLES,
    choose_kind,
    name_partition,
    name_relation,
)

# The module imports pandas, which would slow down commands that need no tables.
if TYPE_CHECKING:
    from pipeline.stores.binary_copy import Kind

PLAIN, EXTERNAL = "p", "e"
"""The values of ``pg_attribute.attstorage`` for columns in the row's page and out of line."""
PATIENCE = "500ms"
"""The longest time that a change of a table waits for readers. Meanwhile all later readers wait for
the change."""
DEAD_SHARE, FEW_DEAD = 0.2, 50
"""A table is vacuumed if more than this share of its rows is dead, and more than this number."""
LOOKS_EVERY = 1.0
"""Seconds between two queries of an index's progress."""
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
    """Create the tables, columns and partitions of the workspace that do not exist yet."""
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("graphmill/tables"))))
    if not connection.execute(select(func.to_regclass(LIVE.name))).scalar():
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        register_types(connection.connection.dbapi_connection)
    METADATA.create_all(connection)
    _add_columns(connection)
    partitions = {name_partition(table, workspace): table.name for table in PARTITIONED}
    for partition in missing(connection, list(partitions)):
        _create_partition(cursor(connection), partitions[partition], partition, workspace)


def missing(connection: Connection, names: Sequence[str]) -> list[str]:
    """Return those of these tables and indexes that do not exist."""
    query = text(
        "SELECT name FROM unnest(CAST(:names AS text[])) AS name WHERE to_regclass(name) IS NULL"
    )
    return list(connection.execute(query, {"names": list(names)}).scalars())


def columns_there(connection: Connection, tables: Sequence[str]) -> set[tuple[str, str]]:
    """Return (table, column) for all columns of these tables."""
    found = connection.execute(COLUMNS, {"names": list(tables)})
    return {(table, column) for table, column in found}


def place_vectors(connection: Connection, workspace: str, dimensions: int) -> bool:
    """Set how the workspace's partitions store vectors: in the row's page if they fit, else out of
    line.

    In the page they are faster to read, and the planner knows the cost. Rows that are already
    written stay as they are. The workspace must be locked. Return False if readers have kept a
    table busy for longer than PATIENCE: then some partitions are not set.
    """
    fits_page = dimensions <= INLINE_LIMIT
    storage = PLAIN if fits_page else EXTERNAL
    storage_name = sql.SQL("PLAIN") if fits_page else sql.SQL("EXTERNAL")
    set_storage = sql.SQL("ALTER TABLE {} ALTER COLUMN embedding SET STORAGE {}")
    connection.execute(select(func.set_config("lock_timeout", PATIENCE, True)))
    names = [name_partition(table, workspace) for table in VECTOR_TABLES.values()]
    found = connection.execute(STORED_OTHERWISE, {"names": names, "storage": storage})
    for partition in found.scalars().all():
        statement = set_storage.format(sql.Identifier(partition), storage_name)
        try:
            with connection.begin_nested():
                cursor(connection).execute(statement)
        except errors.LockNotAvailable:
            return False
    return True


def _add_columns(connection: Connection) -> None:
    """Add the columns that tables of an earlier version lack.

    Existing columns are looked up first: ALTER TABLE waits for loads of other workspaces even if it
    has nothing to do.
    """
    tables = (LIVE, *TABLES.values())
    there = columns_there(connection, [table.name for table in tables])
    add_column = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
    for table in tables:
        for column in table.columns:
            if (table.name, column.name) in there:
                continue
            statement = add_column.format(
                sql.Identifier(table.name),
                sql.Identifier(column.name),
                COLUMN_TYPES[choose_kind(column)],
            )
            cursor(connection).execute(statement)


def _create_partition(driver_cursor: Any, table: str, partition: str, workspace: str) -> None:
    """Create a table and attach it as the partition of a workspace, which waits for nobody.

    CREATE TABLE ... PARTITION OF would wait for the loads of other workspaces, and all reads would
    wait for it.
    """
    names = {"table": sql.Identifier(table), "partition": sql.Identifier(partition)}
    create = sql.SQL("CREATE TABLE {partition} (LIKE {table} INCLUDING ALL)")
    attach = sql.SQL("ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES IN ({workspace})")
    driver_cursor.execute(create.format(**names))
    driver_cursor.execute(attach.format(**names, workspace=sql.Literal(workspace)))


def worn_tables(connection: Connection, workspace: str) -> list[str]:
    """Return the tables of the workspace in which too many rows are dead, see DEAD_SHARE.

    A dead row is one that was deleted or replaced, and still takes space.
    """
    names = [name_relation(table, workspace) for table in TABLES.values()]
    query = text(
        "SELECT relname FROM pg_stat_user_tables WHERE relname = ANY(:names) AND relid ="
        " to_regclass(relname::text) AND n_dead_tup > :least AND n_dead_tup > :share * (n_live_tup"
        " + n_dead_tup) ORDER BY relname"
    )
    found = connection.execute(query, {"names": names, "least": FEW_DEAD, "share": DEAD_SHARE})
    return list(found.scalars())


def vacuum(connection: Connection, name: str) -> None:
    """Free the space of a table's dead rows for new rows, while reads and loads go on.

    The connection must not be in a transaction.
    """
    cursor(connection).execute(sql.SQL("VACUUM {}").format(sql.Identifier(name)))


def execute_in_parallel(connection: Connection, statement: sql.Composed, build_mb: int) -> None:
    """Execute a statement that builds an index in ``build_mb`` MB of memory.

    Parallel workers need shared memory of the system, of which containers have little. If it does
    not suffice, the statement is executed again by one process.
    """
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
    """Build a GIN index; if it exists, merge its pending entries instead.

    New rows first go to a list of pending entries, which reads would scan one by one.
    """
    if connection.execute(select(func.to_regclass(name))).scalar():
        connection.execute(select(func.gin_clean_pending_list(cast(name, REGCLASS))))
    else:
        execute_in_parallel(connection, statement, build_mb)


def mention_index(workspace: str) -> str:
    """Return the name of the index from text units to the entities that they mention."""
    return f"{name_partition(SOURCE_LISTS, workspace)}_mentions"


def build_mention_index(connection: Connection, workspace: str, build_mb: int) -> None:
    """Build the index from text units to the entities that they mention.

    Relationships are left out: no query looks for the relationships of a text unit.
    """
    name = mention_index(workspace)
    create = sql.SQL("CREATE INDEX {} ON {} USING gin (chunk_ids) WHERE id ^@ {}")
    statement = create.format(
        sql.Identifier(name),
        sql.Identifier(name_partition(SOURCE_LISTS, workspace)),
        sql.Literal(ENTITY_ID_PREFIX),
    )
    build_or_settle(connection, name, statement, build_mb)


def document_index(workspace: str) -> str:
    """Return the name of the index of text units by their document."""
    return f"{name_partition(CHUNKS, workspace)}_documents"


def build_document_index(connection: Connection, workspace: str, build_mb: int) -> None:
    """Build the index of text units by their document, unless it exists."""
    name = document_index(workspace)
    exists = connection.execute(select(func.to_regclass(name))).scalar()
    if exists:
        return
    create = sql.SQL("CREATE INDEX {} ON {} (full_doc_id, chunk_order_index)")
    partition = name_partition(CHUNKS, workspace)
    statement = create.format(sql.Identifier(name), sql.Identifier(partition))
    execute_in_parallel(connection, statement, build_mb)


@contextmanager
def watched(connection: Connection, part: str, advanced: Advanced) -> Iterator[None]:
    """Report the progress of an index while the block builds it on this connection.

    ``part``: the name that is reported. ``advanced`` gets the table's pages that are done, and all
    of its pages. Where the server does not show the progress, only beginning and end are reported.
    """
    advanced(part, 0, 1)
    process = cursor(connection).connection.info.backend_pid
    watch = _Watch(connection.engine, process, part, advanced)
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
    """A watch over the process of the server that builds an index.

    ``pages``: all pages of the table, once they are known. ``over``: set when the index is built.
    """

    engine: Engine
    process: int
    part: str
    advanced: Advanced
    pages: int = 1
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Report the progress until the index is built, or a query fails.

        An index that is built within LOOKS_EVERY costs no connection.
        """
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
                    self._report_pages(connection)
                finally:
                    # The connection is closed: in the pool, its timeout would meet other queries.
                    connection.invalidate()

    def _report_pages(self, connection: Connection) -> None:
        """Report the pages that are done, every LOOKS_EVERY seconds."""
        while True:
            found = connection.execute(BUILDING, {"process": self.process}).first()
            if found and found.blocks_total:
                self.pages = found.blocks_total
                self.advanced(self.part, min(found.blocks_done, self.pages), self.pages)
            if self.over.wait(LOOKS_EVERY):
                return
