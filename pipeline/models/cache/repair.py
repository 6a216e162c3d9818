"""Repair a damaged SQLite cache, and remove the traces of deleted rows from a cache."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, LiteralString

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from pipeline.errors import StoreError
from pipeline.files import tell
from pipeline.models.cache.database import (
    BATCHES,
    COMPLETIONS,
    CONVERSIONS,
    EMBEDDINGS,
    Database,
    address,
    decode_leniently,
    describe_error,
)

KEPT = (COMPLETIONS, EMBEDDINGS, BATCHES, CONVERSIONS)
READS: dict[str, LiteralString] = {
    "completions": (
        "SELECT rowid, * FROM completions NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?"
    ),
    "embeddings": (
        "SELECT rowid, * FROM embeddings NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?"
    ),
    "batches": "SELECT rowid, * FROM batches NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?",
    "conversions": (
        "SELECT rowid, * FROM conversions NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?"
    ),
}
"""Statements that read a table by row number. NOT INDEXED avoids the indexes, which may be
damaged."""
ROWS_AT_ONCE = 500
MOST_UNREADABLE = 20_000
"""Number of consecutive row numbers that may fail before the rest of a table is given up."""
SECONDS_TO_WAIT = 5
SQLITE_WAITS = "PRAGMA busy_timeout=5000"
SECONDS_BETWEEN_LOOKS = 0.1
OLDER = sa.text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < :started"
)
"""Counts the transactions of other sessions that began before ``:started``."""


def mend(database: Database) -> int | None:
    """Check the whole file. If it is damaged, move it aside and make a new one of the readable
    rows.

    Call it only before the database is used, and before paying for what it lacks. Returns the
    number of rows that were saved, or None if the file was not damaged. Raises StoreError when the
    new file cannot be written.
    """
    if not database.is_sqlite or database.url is None:
        return None
    path = Path(database.url.database or "")
    if not path.is_file():
        return None
    if not path.stat().st_size:
        tell(f"{path}: empty; its content is requested again")
        return None
    fault = _find_fault(path)
    if not fault:
        return None
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    _lengthen(aside)
    saved = 0
    for table in KEPT:
        for rows in _read_rows(aside, table):
            database.upsert(table, rows)
            saved += len(rows)
    tell(
        f"{path}: damaged ({fault}); moved to {aside.name}, {saved} of its rows are kept, the"
        " others are requested again"
    )
    return saved


def _find_fault(path: Path) -> str:
    """Return what is wrong with the file; "" if it is intact or another program holds it."""
    try:
        with closing(sqlite3.connect(path, timeout=SECONDS_TO_WAIT)) as connection:
            connection.text_factory = decode_leniently
            [said] = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return "" if said == "ok" else " ".join(str(said).split())
    except sqlite3.Error as error:
        return "" if "locked" in str(error) else str(error)


def _lengthen(path: Path) -> None:
    """Extend a truncated file with zeros to the length that its header states.

    SQLite reads nothing from a file that is too short. It skips pages of zeros.
    """
    with path.open("rb") as file:
        header = file.read(100)
    # These offsets are part of SQLite's file format.
    pages = int.from_bytes(header[28:32], "big")
    page_size = int.from_bytes(header[16:18], "big")
    length = pages * page_size
    # A header that is itself damaged may state any length; 1 TiB is more than a cache has.
    is_credible = header.startswith(b"SQLite format 3") and length <= 2**40
    if is_credible and path.stat().st_size < length:
        os.truncate(path, length)


def _read_rows(path: Path, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in the order of their numbers. Rows on unreadable pages are left out."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = decode_leniently
        connection.row_factory = sqlite3.Row
        place = failed = 0
        while failed < MOST_UNREADABLE:
            found, broken = _read_rows_after(connection, table.name, place)
            if found:
                place, failed = found[-1]["rowid"], 0
                yield _complete_rows(table, found)
            elif not broken:
                return
            if broken:
                # Try again behind the next row number.
                place, failed = place + 1, failed + 1


def _read_rows_after(
    connection: sqlite3.Connection, table: str, place: int
) -> tuple[list[sqlite3.Row], bool]:
    """Read rows behind a row number. Return those before the first error, and whether there was
    one."""
    found: list[sqlite3.Row] = []
    try:
        for row in connection.execute(READS[table], (place, ROWS_AT_ONCE)):
            found.append(row)  # noqa: PERF402 - rows before an error must be kept
    except sqlite3.Error:
        return found, True
    return found, False


def _complete_rows(table: sa.Table, rows: list[sqlite3.Row]) -> list[dict[str, Any]]:
    """Convert the rows for SQLAlchemy, and leave out those that lack a required value.

    Rows of an older version lack the columns that were added later.
    """
    known = set(rows[0].keys())
    columns = [column for column in table.columns if column.name in known]
    required = [column.name for column in columns if not column.nullable]
    complete = []
    for row in rows:
        values = {column.name: _convert(column, row[column.name]) for column in columns}
        if all(values[name] is not None for name in required):
            complete.append(values)
    return complete


def _convert(column: sa.Column[Any], value: Any) -> Any:
    """Convert a value to the column's Python type. Return None for a damaged value."""
    wanted = column.type.python_type
    try:
        if value is None or isinstance(value, wanted):
            return value
        if hasattr(wanted, "fromisoformat"):
            return wanted.fromisoformat(value)
        return wanted(value)
    except (TypeError, ValueError):
        return None


class _HeldError(Exception):
    """Another program may still read what was deleted."""


def compact(database: Database, tables: Sequence[sa.Table]) -> None:
    """Rewrite the tables and empty the journal, so that no trace of deleted rows is left.

    Raises StoreError if another program reads the database meanwhile: its files may then still
    contain deleted rows.
    """
    assert database.url is not None
    held: Exception | None = None
    try:
        with database.engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        ) as connection:
            # The connection gets settings that other users of the pool must not have.
            connection.detach()
            if database.is_sqlite:
                _compact_sqlite(connection)
            else:
                _compact_postgresql(connection, tables)
    except (DBAPIError, _HeldError) as error:
        held = error
    if isinstance(held, DBAPIError) and not _is_lock_timeout(held):
        raise StoreError(describe_error(database.url, held))
    if held:
        raise StoreError(
            f"cache: {address(database.url)} is read by another program: what was deleted may still"
            " be in its files; close the other runs, purge again"
        )


def _compact_sqlite(connection: sa.Connection) -> None:
    """Rewrite the file of a SQLite database and empty its journal.

    Deleting overwrites rows in place (secure_delete), but the journal and free pages have copies.
    """
    connection.exec_driver_sql(SQLITE_WAITS)
    _empty_the_journal(connection)
    connection.exec_driver_sql("VACUUM")
    _empty_the_journal(connection)


def _empty_the_journal(connection: sa.Connection) -> None:
    """Write the journal into the database and truncate it. Raises _HeldError if a reader prevents
    that."""
    busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    if busy:
        raise _HeldError


def _compact_postgresql(connection: sa.Connection, tables: Sequence[sa.Table]) -> None:
    """Rewrite the tables of a PostgreSQL database, once no older transaction can see deleted
    rows."""
    connection.execute(sa.select(sa.func.set_config("lock_timeout", f"{SECONDS_TO_WAIT}s", False)))
    _await_older_transactions(connection)
    for table in tables:
        connection.execute(sa.DDL("VACUUM FULL %(table)s").against(table))


def _await_older_transactions(connection: sa.Connection) -> None:
    """Wait until all transactions that are open now have ended. Raises _HeldError after a time
    limit.

    VACUUM keeps rows that a transaction from before their deletion could still see.
    """
    started = connection.execute(sa.text("SELECT clock_timestamp()")).scalar()
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while connection.execute(OLDER, {"started": started}).scalar():
        if time.monotonic() > deadline:
            raise _HeldError
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _is_lock_timeout(error: DBAPIError) -> bool:
    said = str(error.orig)
    return "locked" in said or "lock timeout" in said
