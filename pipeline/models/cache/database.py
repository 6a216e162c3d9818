"""Database of cached replies, conversions, limits and batches: SQLite, or PostgreSQL for several
machines."""

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
import xxhash
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.event import listens_for
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.schema import CreateTable

from pipeline.errors import CacheFullError, SettingsError, StoreError
from pipeline.models.cache.reserve import Reserve, Reserves

Item = TypeVar("Item")
SCHEMA_VERSION = 5
"""Version of the tables. Version 1 had no owners, buckets, batches and version row; 2 had no
digests; 3 had none for batches; 4 had no conversions. A database of an earlier version is upgraded
when it is opened."""

KEYS_PER_STATEMENT = 500
"""Number of keys in one SQL statement."""
SECONDS_TO_WAIT_FOR_A_LOCK = 60
INSERTS = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

TABLES = sa.MetaData()
COMPLETIONS = sa.Table(
    "completions",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("finish_reason", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.Integer, nullable=False),
    sa.Column("output_tokens", sa.Integer, nullable=False),
    sa.Column("valid", sa.Boolean),
    sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    sa.Column("owner", sa.Text, nullable=False, server_default=""),
    sa.Column("digest", sa.BigInteger),
)
EMBEDDINGS = sa.Table(
    "embeddings",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sa.Column("owner", sa.Text, nullable=False, server_default=""),
    sa.Column("digest", sa.BigInteger),
)
BUCKETS = sa.Table(
    "buckets",
    TABLES,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("requests_at", sa.Double, nullable=False),
    sa.Column("tokens_at", sa.Double, nullable=False),
)
BATCHES = sa.Table(
    "batches",
    TABLES,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("endpoint", sa.String(64), nullable=False),
    sa.Column("keys", sa.Text, nullable=False),
    sa.Column("file_id", sa.Text),
    sa.Column("batch_id", sa.Text),
    sa.Column("tokens", sa.Integer, nullable=False),
    sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    sa.Column("digest", sa.BigInteger),
)
CONVERSIONS = sa.Table(
    "conversions",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("converter", sa.Text, nullable=False),
    sa.Column("limits", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("digest", sa.BigInteger, nullable=False),
)
SCHEMA = sa.Table(
    "graphmill_cache", TABLES, sa.Column("schema_version", sa.Integer, primary_key=True)
)
ADDED = {
    "owner": {
        "sqlite": sa.DDL("ALTER TABLE %(table)s ADD COLUMN owner TEXT NOT NULL DEFAULT ''"),
        "postgresql": sa.DDL(
            "ALTER TABLE %(table)s ADD COLUMN IF NOT EXISTS owner TEXT NOT NULL DEFAULT ''"
        ),
    },
    "digest": {
        "sqlite": sa.DDL("ALTER TABLE %(table)s ADD COLUMN digest BIGINT"),
        "postgresql": sa.DDL("ALTER TABLE %(table)s ADD COLUMN IF NOT EXISTS digest BIGINT"),
    },
}
"""Columns that earlier versions did not have, with the statements that add them."""


class Database:
    """Database that is opened on first use. Threads and processes may share it.

    ``url``: ``sqlite:///path`` or ``postgresql://...``; "" means no database. Raises SettingsError
    for any other URL. Raises StoreError when the database fails or was made by a newer version.
    """

    def __init__(self, url: str):
        self.url = _read_url(url) if url else None
        self.reserves = Reserves()
        self._opening = threading.Lock()
        # SQLite itself waits for its write lock by polling. Waiting for this lock ends at once.
        self._writing = threading.Lock()

    @property
    def there(self) -> bool:
        """True if there is a database."""
        return self.url is not None

    @property
    def is_sqlite(self) -> bool:
        return self.url is not None and self.url.get_backend_name() == "sqlite"

    def select(self, columns: Sequence[sa.Column], keys: Sequence[str]) -> list[Any]:
        """Return the rows whose first column is one of the keys."""
        if not keys or not self.there:
            return []
        rows: list[Any] = []
        with self.connection() as connection:
            for some in slices(keys):
                rows += connection.execute(sa.select(*columns).where(columns[0].in_(some)))
        return rows

    def upsert(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        """Insert or replace all rows in one transaction. They are on disk when the call returns.

        Raises CacheFullError if the disk is full.
        """
        if not rows or self.url is None:
            return
        insert = INSERTS[self.url.get_backend_name()](table)
        changed = {column.name: column for column in insert.excluded if not column.primary_key}
        upsert = insert.on_conflict_do_update(
            index_elements=list(table.primary_key.columns), set_=changed
        )

        def write() -> None:
            with self.connection(write=True) as connection:
                connection.execute(upsert, rows)

        self.in_room(write)

    def in_room(self, write: Callable[[], None]) -> None:
        """Run a transaction. If the disk is full, free the reserved space and run it once more.

        Raises CacheFullError if the disk is still full.
        """
        try:
            write()
        except CacheFullError:
            if not self.reserves.give_back():
                raise
            write()

    def reserve(self, calls: int, size: int, where: str) -> Reserve:
        """Return a reserve for ``calls`` calls at once with replies of ``size`` bytes each.

        The first call allocates the space. ``where``: the model's place in settings.yaml. Only a
        SQLite database has a reserve; for others it does nothing.
        """
        path = None
        if self.url and self.is_sqlite and self.url.database:
            path = Path(self.url.database)
        return Reserve(self.reserves, path, calls, size, where)

    @contextmanager
    def connection(self, write: bool = False) -> Iterator[sa.Connection]:
        """Yield a connection within a transaction, which is committed at the end of the block.

        ``write``: only one thread of this process writes at a time. Raises StoreError or
        CacheFullError if the database fails; the message contains neither the statement nor its
        values.
        """
        assert self.url is not None
        # The error is raised outside the handler, so that it does not carry the statement along.
        failed: DBAPIError | None = None
        try:
            with self._opening:
                engine = self.engine
            if write:
                with self._writing, engine.begin() as connection:
                    yield connection
            else:
                with engine.begin() as connection:
                    yield connection
        except DBAPIError as error:
            failed = error
        except PoolTimeoutError:
            raise StoreError("cache: every connection to it is in use; ask again") from None
        if failed:
            kind = CacheFullError if is_full(self.url, failed) else StoreError
            raise kind(describe_error(self.url, failed))

    def close(self) -> None:
        """Close the pooled connections, if the database was opened."""
        if "engine" in self.__dict__:
            self.engine.dispose()

    @cached_property
    def engine(self) -> sa.Engine:
        """The engine. The first access opens the database, creates missing tables and upgrades old
        ones."""
        assert self.url is not None
        if self.is_sqlite:
            engine = _open_sqlite(self.url)
        else:
            engine = sa.create_engine(self.url, hide_parameters=True, pool_pre_ping=True)
        weakref.finalize(self, engine.dispose)
        _create_tables(engine)
        _upgrade(engine, address(self.url))
        return engine


@dataclass
class SharedWrites:
    """Write rows of many threads to a table in as few transactions as possible.

    One thread writes at a time, and it writes all rows that wait.
    """

    database: Database
    table: sa.Table
    waiting: list[tuple[dict[str, Any], Future[None]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    writing: threading.Lock = field(default_factory=threading.Lock)

    def write(self, row: dict[str, Any]) -> None:
        """Write a row, which is on disk when the call returns. Raises the errors of
        ``Database.upsert``."""
        written: Future[None] = Future()
        with self.lock:
            self.waiting.append((row, written))
        with self.writing:
            if not written.done():
                self._write_all()
        written.result()

    def _write_all(self) -> None:
        """Write all waiting rows, and pass the result to the threads that wait for them."""
        with self.lock:
            taken, self.waiting = self.waiting, []
        rows = {row["key"]: row for row, _ in taken}
        try:
            self.database.upsert(self.table, list(rows.values()))
        except BaseException as error:
            # This includes Ctrl-C: no thread may wait for a row that is lost.
            for _, written in taken:
                written.set_exception(error)
        else:
            for _, written in taken:
                written.set_result(None)


def _read_url(text: str) -> sa.URL:
    """Return the URL of a database that can hold the cache. Raises SettingsError for any other
    text."""
    try:
        url = sa.make_url(text)
    except ArgumentError:
        raise SettingsError(
            "cache: not a database URL; write sqlite:///data/cache.sqlite"
        ) from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    try:
        backend = url.get_dialect().name
    except (NoSuchModuleError, ImportError):
        backend = url.drivername
    if backend not in INSERTS or (backend == "sqlite" and url.database in (None, "", ":memory:")):
        raise SettingsError(
            f"cache: {address(url)} cannot hold replies; use sqlite:///data/cache.sqlite,"
            " postgresql://... or '' to remember nothing"
        )
    return url


def _open_sqlite(url: sa.URL) -> sa.Engine:
    """Return an engine for a SQLite file, whose folder is created if it is missing.

    Every commit is flushed to disk, and deleted rows are overwritten. Raises StoreError if the
    folder cannot be created.
    """
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cache: {folder} cannot be made ({error.strerror}); choose another path"
        ) from None
    engine = sa.create_engine(
        url, hide_parameters=True, connect_args={"timeout": SECONDS_TO_WAIT_FOR_A_LOCK}
    )

    @listens_for(engine, "connect")
    def every_commit_reaches_the_disk(connection: Any, _record: object) -> None:
        connection.text_factory = decode_leniently
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA secure_delete=ON")

    return engine


def row_digest(*content: str | int | bytes) -> int:
    """Return a signed 64-bit digest of the values of a row, which reveals later damage.

    Databases have only signed integers.
    """
    state = xxhash.xxh3_64()
    for part in content:
        state.update(
            part if isinstance(part, bytes) else f"{part}\0".encode(errors="surrogatepass")
        )
    return state.intdigest() - 2**63


def decode_leniently(content: bytes) -> str:
    """Decode text from the database. Replace damaged bytes instead of failing the whole query.

    The digest of the row reveals the damage.
    """
    return content.decode(errors="replace")


def _create_tables(engine: sa.Engine) -> None:
    """Create missing tables, and turn on WAL in SQLite. Retry if another process does the same.

    SQLite's change to WAL does not wait for a lock, and PostgreSQL's "if not exists" may still
    collide.
    """
    attempts = 50
    for attempt in range(1, attempts + 1):
        try:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                if engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                for table in TABLES.sorted_tables:
                    connection.execute(CreateTable(table, if_not_exists=True))
            return
        except (OperationalError, IntegrityError) as error:
            is_collision = isinstance(error, IntegrityError) or "locked" in str(error.orig)
            if attempt == attempts or not is_collision:
                raise
            time.sleep(0.05)


def _upgrade(engine: sa.Engine, where: str) -> None:
    """Add the columns that a database of an older version lacks, and store the current version.

    Raises StoreError if a newer version wrote the database.
    """
    newest = sa.select(sa.func.max(SCHEMA.c.schema_version))
    with engine.begin() as connection:
        found = connection.execute(newest).scalar()
    if found == SCHEMA_VERSION:
        return
    if found is not None and found > SCHEMA_VERSION:
        raise StoreError(
            f"cache: {where} was written by a newer graphmill (schema {found}; this one reads up to"
            f" {SCHEMA_VERSION}); upgrade, or set another 'cache'"
        )
    with engine.begin() as connection:
        # This update changes nothing, but it takes SQLite's write lock.
        connection.execute(sa.update(SCHEMA).values(schema_version=SCHEMA.c.schema_version))
        for table in (COMPLETIONS, EMBEDDINGS, BATCHES):
            columns = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
            for name, statements in ADDED.items():
                if name not in columns:
                    connection.execute(statements[engine.dialect.name].against(table))
        insert = INSERTS[engine.dialect.name](SCHEMA).values(schema_version=SCHEMA_VERSION)
        connection.execute(insert.on_conflict_do_nothing())


def describe_error(url: sa.URL, error: DBAPIError) -> str:
    """Return the message for a database error, with the next action and without the statement."""
    said = " ".join(str(error.orig).split())
    if url.get_backend_name() != "sqlite":
        return (
            f"cache: {address(url)} does not work ({said}); start it, or correct 'cache' in"
            " settings.yaml"
        )
    if "not a database" in said or "malformed" in said:
        return (
            f"cache: {url.database} is not a working SQLite database ({said}); run 'graphmill run':"
            " it moves the file aside, and keeps what can be read of it"
        )
    if "locked" in said:
        return (
            f"cache: {url.database} is held by another program ({said}); run again when that has"
            " ended"
        )
    if is_full(url, error):
        return (
            f"cache: {url.database} cannot be written ({said}); make space on its disk and run"
            " again"
        )
    return (
        f"cache: {url.database} cannot be used ({said}); check the path, its permissions and the"
        " disk"
    )


def is_full(url: sa.URL, error: DBAPIError) -> bool:
    """Return whether SQLite failed because the disk is full.

    With some file systems, SQLite reports an I/O error for a full disk.
    """
    said = str(error.orig)
    return url.get_backend_name() == "sqlite" and ("full" in said or "disk I/O" in said)


def address(url: sa.URL) -> str:
    """Return the URL without user and password."""
    return sa.URL.create(
        url.drivername, host=url.host, port=url.port, database=url.database
    ).render_as_string()


def slices(items: Sequence[Item], size: int = KEYS_PER_STATEMENT) -> Iterator[Sequence[Item]]:
    """Yield consecutive slices of at most ``size`` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
