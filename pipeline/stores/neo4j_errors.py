"""What the driver of Neo4j raises, in our words."""

from collections.abc import Iterator
from contextlib import contextmanager

from neo4j.exceptions import AuthError, DriverError, Neo4jError, ServiceUnavailable, SessionExpired

from pipeline.addresses import fault_of_neo4j, shown_neo4j
from pipeline.errors import LostConnectionError, StoreAuthError, StoreError


@contextmanager
def store_errors(uri: str, database: str) -> Iterator[None]:
    """Raises StoreError for what the driver raises; LostConnectionError where trying again may cure it."""
    address = shown_neo4j(uri)
    try:
        yield
    except AuthError as error:
        raise StoreAuthError(
            f"stores.neo4j.user, stores.neo4j.password: {address} refuses them "
            f"({error.code}); correct them in settings.yaml"
        ) from error
    except DriverError as error:
        raise _kind(error)(
            f"stores.neo4j.uri: {address} does not answer ({_first_line(error)}); "
            "start it (make neo4j) or set stores.graph: postgres"
        ) from error
    except Neo4jError as error:
        if error.is_retryable():
            raise LostConnectionError(
                f"stores.neo4j: {address}, database '{database}', could not now ({error.message}); try again"
            ) from error
        raise StoreError(
            f"stores.neo4j: {address}, database '{database}', refuses ({error.message}); "
            "Neo4j 5.26 or later and a database that exists are needed"
        ) from error


def check_address(uri: str) -> None:
    """Raises StoreError for what the driver would not take, or would take for another protocol."""
    if fault := fault_of_neo4j(uri):
        raise StoreError(f"stores.neo4j.uri: {fault}")


def _kind(error: DriverError) -> type[StoreError]:
    """A commit whose answer was lost counts as lost, though the driver would not try it again."""
    lost = error.is_retryable() or isinstance(error, ServiceUnavailable | SessionExpired)
    return LostConnectionError if lost else StoreError


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
