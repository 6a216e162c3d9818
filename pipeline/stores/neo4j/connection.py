"""The connection to a Neo4j: its driver, reads in one statement, and the translation of errors of
the driver."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, LiteralString, TypeVar
from uuid import uuid4

from neo4j import Driver, GraphDatabase, Query, RoutingControl
from neo4j.exceptions import AuthError, DriverError, Neo4jError, ServiceUnavailable, SessionExpired

from pipeline.current_request import breakable, check_request, current_request
from pipeline.errors import LostConnectionError, StoreAuthError, StoreError
from pipeline.settings.addresses import fault_of_neo4j, shown_neo4j
from pipeline.stores.neo4j import cypher
from pipeline.stores.reads import HUB, SOURCES

Record = TypeVar("Record")
FETCH_ROWS = 10_000
CONNECT_SECONDS, RETRY_SECONDS = 15.0, 8.0
"""The first is long because a busy server, or one that collects garbage, may be silent for seconds.
A server that does not run refuses at once."""
IDLE_SECONDS = 1.0
"""A connection that was idle for longer is tested before use: the server may have been
restarted."""


@contextmanager
def store_errors(uri: str, database: str) -> Iterator[None]:
    """Turn errors of the driver into StoreError, or LostConnectionError if another try may help."""
    address = shown_neo4j(uri)
    try:
        yield
    except AuthError as error:
        raise StoreAuthError(
            f"stores.neo4j.user, stores.neo4j.password: {address} refuses them "
            f"({error.code}); correct them in settings.yaml"
        ) from error
    except DriverError as error:
        # A lost answer to a commit counts as a lost connection, though the driver calls it final.
        is_lost = error.is_retryable() or isinstance(error, ServiceUnavailable | SessionExpired)
        error_type = LostConnectionError if is_lost else StoreError
        raise error_type(
            f"stores.neo4j.uri: {address} does not answer ({_first_line(error)}); "
            "start it (make neo4j) or set stores.graph: postgres"
        ) from error
    except Neo4jError as error:
        if error.is_retryable():
            raise LostConnectionError(
                f"stores.neo4j: {address}, database '{database}', could not now ({error.message});"
                " try again"
            ) from error
        raise StoreError(
            f"stores.neo4j: {address}, database '{database}', refuses ({error.message}); "
            "Neo4j 5.26 or later and a database that exists are needed"
        ) from error


def check_address(uri: str) -> None:
    """Raise StoreError for a URI that the driver would refuse, or take for another protocol."""
    if fault := fault_of_neo4j(uri):
        raise StoreError(f"stores.neo4j.uri: {fault}")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


@dataclass(frozen=True)
class Neo4jConnection:
    """The connection to one workspace of one database.

    ``atomic_rows``: a load of more changes is written in batches, in several transactions.
    ``batch_rows``: the rows of a batch. ``max_source_ids``: the number of source text units that a
    row names at most; its ``source_count`` counts all of them.
    """

    uri: str
    user: str
    password: str = field(repr=False)
    database: str = "neo4j"
    workspace: str = "default"
    batch_rows: int = 5000
    atomic_rows: int = 20_000
    max_source_ids: int = 1000

    @cached_property
    def driver(self) -> Driver:
        """The driver, connected. Raises StoreError if the database cannot be reached."""
        check_address(self.uri)
        try:
            return self._connect()
        except LostConnectionError as error:
            # A connection that never existed was not lost: the caller must not try again.
            raise StoreError(str(error)) from error

    def _connect(self) -> Driver:
        with self.errors():
            driver = GraphDatabase.driver(
                self.uri,
                auth=(self.user, self.password),
                connection_timeout=CONNECT_SECONDS,
                liveness_check_timeout=IDLE_SECONDS,
                connection_acquisition_timeout=CONNECT_SECONDS,
                max_transaction_retry_time=RETRY_SECONDS,
                notifications_min_severity="OFF",
                telemetry_disabled=True,
            )
            try:
                driver.verify_connectivity()
            except BaseException:
                driver.close()
                raise
            return driver

    def read(self, query: LiteralString, **parameters: Any) -> list[list[Any]]:
        """Return the rows of a query.

        Raises RequestEndedError when the current request ends. The transaction is then terminated;
        the server terminates it by itself when the request's time is over.
        """
        check_request()
        given = {"workspace": self.workspace, "sources": SOURCES, "hub": HUB, **parameters}
        request = current_request()
        if request is None:
            return self._execute(query, given)
        name = uuid4().hex
        seconds = request.seconds_left if math.isfinite(request.seconds_left) else None
        # The first attempt to terminate may come before the transaction has begun.
        with breakable(partial(self._terminate, name), again=True):
            return self._execute(query, given, metadata={"request": name}, timeout=seconds)

    def _execute(
        self, query: LiteralString, parameters: dict[str, Any], **limits: Any
    ) -> list[list[Any]]:
        """Execute a query that only reads; ``limits``: further arguments of the driver's Query."""
        with self.errors():
            try:
                result = self.driver.execute_query(
                    Query(query, **limits),
                    parameters,
                    database_=self.database,
                    routing_=RoutingControl.READ,
                )
            except (DriverError, Neo4jError):
                # A transaction that was terminated because the request ended has not failed.
                check_request()
                raise
        return [record.values() for record in result.records]

    def _terminate(self, name: str) -> None:
        """Terminate the transaction of this name.

        If the user lacks the right, the transaction goes on until its time limit.
        """
        with suppress(DriverError, Neo4jError):
            self.driver.execute_query(cypher.TERMINATE, {"request": name}, database_=self.database)

    def records(self, kind: type[Record], query: LiteralString, **parameters: Any) -> list[Record]:
        """Return the rows of a query as records; its columns must be the fields of ``kind``."""
        return [kind(*row) for row in self.whole_rows(query, **parameters)]

    def whole_rows(self, query: LiteralString, **parameters: Any) -> list[list[Any]]:
        """Return the rows of a query whose first column is an id.

        The id is null if a load deleted the node or relationship during the read. Then
        LostConnectionError is raised, so that the caller reads again.
        """
        rows = self.read(query, **parameters)
        if any(row[0] is None for row in rows):
            raise LostConnectionError(
                f"stores.neo4j: workspace '{self.workspace}' was loaded as it was read; ask again"
            )
        return rows

    def errors(self) -> AbstractContextManager[None]:
        """Turn errors of the driver in the block into errors of this package."""
        return store_errors(self.uri, self.database)

    def outdated(self) -> list[str]:
        return [
            f"source_id has up to {kept or 'any number of'} text units, not {self.max_source_ids}"
            for [kept] in self.read(cypher.MOST)
            if kept != self.max_source_ids
        ]

    def close(self) -> None:
        if "driver" in self.__dict__:
            self.driver.close()
