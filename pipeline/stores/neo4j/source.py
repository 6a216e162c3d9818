"""Read the rows of a query from a Neo4j that is not a store of the project.

The query is the user's own. The server executes it with read access and refuses one that writes.
"""

import base64
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

from neo4j import READ_ACCESS, GraphDatabase
from neo4j.exceptions import AuthError, DriverError, Neo4jError
from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from pipeline.errors import StoreAuthError, StoreError, UsageError
from pipeline.settings.addresses import fault_of_neo4j, shown_neo4j
from pipeline.stores.neo4j.connection import CONNECT_SECONDS

WRITES = "Neo.ClientError.Statement.AccessMode"
"""The code with which a server refuses to write in a session with read access."""
OF_THE_QUERY = "Neo.ClientError.Statement."
"""The beginning of the codes of mistakes in a query."""
ROWS_AT_ONCE = 1000
"""The number of rows that the server sends at one time, and that are in memory."""
SRID_OF_EARTH = (4326, 4979)
"""The reference systems of points with a longitude and a latitude, flat and with a height."""
LONGEST_FACT = 300
"""Characters of a server's message that are shown: it repeats the query, which may be long."""


@dataclass(frozen=True)
class Neo4jSource:
    """A Neo4j from which rows are read. ``database`` is "" for the user's home database."""

    uri: str
    user: str
    password: str = field(repr=False)
    database: str = ""

    @contextmanager
    def rows(self, query: LiteralString) -> Iterator[tuple[list[str], Iterator[dict[str, Any]]]]:
        """Give the names of the columns of a query, and its rows with values of JSON.

        The rows come in portions, so that their number is not limited by memory. Raises UsageError
        for a query that writes or has a mistake, StoreAuthError for a wrong user or password, and
        StoreError if the server does not answer, also while rows are read.
        """
        if fault := fault_of_neo4j(self.uri):
            raise UsageError(f"URL: {fault}")
        with (
            self._errors(),
            GraphDatabase.driver(
                self.uri,
                auth=(self.user, self.password),
                connection_timeout=CONNECT_SECONDS,
                connection_acquisition_timeout=CONNECT_SECONDS,
                notifications_min_severity="OFF",
                telemetry_disabled=True,
            ) as driver,
            driver.session(
                database=self.database or None,
                default_access_mode=READ_ACCESS,
                fetch_size=ROWS_AT_ONCE,
            ) as session,
        ):
            result = session.run(query)
            # The server refuses to write when it makes the first row.
            result.peek()
            yield list(result.keys()), (_as_cells(record.items()) for record in result)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the driver in the block into errors of this package."""
        address = shown_neo4j(self.uri)
        try:
            yield
        except AuthError as error:
            raise StoreAuthError(
                f"cypher.user, cypher.password: {address} refuses them ({error.code}); set"
                " CYPHER_USER and CYPHER_PASSWORD in the environment or .env"
            ) from error
        except DriverError as error:
            raise StoreError(
                f"{address}: no answer ({_first_words(str(error))}); start it or correct the URL,"
                " then run the command again"
            ) from error
        except Neo4jError as error:
            code, fact = error.code or "", _first_words(error.message or "")
            if code == WRITES:
                raise UsageError(
                    f"QUERY: {address} refuses to write ({fact}); give a query that only reads"
                ) from error
            if code.startswith(OF_THE_QUERY):
                raise UsageError(f"QUERY: {address} refuses it ({fact}); correct it") from error
            raise StoreError(
                f"{address}: the server refuses ({fact}); correct the cause, then run the command"
                " again"
            ) from error


def _as_cells(items: Any) -> dict[str, Any]:
    return {name: _as_json(value) for name, value in items}


def _as_json(value: Any) -> Any:
    """Return a value of Cypher as one of JSON.

    A node or a relationship becomes its properties, a point its coordinates, a date or a duration
    its text in ISO 8601. A number that is infinite or none becomes null.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Date | DateTime | Time | Duration):
        return value.iso_format()
    if isinstance(value, Point):
        return _as_coordinates(value)
    if isinstance(value, Node | Relationship):
        return _as_cells(value.items())
    if isinstance(value, Path):
        return [_as_json(node) for node in value.nodes]
    if isinstance(value, dict):
        return _as_cells(value.items())
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def _as_coordinates(point: Point) -> dict[str, float]:
    on_earth = point.srid in SRID_OF_EARTH
    names = ("longitude", "latitude", "height") if on_earth else ("x", "y", "z")
    return dict(zip(names, point, strict=False))


def _first_words(message: str) -> str:
    """Return the first line of a message, and of a long one only its beginning."""
    return message.strip().split("\n")[0][:LONGEST_FACT]
