"""The connections to one workspace of a PostgreSQL database, and psycopg's own cursors in them."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property, partial
from typing import Any, TypeVar

import psycopg
from pgvector.psycopg import register_vector
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Connection,
    Engine,
    Select,
    Text,
    bindparam,
    create_engine,
    event,
    func,
    select,
    type_coerce,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.types import NULLTYPE, TypeEngine

from pipeline.current_request import CurrentRequest, breakable, check_request, current_request
from pipeline.errors import StoreError
from pipeline.settings.addresses import fault_of_postgres
from pipeline.stores.base import Live
from pipeline.stores.connection import this_client
from pipeline.stores.postgres.errors import store_error

KNOWS_TYPES, IDLE_SINCE = "graphmill_types", "graphmill_idle_since"
IDLE_SECONDS = 1.0
"""A connection that was idle for longer is tried before it is used: the server may have been
restarted."""
CONNECTIONS = 15
"""At most. Each that was opened stays: what it has looked up of tables and planned costs more than
a read."""
CONNECTIONS_OF_A_KEY = max(1, CONNECTIONS // 4)
"""That the requests of one key may hold where others ask too: who reads much does not keep them
from reading."""
LONGEST_LIMIT = 86_400.0
"""Seconds; PostgreSQL takes no limit of more than some weeks, and a longer one is none."""
CANCEL_SECONDS = 5.0
"""That a server gets to hear that a statement is to be ended."""
Record = TypeVar("Record")


@dataclass(frozen=True)
class Moment:
    """A transaction in which the store stays as it is, and what it shows."""

    connection: Connection
    live: Live | None


@dataclass(frozen=True)
class _Shares:
    """Connections that the requests of each key hold."""

    held: Counter[str] = field(default_factory=Counter)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def taken(self, key: str) -> Iterator[None]:
        """Wait until the key holds fewer than it may. Raises RequestEndedError when the request
        ends before."""
        with breakable(self._wake), self.changed:
            while self.held[key] >= CONNECTIONS_OF_A_KEY:
                self.changed.wait()
                check_request()
            self.held[key] += 1
        try:
            yield
        finally:
            with self.changed:
                self.held[key] -= 1
                if not self.held[key]:
                    del self.held[key]  # keys come and go with the settings
                self.changed.notify_all()

    def _wake(self) -> None:
        with self.changed:
            self.changed.notify_all()


@dataclass(frozen=True)
class PostgresDatabase:
    """``moment``: all is read at it."""

    url: str = field(repr=False)
    workspace: str = "default"
    moment: Moment | None = field(default=None, kw_only=True)

    @cached_property
    def engine(self) -> Engine:
        engine = create_engine(
            _driver_url(self.url),
            connect_args=_connect_args(),
            pool_size=CONNECTIONS,
            max_overflow=0,
        )
        event.listen(engine, "connect", self._on_connect)
        event.listen(engine, "checkin", self._on_checkin)
        event.listen(engine, "checkout", _on_checkout)
        return engine

    @contextmanager
    def connection(self, **options: Any) -> Iterator[Connection]:
        """A transaction, with these options of SQLAlchemy's. Raises StoreError where the database
        cannot be reached or refuses, LostConnectionError where it has gone away, RequestEndedError
        when the current request ends: what the server is doing for it is cancelled."""
        check_request()
        if self.moment is not None:
            yield self.moment.connection
            return
        request = current_request()
        with self._errors(), ExitStack() as taken:
            if request is not None:
                taken.enter_context(self._share_of(request))
            connection = taken.enter_context(self.engine.execution_options(**options).begin())
            if request is not None:
                driver_connection = connection.connection.driver_connection
                # A cancel that arrives between two statements ends neither of them.
                taken.enter_context(breakable(partial(_cancel, driver_connection), again=True))
                _limit_time(connection, request.seconds_left)
            yield connection

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """A connection without a transaction; raises as ``connection``."""
        with (
            self._errors(),
            self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):
            yield connection

    def rows_of(self, query: Select | CompoundSelect, **parameters: Any) -> Sequence[Any]:
        """``parameters``: what is ``given`` to it, the workspace apart."""
        with self.connection() as connection:
            return connection.execute(query, {**parameters, "workspace": self.workspace}).all()

    def records(self, kind: type[Record], query: Select, **parameters: Any) -> list[Record]:
        """What a query finds; its columns are ``field_names(kind)``."""
        return [kind(*row) for row in self.rows_of(query, **parameters)]

    @property
    def address(self) -> str:
        """For people: no password in it."""
        return (
            "stores.postgres.url:"
            f" {make_url(self.url).set(query={}).render_as_string(hide_password=True)}"
        )

    def close(self) -> None:
        """Close the connections: idle ones now, and each that is in use when it is given back."""
        if "engine" in self.__dict__:
            self._closed.set()
            self.engine.dispose()

    @contextmanager
    def _share_of(self, request: CurrentRequest) -> Iterator[None]:
        """Count the connection as one of the request's key. A second one of a request does not wait
        for a share: all who hold a first one might wait for each other."""
        with ExitStack() as taken:
            if request.key is not None and not request.reading:
                taken.enter_context(self._shares.taken(request.key))
            request.reading += 1
            try:
                yield
            finally:
                request.reading -= 1

    @cached_property
    def _shares(self) -> _Shares:
        return _Shares()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, psycopg.Error) as error:
            check_request()  # a statement that was cancelled for it has not failed
            raise store_error(error, self.address, self._was_there.is_set()) from error
        except PoolTimeoutError as error:
            raise StoreError(
                f"{self.address}: every connection is in use; ask again, or lower serve.concurrency"
            ) from error

    @cached_property
    def _was_there(self) -> threading.Event:
        return threading.Event()

    @cached_property
    def _closed(self) -> threading.Event:
        return threading.Event()

    def _on_connect(self, connection: Any, _: Any) -> None:
        self._was_there.set()

    def _on_checkin(self, connection: Any, record: Any) -> None:
        record.info[IDLE_SINCE] = time.monotonic()
        # SQLAlchemy leaves a connection that comes back after `dispose` to the garbage collector.
        if self._closed.is_set() and connection is not None:
            connection.close()


def _on_checkout(connection: Any, record: Any, _: Any) -> None:
    """A connection may be older than the extension, whose types it learns once they are there."""
    now = time.monotonic()
    if now - record.info.get(IDLE_SINCE, now) > IDLE_SECONDS and not _is_alive(connection):
        raise InvalidatePoolError  # SQLAlchemy then connects anew
    if not record.info.get(KNOWS_TYPES):
        record.info[KNOWS_TYPES] = register_types(connection)
        connection.rollback()


def _cancel(driver_connection: Any) -> None:
    """End what the server does on this connection; another thread calls this.

    It is psycopg's own: SQLAlchemy's raises an error of its own once the server has gone away.
    """
    # A server that has gone away does nothing more.
    with suppress(psycopg.Error):
        driver_connection.cancel_safe(timeout=CANCEL_SECONDS)


def _limit_time(connection: Connection, seconds: float) -> None:
    """Let the server end each statement of the transaction after so long, also where this process
    is gone by then."""
    if seconds < LONGEST_LIMIT:
        milliseconds = max(1, int(seconds * 1000))
        connection.execute(select(func.set_config("statement_timeout", str(milliseconds), True)))


def _is_alive(connection: psycopg.Connection) -> bool:
    try:
        connection.autocommit = True  # else it takes a transaction
        connection.execute("")
        connection.autocommit = False
    except psycopg.OperationalError:
        return False
    return True


def _connect_args() -> dict[str, Any]:
    """By its name, which the server cuts at 63 bytes, other clients tell people who holds a lock; a
    name in the address goes before it."""
    return {"connect_timeout": 10, "fallback_application_name": this_client()}


def _driver_url(url: str) -> str:
    if fault := fault_of_postgres(url):
        raise StoreError(f"stores.postgres.url: {fault}")
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def given(
    name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]] = NULLTYPE
) -> BindParameter[Any]:
    """What a query is given each time: to make one anew takes longer than to read a few rows.
    ``kind``: where the database could not tell it."""
    return bindparam(name, type_=kind)


WORKSPACE = given("workspace", Text)


def as_given(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A list as psycopg gives it: SQLAlchemy would look at each of its texts once more."""
    return type_coerce(column, NULLTYPE)


def field_names(kind: type) -> list[str]:
    """Of a record, those that a database fills in."""
    return [field.name for field in fields(kind) if field.default is MISSING]


def cursor(connection: Connection, binary: bool = False) -> Any:
    """psycopg's own cursor inside this transaction: for COPY, quoted identifiers and rows in
    binary."""
    driver_connection: Any = connection.connection
    return driver_connection.cursor(binary=binary)


def register_types(connection: Any) -> bool:
    """Teach the connection pgvector's types; False where the extension is not there yet."""
    with connection.cursor() as found:
        there = found.execute("SELECT 1 FROM pg_type WHERE typname = 'vector'").fetchone()
    if there:
        register_vector(connection)
    return bool(there)
