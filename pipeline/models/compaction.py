"""Deleted rows leave the files of a database too."""

import time
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from pipeline.errors import StoreError
from pipeline.models.database import Database, address, complaint

SECONDS_TO_WAIT = 5
SQLITE_WAITS = "PRAGMA busy_timeout=5000"
SECONDS_BETWEEN_LOOKS = 0.1
OLDER = sa.text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < :started"
)


class _HeldError(Exception):
    """Somebody may still read what was deleted."""


def compact(database: Database, tables: Sequence[sa.Table]) -> None:
    """Rewrite the tables and empty the journal. Raises StoreError when another program reads the database
    meanwhile: then what was deleted may still be in its files."""
    assert database.url is not None
    held: Exception | None = None
    try:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.detach()  # its settings are not for others
            if database.is_sqlite:
                _compact_sqlite(connection)
            else:
                _compact_postgresql(connection, tables)
    except (DBAPIError, _HeldError) as error:
        held = error
    if isinstance(held, DBAPIError) and not _waited_in_vain(held):
        raise StoreError(complaint(database.url, held))
    if held:
        raise StoreError(
            f"cache: {address(database.url)} is read by another program: what was deleted may still be in its "
            "files; close the other runs, purge again"
        )


def _compact_sqlite(connection: sa.Connection) -> None:
    """Deleted rows are overwritten in place (secure_delete); the journal and free pages have them too."""
    connection.exec_driver_sql(SQLITE_WAITS)
    _empty_the_journal(connection)
    connection.exec_driver_sql("VACUUM")
    _empty_the_journal(connection)


def _empty_the_journal(connection: sa.Connection) -> None:
    busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    if busy:
        raise _HeldError


def _compact_postgresql(connection: sa.Connection, tables: Sequence[sa.Table]) -> None:
    connection.execute(sa.select(sa.func.set_config("lock_timeout", f"{SECONDS_TO_WAIT}s", False)))
    _await_older_transactions(connection)
    for table in tables:
        connection.execute(sa.DDL("VACUUM FULL %(table)s").against(table))


def _await_older_transactions(connection: sa.Connection) -> None:
    """VACUUM keeps what a transaction that began before the deletion could still see."""
    started = connection.execute(sa.text("SELECT clock_timestamp()")).scalar()
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while connection.execute(OLDER, {"started": started}).scalar():
        if time.monotonic() > deadline:
            raise _HeldError
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _waited_in_vain(error: DBAPIError) -> bool:
    said = str(error.orig)
    return "locked" in said or "lock timeout" in said
