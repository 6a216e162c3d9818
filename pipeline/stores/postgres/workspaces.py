"""The workspaces of a PostgreSQL database: what they show, and how one is dropped."""

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
    partition_of,
)

Transaction = Callable[[], AbstractContextManager[Connection]]
PG_CLASS = table("pg_class", column("relname"), column("oid"))
SHOWN = [column for column in LIVE.c if column is not LIVE.c.lexical]
"""Without what questions read once a load: it is large."""
PATIENCE = "1s"
"""How long a partition's drop may wait for the parent table, since all reads that come after it
wait as well."""
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
           CASE activity.state WHEN 'idle in transaction' THEN activity.state_change ELSE activity.xact_start END
           AS since
    FROM pg_locks AS held JOIN pg_stat_activity AS activity USING (pid)
    WHERE held.locktype = 'advisory' AND held.granted AND held.objsubid = 1
      AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (held.classid::bigint << 32 | held.objid::bigint) = hashtextextended(:name, 0)
    """)  # noqa: E501


def workspaces(connection: Connection, only: str | None = None) -> dict[str, Live]:
    """What each workspace shows, or the one named, by name; also what a newer version of the
    software has loaded."""
    return (
        _found(connection, only)
        if connection.execute(select(func.to_regclass(LIVE.name))).scalar()
        else {}
    )


def shown_at_begin(connection: Connection, name: str) -> Live | None:
    """What the workspace shows, in a transaction that has done nothing yet; that its table is
    there, and is this version's, is not asked."""
    try:
        row = connection.execute(select(*SHOWN).where(LIVE.c.workspace == name)).mappings().first()
    except ProgrammingError as error:
        if not isinstance(error.orig, UndefinedTable | UndefinedColumn):
            raise
        connection.connection.rollback()
        return workspaces(connection, name).get(name)
    return read_live(dict(row)) if row else None


def _found(connection: Connection, only: str | None) -> dict[str, Live]:
    query = select(literal_column("*")).select_from(
        LIVE
    )  # an earlier version's table has fewer columns
    query = query if only is None else query.where(LIVE.c.workspace == only)
    found = connection.execute(query.order_by(LIVE.c.workspace.collate("C"))).mappings()
    return {row["workspace"]: read_live(dict(row)) for row in found}


def drop(transaction: Transaction, workspace: str) -> dict[str, int]:
    """Delete the workspace in one transaction: rows deleted, by table. Its partitions go after
    that, each where nobody reads or loads the table just then; an empty one that is left is used
    again."""
    with transaction() as connection:
        lock(connection, workspace)
        there = set(inspect(connection).get_table_names())
        if LIVE.name in there:
            connection.execute(delete(LIVE).where(LIVE.c.workspace == workspace))
        for made in DERIVED_TABLES.values():
            if made.name in there:
                connection.execute(delete(made).where(made.c.workspace == workspace))
        counts = {
            name: connection.execute(delete(rows).where(rows.c.workspace == workspace)).rowcount
            for name, rows in TABLES.items()
            if rows.name in there
        }
        if LIVE.name in there:
            make_views(connection, workspaces)
    for rows in PARTITIONED:
        _drop_partition(transaction, partition_of(rows, workspace), workspace)
    return counts


def lock(connection: Connection, name: str, waits: Waits = silent) -> None:
    """Wait until nobody else has the lock; it ends with the transaction, and that with this
    process, whatever the server is at. The one named as a workspace is held by who writes or drops
    its rows."""
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
    """Else what a killed client has begun, such as an index over all vectors, goes on to its end,
    its locks held; and the locks of one whose machine is gone stay until the server's system
    notices, which takes hours. For the rest of the transaction, as far as the server and its system
    can (the first: PostgreSQL 14 or later, not on Windows)."""
    with suppress(DBAPIError), connection.begin_nested():
        connection.execute(END_WITH_CLIENT)


def _holder(connection: Connection, name: str) -> str:
    """Who has the lock; not much of it where the server tells this role nothing of others."""
    found = connection.execute(HOLDER, {"name": f"graphmill/{name}"}).first()
    if found is None:
        return "another client, which just let go"
    since = (
        f"since {found.since:%Y-%m-%d %H:%M:%S %Z}"
        if found.since
        else "since a time that this role may not see"
    )
    return f"'{found.application_name}' {since} (process {found.pid} of PostgreSQL)"


def has_partitions(connection: Connection, workspace: str) -> bool:
    """Whether a load has where to write. To be asked under the lock: a drop may have come in
    between."""
    names = [partition_of(rows, workspace) for rows in PARTITIONED]
    return set(names) == _existing(connection, names)


def _drop_partition(transaction: Transaction, partition: str, workspace: str) -> None:
    """In a transaction of its own: two parents' locks, held at once, would meet another's in the
    other order."""
    with transaction() as connection:
        lock(connection, workspace)
        connection.execute(select(func.set_config("lock_timeout", PATIENCE, True)))
        # A view that could not be made anew is made of it still.
        with suppress(LockNotAvailable, DependentObjectsStillExist), connection.begin_nested():
            if _existing(connection, [partition]) and _is_empty(connection, partition):
                cursor(connection).execute(
                    sql.SQL("DROP TABLE {}").format(sql.Identifier(partition))
                )


def _existing(connection: Connection, names: list[str]) -> set[str]:
    """From the catalog itself: to_regclass would answer out of what the session knew before it got
    the lock."""
    query = select(PG_CLASS.c.relname).where(
        PG_CLASS.c.relname == func.any(names), func.pg_table_is_visible(PG_CLASS.c.oid)
    )
    return set(connection.execute(query).scalars())


def _is_empty(connection: Connection, partition: str) -> bool:
    """Another load may have filled it since."""
    query = sql.SQL("SELECT NOT EXISTS (SELECT FROM {})").format(sql.Identifier(partition))
    return cursor(connection).execute(query).fetchone()[0]
