"""Replies and vectors, remembered by what was asked. A reply is stored before anybody reads it.

Kept: keys (hashes), model names, raw replies, token counts. Not kept: what was asked, addresses, API keys.
"""

import hashlib
import json
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.event import listens_for
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, OperationalError
from sqlalchemy.schema import CreateTable

from pipeline.errors import SettingsError, StoreError
from pipeline.models.base import ChatRequest

KEYS_PER_SELECT = 500
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
)
EMBEDDINGS = sa.Table(
    "embeddings",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("vector", sa.LargeBinary, nullable=False),
)


def completion_key(identity: Mapping[str, Any], request: ChatRequest) -> str:
    """Over the model's identity and all of the request that is sent (not its ``row_id``)."""
    return _key("completion", identity, [list(map(dict, request.messages)), request.response_format])


def embedding_key(identity: Mapping[str, Any], text: str) -> str:
    return _key("embedding", identity, text)


def _key(kind: str, identity: Mapping[str, Any], asked: object) -> str:
    canonical = json.dumps([kind, identity, asked], sort_keys=True, separators=(",", ":"), default=dict)
    return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class Completion:
    """A reply as it came. ``valid`` is None until somebody has read it."""

    text: str
    finish_reason: str
    input_tokens: int
    output_tokens: int
    valid: bool | None = None


class ReplyCache:
    """A database of replies, made on first use; threads and processes may share it.

    ``url``: ``sqlite:///path`` or ``postgresql://...``; "" remembers nothing. A write is on disk when
    the call returns. Raises SettingsError for another kind of URL, StoreError when the database fails.
    """

    def __init__(self, url: str):
        self._url = _read_url(url) if url else None
        self._opening = threading.Lock()
        self._writing = threading.Lock()  # waiting here is fair and wakes at once; SQLite's own wait polls

    def completions(self, keys: Iterable[str]) -> dict[str, Completion]:
        """What is known of these keys."""
        columns = [COMPLETIONS.c[name] for name in ("key", *Completion.__dataclass_fields__)]
        return {key: Completion(*row) for key, *row in self._select(columns, keys)}

    def store_completion(self, key: str, model: str, reply: Completion) -> None:
        """Keep the reply, in place of an older one."""
        row = {"key": key, "model": model, "created": datetime.now(UTC)}
        self._upsert(COMPLETIONS, [row | {name: getattr(reply, name) for name in reply.__dataclass_fields__}])

    def flag(self, valid: Mapping[str, bool]) -> None:
        """Note which stored replies could be read."""
        if not valid or self._url is None:
            return
        with self._connection(write=True) as connection:
            for verdict in (True, False):
                keys = [key for key, value in valid.items() if value is verdict]
                for some in _slices(keys):
                    update = sa.update(COMPLETIONS).where(COMPLETIONS.c.key.in_(some)).values(valid=verdict)
                    connection.execute(update)

    def vectors(self, keys: Iterable[str]) -> dict[str, np.ndarray]:
        rows = self._select([EMBEDDINGS.c.key, EMBEDDINGS.c.vector], keys)
        return {key: np.frombuffer(vector, "<f4").astype(np.float32) for key, vector in rows}

    def store_vectors(self, model: str, vectors: Mapping[str, np.ndarray]) -> None:
        """Keep the vectors, all of them or, if the process dies, none."""
        self._upsert(
            EMBEDDINGS,
            [{"key": key, "model": model, "vector": vector.astype("<f4").tobytes()} for key, vector in vectors.items()],
        )

    def close(self) -> None:
        if "_engine" in self.__dict__:
            self._engine.dispose()

    def _select(self, columns: Sequence[sa.Column], keys: Iterable[str]) -> list[Any]:
        wanted = list(dict.fromkeys(keys))
        if not wanted or self._url is None:
            return []
        with self._connection() as connection:
            return [
                row
                for some in _slices(wanted)
                for row in connection.execute(sa.select(*columns).where(columns[0].in_(some)))
            ]

    def _upsert(self, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        if not rows or self._url is None:
            return
        insert = INSERTS[self._url.get_backend_name()](table)
        changed = {column.name: column for column in insert.excluded if not column.primary_key}
        upsert = insert.on_conflict_do_update(index_elements=[table.c.key], set_=changed)
        with self._connection(write=True) as connection:
            connection.execute(upsert, rows)

    @contextmanager
    def _connection(self, write: bool = False) -> Iterator[sa.Connection]:
        """A transaction. The database's complaint becomes a StoreError, without statement and values."""
        assert self._url is not None
        failed: DBAPIError | None = None
        try:
            with self._opening:
                engine = self._engine
            if write:
                with self._writing, engine.begin() as connection:
                    yield connection
            else:
                with engine.begin() as connection:
                    yield connection
        except DBAPIError as error:
            failed = error
        if failed:
            raise StoreError(_complaint(self._url, failed))

    @cached_property
    def _engine(self) -> sa.Engine:
        assert self._url is not None
        if self._url.get_backend_name() == "sqlite":
            engine = _open_sqlite(self._url)
        else:
            engine = sa.create_engine(self._url, hide_parameters=True, pool_pre_ping=True)
        weakref.finalize(self, engine.dispose)
        _create_tables(engine)
        return engine


def _read_url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except ArgumentError:
        raise SettingsError("cache: not a database URL; write sqlite:///data/cache.sqlite") from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    try:
        backend = url.get_dialect().name
    except (NoSuchModuleError, ImportError):
        backend = url.drivername
    if backend not in INSERTS or (backend == "sqlite" and url.database in (None, "", ":memory:")):
        raise SettingsError(
            f"cache: {_address(url)} cannot hold replies; use sqlite:///data/cache.sqlite, postgresql://... "
            "or '' to remember nothing"
        )
    return url


def _open_sqlite(url: sa.URL) -> sa.Engine:
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cache: {folder} cannot be made ({error.strerror}); choose another path") from None
    engine = sa.create_engine(url, hide_parameters=True, connect_args={"timeout": SECONDS_TO_WAIT_FOR_A_LOCK})

    @listens_for(engine, "connect")
    def every_commit_reaches_the_disk(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA synchronous=FULL")

    return engine


def _create_tables(engine: sa.Engine) -> None:
    """Several processes may do this at once: SQLite's change to WAL does not wait for a lock, and
    PostgreSQL's "if not exists" can still collide."""
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
            if attempt == attempts or not (isinstance(error, IntegrityError) or "locked" in str(error.orig)):
                raise
            time.sleep(0.05)


def _complaint(url: sa.URL, error: DBAPIError) -> str:
    said = " ".join(str(error.orig).split())
    if url.get_backend_name() != "sqlite":
        return f"cache: {_address(url)} does not work ({said}); start it, or correct 'cache' in settings.yaml"
    if "not a database" in said or "malformed" in said:
        return (
            f"cache: {url.database} is not a working SQLite database ({said}); move it away and run again: "
            "a new one is made, and what it held is asked again"
        )
    if "locked" in said:
        return f"cache: {url.database} is held by another program ({said}); run again when that has ended"
    return f"cache: {url.database} cannot be used ({said}); check the path, its permissions and the disk"


def _address(url: sa.URL) -> str:
    return sa.URL.create(url.drivername, host=url.host, port=url.port, database=url.database).render_as_string()


def _slices(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), KEYS_PER_SELECT):
        yield keys[start : start + KEYS_PER_SELECT]


NO_CACHE = ReplyCache("")
"""Remembers nothing."""
