"""Examines PostgreSQL, Neo4j, the cache of replies, and the owner of the workspace. Every change
that is tried is rolled back."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

import sqlalchemy as sa
from sqlalchemy import text

from pipeline.doctor.finding import Finding, guarded
from pipeline.errors import StoreError, in_words
from pipeline.runs.adapters import (
    EMBEDDED,
    EMBEDDED_FOLDER,
    neo4j_store,
    open_cache,
    open_stores,
    postgres_store,
)
from pipeline.runs.owner import has_owner, known_owner, settle
from pipeline.settings.schema import Settings
from pipeline.stores.base import Store
from pipeline.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from pipeline.stores.neo4j.store import Neo4jStore


ITERATIVE_SCANS_SINCE = (0, 8)


def examine_postgres(root: Path, settings: Settings) -> Iterator[Finding]:
    with closing(postgres_store(settings, root)) as store:
        with store.connection() as connection:
            version = connection.execute(text("SHOW server_version")).scalar_one()
        fact = f"PostgreSQL {version}"
        if settings.stores.postgres.url == EMBEDDED:
            fact += f", embedded in {EMBEDDED_FOLDER}"
            if os.geteuid() == 0:
                fact += ", run as the system user pgserver because you are root"
        yield Finding("stores", "postgres", "ok", fact)
        yield from guarded("stores", "pgvector", lambda: _pgvector(store))
        yield from guarded("stores", "postgres rights", lambda: _postgres_rights(store))


def _pgvector(store: PostgresStore) -> Iterator[Finding]:
    with store.connection() as connection:
        installed = connection.execute(
            text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        ).scalar()
        packaged = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
        available = connection.execute(text(packaged)).scalar()
    version = installed or available
    if version is None:
        action = "install the package pgvector on the database's machine (image: pgvector/pgvector)"
        yield Finding(
            "stores", "pgvector", "failed", "the server does not have the extension", action
        )
        return
    if installed is None:
        _try_and_roll_back(store, "CREATE EXTENSION vector")
    fact = f"pgvector {version}" + ("" if installed else ", made at the first load")
    if _version_numbers(version) < ITERATIVE_SCANS_SINCE:
        fact += ": without iterative scans, which 0.8 has, a search may find too little"
        yield Finding(
            "stores", "pgvector", "warning", fact, "upgrade it, then ALTER EXTENSION vector UPDATE"
        )
    else:
        yield Finding("stores", "pgvector", "ok", fact)


def _postgres_rights(store: PostgresStore) -> Iterator[Finding]:
    _try_and_roll_back(store, "CREATE TABLE graphmill_doctor (id text PRIMARY KEY)")
    yield Finding("stores", "postgres rights", "ok", "tables can be made")


def _try_and_roll_back(store: PostgresStore, statement: LiteralString) -> None:
    """Execute a statement and roll it back. Raises StoreError if the database refuses it."""
    with store.connection() as connection, connection.begin_nested() as savepoint:
        connection.execute(text(statement))
        savepoint.rollback()


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


LEAST_VERSION = (5, 26)
VERSION = """
    CALL dbms.components() YIELD name, versions, edition WHERE name = 'Neo4j Kernel'
    RETURN versions[0], edition
    """


def examine_neo4j(settings: Settings) -> Iterator[Finding]:
    with closing(neo4j_store(settings)) as store:
        yield from guarded("stores", "neo4j", lambda: _version(store))
        if "driver" in store.__dict__:
            yield from guarded("stores", "neo4j rights", lambda: _neo4j_rights(store))


def _version(store: "Neo4jStore") -> Iterator[Finding]:
    with store.driver.session(database=store.database) as session:
        version, edition = session.run(VERSION).single(strict=True).values()
    fact = f"Neo4j {version}, {edition} edition, database '{store.database}'"
    major_and_minor = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if major_and_minor < LEAST_VERSION:
        yield Finding(
            "stores",
            "neo4j",
            "failed",
            fact,
            "upgrade it to 5.26 or later, or set stores.graph: postgres",
        )
    else:
        yield Finding("stores", "neo4j", "ok", fact)


def _neo4j_rights(store: "Neo4jStore") -> Iterator[Finding]:
    from pipeline.stores.neo4j import cypher

    with (
        store.driver.session(database=store.database) as session,
        session.begin_transaction() as transaction,
    ):
        for constraint in cypher.CONSTRAINTS:
            transaction.run(constraint).consume()
        transaction.rollback()
    yield Finding("stores", "neo4j rights", "ok", "constraints can be made")


SQLITE = "sqlite:///"
SECONDS_TO_WAIT_FOR_A_LOCK = 5


def examine_cache(root: Path, settings: Settings) -> Iterator[Finding]:
    """Examine the cache of replies. Raises SettingsError for a URL that cannot hold replies."""
    url = settings.cache
    open_cache(settings, root).close()
    if not url:
        action = "set cache: sqlite:///data/cache.sqlite unless you want every call paid for again"
        yield Finding("cache", "replies", "warning", "nothing is remembered", action)
    elif url.startswith(SQLITE):
        yield from _sqlite(root / url.removeprefix(SQLITE))
    else:
        yield from _server(url)


def _sqlite(path: Path) -> Iterator[Finding]:
    if not path.exists():
        yield Finding("cache", "replies", "ok", f"{path.name} is made by the first call")
        return
    try:
        with closing(sqlite3.connect(path, timeout=SECONDS_TO_WAIT_FOR_A_LOCK)) as connection:
            [mode] = connection.execute("PRAGMA journal_mode").fetchone()
            results = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
        problems = [result for result in results if result != "ok"]
    except sqlite3.DatabaseError as error:
        mode, problems = "", [in_words(error)]
    fact = f"{path.name}, {path.stat().st_size / 1e6:,.1f} MB"
    if problems:
        action = (
            "if no run is under way, move the file away: a new one is made, and what it held is"
            " asked again"
        )
        yield Finding("cache", "replies", "failed", f"{fact}: {'; '.join(problems)}", action)
    elif mode != "wal":
        action = (
            "keep it on a local disk: a shared folder has no write-ahead log, and several processes"
            " may collide"
        )
        yield Finding("cache", "replies", "warning", f"{fact}, whole, journal mode {mode}", action)
    else:
        yield Finding("cache", "replies", "ok", f"{fact}, whole, journal mode {mode}")


def _server(url: str) -> Iterator[Finding]:
    address = sa.make_url(url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(address, hide_parameters=True, connect_args={"connect_timeout": 10})
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("SELECT 1"))
    finally:
        engine.dispose()
    yield Finding("cache", "replies", "ok", f"{address.host}, database {address.database}, answers")


def examine_owner(root: Path, settings: Settings) -> Iterator[Finding]:
    """Examine who owns the workspace in each store.

    Yield nothing for a store that does not answer, which has a finding of its own. Raises
    UsageError if the project is a copy.
    """
    # A project that never ran has no owner, and an examination must not create one.
    if has_owner(root):
        settle(root)
    owner = known_owner(root, settings.owner)
    with closing(open_stores(settings, root)) as stores:
        for store in stores.all:
            with suppress(StoreError):
                yield _finding(store, owner)


def _finding(store: Store, owner: str) -> Finding:
    live = store.workspaces().get(store.workspace)
    what = f"{store.name} owner"
    if live is None:
        fact = (
            f"workspace '{store.workspace}' is free; this project is owner"
            f" {owner or 'of nothing yet'}"
        )
        return Finding("stores", what, "ok", fact)
    fact = f"workspace '{store.workspace}' belongs to {live.owner or 'nobody'}"
    if not live.owner:
        action = (
            "the next load makes it this project's; where it is not, set another workspace first"
        )
        return Finding(
            "stores", what, "warning", f"{fact}: an earlier version has loaded it", action
        )
    if live.owner == owner:
        return Finding("stores", what, "ok", f"{fact}, which is this project")
    action = (
        f"set another workspace in settings.yaml; 'graphmill load --take-over {live.owner}' deletes"
        " its rows"
    )
    return Finding(
        "stores", what, "failed", f"{fact} (loaded from {live.place}), not to this project", action
    )
