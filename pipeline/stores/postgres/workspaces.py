"""The workspaces of a PostgreSQL database: read what they show, lock one, and drop one."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from psycopg import sql
from psycopg.errors import (
    DependentObjectsStillExist,
    LockNotAvailable,
    UndefinedColumn,
    UndefinedTable,
)
from sqlalchemy import (
    Connection,
    column,
    delete,
    func,
    inspect,
    literal_column,
    select,
    table,
    text,
)
from sqlalchemy.exc import DBAPIError, ProgrammingError

from pipeline.stores.base import Live, Waits, read_live, silent
from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.lightrag_views import make_views
from pipeline.stores.postgres.schema import (
    DERIVED_TABLES,
    LIVE,
    PARTITIONED,
    TABLES,
    name_partition,
)

Transaction = Callable[[], AbstractContextManager[Connection]]
PG_CLASS = table("pg_class", column("relname"), column("oid"))
SHOWN = [column for column in LIVE.c if column is not LIVE.c.lexical]
"""The columns that are read for each question. The statistics of words are large: they are read
once for each load."""
PATIENCE = "1s"
"""The longest time that a partition's drop waits for the parent table. Meanwhile all later reads
wait for the drop."""
END_WITH_CLIENT = text("""
    SELECT set_config(name, value, true)
    FROM pg_settings JOIN (VALUES
        ('client_connection_check_interval', '2s'),
        ('tcp_keepalives_idle', '60'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count',
            '6'),
        ('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0')
    ) AS wanted (name, value) USING (name)
    """)
HOLDER = text("""
    SELECT activity.pid, activity.application_name,
           CASE activity.state
               WHEN 'idle in transaction' THEN activity.state_change
               ELSE activity.xact_start
           END AS since
    FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)
    WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1
      AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (held.classid::bigint << 32 | held.objid::bigint) = hashtextextended(:name, 0)
    """)


def workspaces(connection: Connection, only: str | None = None) -> dict[str, Live]:
    """Return, by name, what each workspace shows, or only the one named ``only``.

    Workspaces that a newer version of the software has loaded are included.
    """
    if not connection.execute(select(func.to_regclass(LIVE.name))).scalar():
        return {}
    # All columns, not those of LIVE: the table of an earlier version has fewer.
    query = select(literal_column("*")).select_from(LIVE)
    if only is not None:
        query = query.where(LIVE.c.workspace == only)
    found = connection.execute(query.order_by(LIVE.c.workspace.collate("C"))).mappings()
    return {row["workspace"]: read_live(dict(row)) for row in found}


def shown_at_begin(connection: Connection, name: str) -> Live | None:
    """Return what the workspace shows; the transaction must not have done anything yet.

    The table is read without checking that it exists and has all columns. Only if this fails, the
    transaction is rolled back and ``workspaces`` checks it.
    """
    try:
        row = connection.execute(select(*SHOWN).where(LIVE.c.workspace == name)).mappings().first()
    except ProgrammingError as error:
        if not isinstance(error.orig, UndefinedTable | UndefinedColumn):
            raise
        connection.connection.rollback()
        return workspaces(connection, name).get(name)
    return read_live(dict(row)) if row else None


def drop(transaction: Transaction, workspace: str) -> dict[str, int]:
    """Delete the rows of the workspace in one transaction; return their numbers by table.

    Its partitions are dropped afterwards, each in a transaction of its own. A partition is left if
    its table is being read or loaded just then; the next load uses the empty partition again.
    """
    with transaction() as connection:
        lock(connection, workspace)
        there = set(inspect(connection).get_table_names())
        for record in (LIVE, *DERIVED_TABLES.values()):
            if record.name in there:
                connection.execute(delete(record).where(record.c.workspace == workspace))
        counts: dict[str, int] = {}
        for name, rows in TABLES.items():
            if rows.name in there:
                deleted = connection.execute(delete(rows).where(rows.c.workspace == workspace))
                counts[name] = deleted.rowcount
        if LIVE.name in there:
            make_views(connection, workspaces)
    for rows in PARTITIONED:
        _drop_partition(transaction, name_partition(rows, workspace), workspace)
    return counts


def lock(connection: Connection, name: str, waits: Waits = silent) -> None:
    """Take the lock ``name`` for the transaction; wait until nobody else has it.

    The lock named like a workspace is held by whoever writes or drops its rows. The lock ends with
    the transaction. If this process dies, the server ends the transaction, even in the middle of a
    statement.
    """
    _end_with_client(connection)
    key = func.hashtextextended(f"graphmill/{name}", 0)
    if not connection.execute(select(func.pg_try_advisory_xact_lock(key))).scalar():
        workspace = name.partition("/")[0]
        waits(
            f"workspace '{workspace}' is held by {_holder(connection, name)}; waiting for that"
            " to end"
        )
        connection.execute(select(func.pg_advisory_xact_lock(key)))


def _end_with_client(connection: Connection) -> None:
    """Make the server end statements of this transaction if this client dies.

    Otherwise a killed client's statement, such as an index build over all vectors, keeps its locks
    until it ends. If the client's machine is gone, the server's system would notice only after
    hours. Settings that the server or its system does not support are left out. The check of the
    client's connection needs PostgreSQL 14 or later, and does not work on Windows.
    """
    with suppress(DBAPIError), connection.begin_nested():
        connection.execute(END_WITH_CLIENT)


def _holder(connection: Connection, name: str) -> str:
    """Describe who has the lock: name, time and process.

    The server may hide the time, and more, from this role.
    """
    found = connection.execute(HOLDER, {"name": f"graphmill/{name}"}).first()
    if found is None:
        return "another client, which just let go"
    if found.since:
        since = f"since {found.since:%Y-%m-%d %H:%M:%S %Z}"
    else:
        since = "since a time that this role may not see"
    return f"'{found.application_name}' {since} (process {found.pid} of PostgreSQL)"


def has_partitions(connection: Connection, workspace: str) -> bool:
    """Return whether all partitions of the workspace exist, so that a load can write.

    The caller must hold the lock of the workspace: a drop could remove partitions meanwhile.
    """
    names = [name_partition(rows, workspace) for rows in PARTITIONED]
    return set(names) == _existing(connection, names)


def _drop_partition(transaction: Transaction, partition: str, workspace: str) -> None:
    """Drop a partition if it is empty and its table is not in use.

    Each is dropped in a transaction of its own. The locks of two parent tables, held at once, could
    meet those of another client in the other order: a deadlock.
    """
    with transaction() as connection:
        lock(connection, workspace)
        connection.execute(select(func.set_config("lock_timeout", PATIENCE, True)))
        # A view that could not be replaced may still depend on the partition.
        with suppress(LockNotAvailable, DependentObjectsStillExist), connection.begin_nested():
            if _existing(connection, [partition]) and _is_empty(connection, partition):
                statement = sql.SQL("DROP TABLE {}").format(sql.Identifier(partition))
                cursor(connection).execute(statement)


def _existing(connection: Connection, names: list[str]) -> set[str]:
    """Return those of these tables that exist.

    They are read from the catalog itself. ``to_regclass`` would answer from what the session knew
    before it got the lock.
    """
    query = select(PG_CLASS.c.relname).where(
        PG_CLASS.c.relname == func.any(names), func.pg_table_is_visible(PG_CLASS.c.oid)
    )
    return set(connection.execute(query).scalars())


def _is_empty(connection: Connection, partition: str) -> bool:
    """Return whether a partition has no row: another load may have filled it meanwhile."""
    query = sql.SQL("SELECT NOT EXISTS (SELECT FROM {})").format(sql.Identifier(partition))
    return cursor(connection).execute(query).fetchone()[0]
