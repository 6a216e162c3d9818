"""The connections to one workspace of a PostgreSQL database, and cursors of psycopg in them."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    FromClause,
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
"""A connection that was idle for longer is tested before use: the server may have been
restarted."""
CONNECTIONS = 15
"""The largest number of connections. Open connections are kept: the server's knowledge of tables,
and its plans, cost more to make again than a read."""
CONNECTIONS_OF_A_KEY = max(1, CONNECTIONS // 4)
"""The largest number of connections that the requests of one API key hold together. So a key that
reads much does not keep others from reading."""
LONGEST_LIMIT = 86_400.0
"""The longest limit of a statement in seconds. PostgreSQL accepts none of more than some weeks; a
longer limit is no limit."""
CANCEL_SECONDS = 5.0
"""Seconds within which a server must receive the request to cancel a statement."""
Record = TypeVar("Record")


@dataclass(frozen=True)
class Moment:
    """A transaction that sees one state of the database, and what the workspace shows in it."""

    connection: Connection
    live: Live | None


@dataclass(frozen=True)
class _Shares:
    """The number of connections that the requests of each API key hold."""

    held: Counter[str] = field(default_factory=Counter)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def taken(self, key: str) -> Iterator[None]:
        """Wait until the key may hold one more connection, and count it until the block ends.

        Raises RequestEndedError if the current request ends before.
        """
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
                # Keys come and go with the settings: do not let unused ones add up.
                if not self.held[key]:
                    del self.held[key]
                self.changed.notify_all()

    def _wake(self) -> None:
        with self.changed:
            self.changed.notify_all()


@dataclass(frozen=True)
class PostgresDatabase:
    """A workspace of a database, and a pool of connections to it.

    ``moment``: if it is given, everything is read in its transaction.
    """

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
        closed = self._closed

        def on_checkin(connection: Any, record: Any) -> None:
            record.info[IDLE_SINCE] = time.monotonic()
            # SQLAlchemy leaves a connection that comes back after `dispose` to the garbage
            # collector.
            if closed.is_set() and connection is not None:
                connection.close()

        event.listen(engine, "checkin", on_checkin)
        event.listen(engine, "checkout", _on_checkout)
        return engine

    @contextmanager
    def connection(self, **options: Any) -> Iterator[Connection]:
        """Open a transaction with these execution options of SQLAlchemy.

        Raises StoreError if the database cannot be reached or refuses a statement, and
        LostConnectionError if it went away. Raises RequestEndedError when the current request ends;
        the statement that the server is executing for it is cancelled.
        """
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
        """Open a connection without a transaction; it raises the errors of ``connection``."""
        with (
            self._errors(),
            self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):
            yield connection

    def rows_of(self, query: Select | CompoundSelect, **parameters: Any) -> Sequence[Any]:
        """Return all rows of a query with these parameters; the workspace is added to them."""
        with self.connection() as connection:
            return connection.execute(query, {**parameters, "workspace": self.workspace}).all()

    def records(self, kind: type[Record], query: Select, **parameters: Any) -> list[Record]:
        """Return the rows of a query as records; its columns must be ``field_names(kind)``."""
        return [kind(*row) for row in self.rows_of(query, **parameters)]

    @property
    def address(self) -> str:
        """The address for messages, without the password."""
        url = make_url(self.url).set(query={})
        return f"stores.postgres.url: {url.render_as_string(hide_password=True)}"

    def close(self) -> None:
        """Close the connections: idle ones now, and each that is in use when it is given back."""
        if "engine" in self.__dict__:
            # Whoever uses the database after this gets an engine of its own.
            engine, closed = self.__dict__.pop("engine"), self.__dict__.pop("_closed")
            closed.set()
            engine.dispose()

    @contextmanager
    def _share_of(self, request: CurrentRequest) -> Iterator[None]:
        """Count a connection for the API key of the request, until the block ends.

        Only the first connection of a request is counted and waits. If further ones waited too,
        requests that hold a first one could wait for each other forever.
        """
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
            # A statement that was cancelled because the request ended is no error of the database.
            check_request()
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
        """Set once the present engine is closed."""
        return threading.Event()

    def _on_connect(self, connection: Any, _: Any) -> None:
        self._was_there.set()


def _on_checkout(connection: Any, record: Any, _: Any) -> None:
    """Check a connection that the pool hands out, and register pgvector's types in it once.

    The types may be missing at first: a connection can be older than the extension.
    """
    now = time.monotonic()
    idle_seconds = now - record.info.get(IDLE_SINCE, now)
    if idle_seconds > IDLE_SECONDS and not _is_alive(connection):
        # SQLAlchemy then discards all connections and opens a new one.
        raise InvalidatePoolError
    if not record.info.get(KNOWS_TYPES):
        record.info[KNOWS_TYPES] = register_types(connection)
        connection.rollback()


def _cancel(driver_connection: Any) -> None:
    """Cancel the statement that the server executes on this connection; called by another thread.

    The method is psycopg's: that of SQLAlchemy raises an error of its own once the server has gone
    away.
    """
    # A server that has gone away executes nothing.
    with suppress(psycopg.Error):
        driver_connection.cancel_safe(timeout=CANCEL_SECONDS)


def _limit_time(connection: Connection, seconds: float) -> None:
    """Let the server end each statement of the transaction after ``seconds``.

    The server does so even if this process has been killed.
    """
    if seconds < LONGEST_LIMIT:
        milliseconds = max(1, int(seconds * 1000))
        connection.execute(select(func.set_config("statement_timeout", str(milliseconds), True)))


def _is_alive(connection: psycopg.Connection) -> bool:
    try:
        # Without autocommit the test would open a transaction.
        connection.autocommit = True
        connection.execute("")
        connection.autocommit = False
    except psycopg.OperationalError:
        return False
    return True


def _connect_args() -> dict[str, Any]:
    """Return the arguments of psycopg's ``connect``.

    Other clients report the application name when they wait for a lock of this one. The server cuts
    it at 63 bytes. A name in the URL takes precedence.
    """
    return {"connect_timeout": 10, "fallback_application_name": this_client()}


def _driver_url(url: str) -> str:
    if fault := fault_of_postgres(url):
        raise StoreError(f"stores.postgres.url: {fault}")
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def given(
    name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]] = NULLTYPE
) -> BindParameter[Any]:
    """Return a named parameter of a query.

    With parameters a query is built once and reused: to build one takes longer than to read a few
    rows. ``kind``: the type, where the database could not infer it.
    """
    return bindparam(name, type_=kind)


WORKSPACE = given("workspace", Text)


def as_given(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a column of lists that arrives as psycopg decodes it.

    Otherwise SQLAlchemy would process each text of a list once more.
    """
    return type_coerce(column, NULLTYPE)


def field_names(kind: type) -> list[str]:
    """Return the fields of a record that a database fills in: those without a default value."""
    return [field.name for field in fields(kind) if field.default is MISSING]


def columns_of(
    kind: type, rows: FromClause, computed: Mapping[str, ColumnElement] | None = None
) -> list[ColumnElement]:
    """Return a column for each field of a record.

    ``computed``: the expressions of fields; all others are columns of ``rows`` of the same name.
    """
    columns: list[ColumnElement] = []
    for name in field_names(kind):
        if computed is not None and name in computed:
            columns.append(computed[name])
        else:
            columns.append(rows.c[name])
    return columns


def cursor(connection: Connection, binary: bool = False) -> Any:
    """Return a cursor of psycopg in the transaction of ``connection``.

    It is needed for COPY, quoted identifiers and rows in binary.
    """
    driver_connection: Any = connection.connection
    return driver_connection.cursor(binary=binary)


def register_types(connection: Any) -> bool:
    """Register pgvector's types in a connection of psycopg.

    Return False if the database does not have the extension yet.
    """
    with connection.cursor() as types:
        has_vector = types.execute("SELECT 1 FROM pg_type WHERE typname = 'vector'").fetchone()
    if has_vector:
        register_vector(connection)
    return bool(has_vector)
