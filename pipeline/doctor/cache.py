"""The cache of replies: that it opens, in which mode, and whether it is whole."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from pipeline.adapters import open_cache
from pipeline.doctor.finding import Finding
from pipeline.errors import in_words
from pipeline.settings import Settings

SQLITE = "sqlite:///"
SECONDS_TO_WAIT_FOR_A_LOCK = 5


def examine_cache(root: Path, settings: Settings) -> Iterator[Finding]:
    """Raises SettingsError for a URL that cannot hold replies."""
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
            problems = [row[0] for row in connection.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
    except sqlite3.DatabaseError as error:
        mode, problems = "", [in_words(error)]
    fact = f"{path.name}, {path.stat().st_size / 1e6:,.1f} MB"
    if problems:
        action = "if no run is under way, move the file away: a new one is made, and what it held is asked again"
        yield Finding("cache", "replies", "failed", f"{fact}: {'; '.join(problems)}", action)
    elif mode != "wal":
        action = "keep it on a local disk: a shared folder has no write-ahead log, and several processes may collide"
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
