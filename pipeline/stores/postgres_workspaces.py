"""The workspaces of a PostgreSQL database: what they show, and how one is dropped."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from psycopg import sql
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, column, delete, func, inspect, literal_column, select, table

from pipeline.schema_version import UNMARKED
from pipeline.stores.base import Live, read_probe, read_states
from pipeline.stores.tables import LIVE, TABLES, VECTOR_TABLES, partition_of

Transaction = Callable[[], AbstractContextManager[Connection]]
PG_CLASS = table("pg_class", column("relname"), column("oid"))
PATIENCE = "1s"
"""How long a partition's drop may wait for the parent table, since all reads that come after it wait as well."""


def workspaces(connection: Connection, only: str | None = None) -> dict[str, Live]:
    """What each workspace shows, or the one named, by name; also what a newer version of the software has loaded."""
    if not connection.execute(select(func.to_regclass(LIVE.name))).scalar():
        return {}
    query = select(literal_column("*")).select_from(LIVE)  # an earlier version's table has fewer columns
    query = query if only is None else query.where(LIVE.c.workspace == only)
    found = connection.execute(query.order_by(LIVE.c.workspace.collate("C"))).mappings()
    return {row["workspace"]: _live(dict(row)) for row in found}


def drop(transaction: Transaction, workspace: str) -> dict[str, int]:
    """Delete the workspace in one transaction: rows deleted, by table. Its partitions go after that, each where
    nobody reads or loads the table just then; an empty one that is left is used again."""
    with transaction() as connection:
        lock(connection, workspace)
        there = set(inspect(connection).get_table_names())
        if LIVE.name in there:
            connection.execute(delete(LIVE).where(LIVE.c.workspace == workspace))
        counts = {
            name: connection.execute(delete(rows).where(rows.c.workspace == workspace)).rowcount
            for name, rows in TABLES.items()
            if rows.name in there
        }
    for rows in VECTOR_TABLES.values():
        _drop_partition(transaction, partition_of(rows, workspace), workspace)
    return counts


def drop_rows(transaction: Transaction, workspace: str, tables: Sequence[str]) -> dict[str, int]:
    """Delete the workspace's rows in some of the tables: rows deleted, by table."""
    with transaction() as connection:
        lock(connection, workspace)
        there = set(inspect(connection).get_table_names())
        return {
            name: connection.execute(delete(TABLES[name]).where(TABLES[name].c.workspace == workspace)).rowcount
            for name in tables
            if TABLES[name].name in there
        }


def lock(connection: Connection, name: str) -> None:
    """Wait until nobody else has the lock; it ends with the transaction. The one named as a workspace is held by who
    writes or drops its rows."""
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"graphmill/{name}", 0))))


def has_partitions(connection: Connection, workspace: str) -> bool:
    """Whether a load has where to write. To be asked under the lock: a drop may have come in between."""
    names = [partition_of(rows, workspace) for rows in VECTOR_TABLES.values()]
    return set(names) == _existing(connection, names)


def _drop_partition(transaction: Transaction, partition: str, workspace: str) -> None:
    """In a transaction of its own: two parents' locks, held at once, would meet another's in the other order."""
    with transaction() as connection:
        lock(connection, workspace)
        connection.execute(select(func.set_config("lock_timeout", PATIENCE, True)))
        with suppress(LockNotAvailable), connection.begin_nested():
            if _existing(connection, [partition]) and _is_empty(connection, partition):
                cursor: Any = connection.connection.cursor()
                cursor.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(partition)))


def _existing(connection: Connection, names: list[str]) -> set[str]:
    """From the catalog itself: to_regclass would answer out of what the session knew before it got the lock."""
    query = select(PG_CLASS.c.relname).where(
        PG_CLASS.c.relname == func.any(names), func.pg_table_is_visible(PG_CLASS.c.oid)
    )
    return set(connection.execute(query).scalars())


def _is_empty(connection: Connection, partition: str) -> bool:
    """Another load may have filled it since."""
    cursor: Any = connection.connection.cursor()
    cursor.execute(sql.SQL("SELECT NOT EXISTS (SELECT FROM {})").format(sql.Identifier(partition)))
    return cursor.fetchone()[0]


def _live(row: Mapping[str, Any]) -> Live:
    return Live(
        row["workflow"],
        row["version"],
        row["embedding"],
        row["dimensions"],
        read_states(row.get("tables")),
        row.get("schema_version") or UNMARKED,
        read_probe(row.get("probe")),
        owner=row.get("owner") or "",
        place=row.get("place") or "",
    )
