"""The file of a SQLite cache: mended when something has damaged it, and rid of deleted rows."""

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
    complaint,
    lenient_text,
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
ROWS_AT_ONCE = 500
MOST_UNREADABLE = 20_000
"""Row numbers in sequence that may fail before the rest of a table is given up."""
SECONDS_TO_WAIT = 5
SQLITE_WAITS = "PRAGMA busy_timeout=5000"
SECONDS_BETWEEN_LOOKS = 0.1
OLDER = sa.text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < :started"
)


def mend(database: Database) -> int | None:
    """Look at the whole file and, where it is damaged, make a new one of what can be read. Returns
    how many rows that were; None where nothing was to be done. Only before the database is used,
    for a caller who is about to pay for what is not in it. Raises StoreError when the new file
    cannot be written."""
    if not database.is_sqlite or database.url is None:
        return None
    path = Path(database.url.database or "")
    if not path.is_file():
        return None
    if not path.stat().st_size:
        tell(f"{path}: empty; what it held is asked again")
        return None
    if not (fault := _fault(path)):
        return None
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    _lengthen(aside)
    saved = 0
    for table in KEPT:
        for rows in _readable(aside, table):
            database.upsert(table, rows)
            saved += len(rows)
    tell(
        f"{path}: damaged ({fault}); moved to {aside.name}, {saved} of its rows are kept, the"
        " others are asked again"
    )
    return saved


def _fault(path: Path) -> str:
    """Empty for a whole file, and for one that another program holds."""
    try:
        with closing(sqlite3.connect(path, timeout=SECONDS_TO_WAIT)) as connection:
            connection.text_factory = lenient_text
            [said] = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return "" if said == "ok" else " ".join(str(said).split())
    except sqlite3.Error as error:
        return "" if "locked" in str(error) else str(error)


def _lengthen(path: Path) -> None:
    """SQLite reads nothing of a file that is shorter than its header says; of zeros it leaves out
    the pages."""
    with path.open("rb") as file:
        header = file.read(100)
    pages, page_size = int.from_bytes(header[28:32], "big"), int.from_bytes(header[16:18], "big")
    if header.startswith(b"SQLite format 3") and path.stat().st_size < pages * page_size <= 2**40:
        os.truncate(path, pages * page_size)


def _readable(path: Path, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """The rows in the order of their numbers; those on pages that cannot be read are left out."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lenient_text
        connection.row_factory = sqlite3.Row
        place = failed = 0
        while failed < MOST_UNREADABLE:
            found, broken = _rows_after(connection, table.name, place)
            if found:
                place, failed = found[-1]["rowid"], 0
                yield _whole(table, found)
            elif not broken:
                return
            if broken:
                place, failed = place + 1, failed + 1


def _rows_after(
    connection: sqlite3.Connection, table: str, place: int
) -> tuple[list[sqlite3.Row], bool]:
    """As far as they can be read, and whether there was one that cannot."""
    found: list[sqlite3.Row] = []
    try:
        for row in connection.execute(READS[table], (place, ROWS_AT_ONCE)):
            found.append(row)  # noqa: PERF402 - those before the error are kept
    except sqlite3.Error:
        return found, True
    return found, False


def _whole(table: sa.Table, rows: list[sqlite3.Row]) -> list[dict[str, Any]]:
    """Rows with a key and all that the table requires; an older version's lack the columns that
    came later."""
    known = set(rows[0].keys())
    columns = [column for column in table.columns if column.name in known]
    read = [{column.name: _value(column, row[column.name]) for column in columns} for row in rows]
    return [
        row
        for row in read
        if all(row[column.name] is not None for column in columns if not column.nullable)
    ]


def _value(column: sa.Column[Any], value: Any) -> Any:
    """As SQLAlchemy wants it; None for what is none."""
    wanted = column.type.python_type
    try:
        if value is None or isinstance(value, wanted):
            return value
        return wanted.fromisoformat(value) if hasattr(wanted, "fromisoformat") else wanted(value)
    except (TypeError, ValueError):
        return None


class _HeldError(Exception):
    """Somebody may still read what was deleted."""


def compact(database: Database, tables: Sequence[sa.Table]) -> None:
    """Rewrite the tables and empty the journal. Raises StoreError when another program reads the
    database meanwhile: then what was deleted may still be in its files."""
    assert database.url is not None
    held: Exception | None = None
    try:
        with database.engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        ) as connection:
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
            f"cache: {address(database.url)} is read by another program: what was deleted may still"
            " be in its files; close the other runs, purge again"
        )


def _compact_sqlite(connection: sa.Connection) -> None:
    """Deleted rows are overwritten in place (secure_delete); the journal and free pages have them
    too."""
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
