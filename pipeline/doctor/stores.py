"""PostgreSQL: that it answers, has pgvector, and lets us make tables. Whatever is tried is rolled back."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

from sqlalchemy import text

from pipeline.adapters import EMBEDDED, EMBEDDED_FOLDER, postgres_store
from pipeline.doctor.finding import Finding, guarded
from pipeline.settings import Settings
from pipeline.stores.postgres import PostgresStore

ITERATIVE_SCANS_SINCE = (0, 8)


def examine_postgres(root: Path, settings: Settings) -> Iterator[Finding]:
    store = postgres_store(settings, root)
    try:
        with store.connection() as connection:
            version = connection.execute(text("SHOW server_version")).scalar_one()
        embedded = f", embedded in {EMBEDDED_FOLDER}" if settings.stores.postgres.url == EMBEDDED else ""
        as_root = ", run as the system user pgserver because you are root" if embedded and os.geteuid() == 0 else ""
        yield Finding("stores", "postgres", "ok", f"PostgreSQL {version}{embedded}{as_root}")
        yield from guarded("stores", "pgvector", lambda: _pgvector(store))
        yield from guarded("stores", "postgres rights", lambda: _rights(store))
    finally:
        store.close()


def _pgvector(store: PostgresStore) -> Iterator[Finding]:
    with store.connection() as connection:
        installed = connection.execute(text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")).scalar()
        packaged = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
        available = connection.execute(text(packaged)).scalar()
    version = installed or available
    if version is None:
        action = "install the package pgvector on the database's machine (image: pgvector/pgvector)"
        yield Finding("stores", "pgvector", "failed", "the server does not have the extension", action)
        return
    if installed is None:
        _try_and_take_back(store, "CREATE EXTENSION vector")
    fact = f"pgvector {version}" + ("" if installed else ", made at the first load")
    if _numbers(version) < ITERATIVE_SCANS_SINCE:
        fact += ": without iterative scans, which 0.8 has, a search may find too little"
        yield Finding("stores", "pgvector", "warning", fact, "upgrade it, then ALTER EXTENSION vector UPDATE")
    else:
        yield Finding("stores", "pgvector", "ok", fact)


def _rights(store: PostgresStore) -> Iterator[Finding]:
    _try_and_take_back(store, "CREATE TABLE graphmill_doctor (id text PRIMARY KEY)")
    yield Finding("stores", "postgres rights", "ok", "tables can be made")


def _try_and_take_back(store: PostgresStore, statement: LiteralString) -> None:
    """Raises StoreError when the database refuses."""
    with store.connection() as connection, connection.begin_nested() as savepoint:
        connection.execute(text(statement))
        savepoint.rollback()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
