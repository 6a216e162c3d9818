"""A workspace that a graphmill of schema 6 has loaded, made one of this schema by SQL, in the
transaction of its next load: cut off, it is as it was.

Schema 6 kept lists of sources beside the vectors and in the graph, where they were part of a row's
hash. They are copied to the table that has them now. No other row is written, for a vector would be
indexed anew: what the row_hash beside it would be now is kept in a table of its own.
"""

from contextlib import suppress

import pandas as pd
from psycopg import sql
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Table, delete, exists, func, select, text

from pipeline.stores.base import LAYOUT
from pipeline.stores.binary_copy import copy_stream
from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.maintenance import columns_there
from pipeline.stores.postgres.rows import rows
from pipeline.stores.postgres.schema import (
    EARLIER_HASHES,
    EDGES,
    ENTITIES,
    LIVE,
    NODES,
    RELATIONSHIPS,
    SOURCE_LISTS,
)

CONVERTIBLE = 6
"""The schema whose tables are known here; one before is loaded whole."""
EARLIER_COLUMNS = {
    ENTITIES: ["chunk_ids"],
    RELATIONSHIPS: ["chunk_ids"],
    NODES: ["source_id"],
    EDGES: ["source_id", "rank"],
}
PATIENCE = "500ms"
"""How long dropping a column may wait for those who read the table, since all who come after it
wait as well."""
COPY_LISTS = sql.SQL(
    "INSERT INTO {sources} (workspace, id, chunk_ids, row_hash) "
    "SELECT workspace, id, chunk_ids, {no_hash} || id FROM {rows} WHERE workspace = {workspace}"
)
NO_HASH = "list of "
"""What stands for the hash of a list that was copied, before its id."""
COPY_HASHES = "COPY graphmill_earlier_hashes (workspace, earlier, now) FROM STDIN (FORMAT BINARY)"


def convert(connection: Connection, workspace: str) -> None:
    """Where there is something to convert. The workspace must be locked, and its tables those of
    this version."""
    version = select(LIVE.c.schema_version).where(LIVE.c.workspace == workspace)
    if connection.execute(version).scalar() != CONVERTIBLE:
        return
    connection.execute(delete(SOURCE_LISTS).where(SOURCE_LISTS.c.workspace == workspace))
    connection.execute(delete(EARLIER_HASHES).where(EARLIER_HASHES.c.workspace == workspace))
    for table in (ENTITIES, RELATIONSHIPS):
        statement = COPY_LISTS.format(
            sources=sql.Identifier(SOURCE_LISTS.name),
            rows=sql.Identifier(table.name),
            no_hash=sql.Literal(NO_HASH),
            workspace=sql.Literal(workspace),
        )
        cursor(connection).execute(statement)
    for table in (SOURCE_LISTS, *EARLIER_COLUMNS):
        _keep_hashes(connection, table, workspace)
    connection.execute(text("ANALYZE graphmill_earlier_hashes"))


def _keep_hashes(connection: Connection, table: Table, workspace: str) -> None:
    """What the hash beside each row would be now, by what it is."""
    parts = [part[["row_hash", "content_hash"]] for part in rows(connection, table, workspace, [])]
    if not parts:
        return
    pairs = pd.concat(parts, ignore_index=True).drop_duplicates("row_hash")
    with cursor(connection).copy(COPY_HASHES) as copy:
        for _, piece in copy_stream(
            pairs, {"row_hash": "text", "content_hash": "text"}, [workspace]
        ):
            copy.write(piece)


def drop_earlier_columns(connection: Connection) -> None:
    """What only graphmills before this schema read, when no workspace is of theirs any more; where
    nobody uses a table just then, else after the next load."""
    earlier = exists().where(func.coalesce(LIVE.c.schema_version, 0) < LAYOUT)
    there = columns_there(connection, [table.name for table in EARLIER_COLUMNS])
    connection.execute(select(func.set_config("lock_timeout", PATIENCE, True)))
    for table, columns in EARLIER_COLUMNS.items():
        found = [name for name in columns if (table.name, name) in there]
        if found and not connection.execute(select(earlier)).scalar():
            drops = sql.SQL(", ").join(
                sql.SQL("DROP COLUMN {}").format(sql.Identifier(name)) for name in found
            )
            statement = sql.SQL("ALTER TABLE {} {}").format(sql.Identifier(table.name), drops)
            with suppress(LockNotAvailable), connection.begin_nested():
                cursor(connection).execute(statement)
