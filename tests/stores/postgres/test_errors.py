"""What PostgreSQL refuses is told apart from one that has gone."""

from collections.abc import Callable

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from pipeline.errors import LostConnectionError, StoreAuthError, StoreError
from pipeline.stores.postgres.errors import store_error
from pipeline.stores.postgres.store import PostgresStore

ADDRESS = "stores.postgres.url: postgresql://user:***@host/db"


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (psycopg.errors.QueryCanceled, StoreError, "statement_timeout"),
        (psycopg.errors.DiskFull, StoreError, "make room"),
        (psycopg.errors.OutOfMemory, StoreError, "build_mb"),
        (psycopg.errors.LockNotAvailable, StoreError, "lock_timeout"),
        (psycopg.errors.UndefinedTable, StoreError, "graphmill load"),
        (psycopg.errors.UndefinedColumn, StoreError, "graphmill load"),
        (psycopg.errors.DeadlockDetected, LostConnectionError, "could not now"),
        (psycopg.errors.SerializationFailure, LostConnectionError, "could not now"),
        (psycopg.errors.AdminShutdown, LostConnectionError, "went away"),
        (psycopg.errors.CrashShutdown, LostConnectionError, "went away"),
        (psycopg.errors.ConnectionFailure, LostConnectionError, "went away"),
        (psycopg.OperationalError, LostConnectionError, "went away"),
        (psycopg.InterfaceError, LostConnectionError, "went away"),
        (psycopg.ProgrammingError, StoreError, "log of the server"),
    ],
)
def test_each_error_of_the_driver_becomes_its_store_error(
    error: type[psycopg.Error], kind: type[StoreError], said: str
):
    for raised in (error("the fact"), OperationalError("SELECT secret", {}, error("the fact"))):
        found = store_error(raised, ADDRESS, was_there=True)
        assert type(found) is kind
        assert str(found).startswith(ADDRESS)
        assert "the fact" in str(found)
        assert said in str(found)
        assert "secret" not in str(found)
    assert (
        type(store_error(error("x"), ADDRESS, was_there=False)) is not LostConnectionError
        or "now" in said
    )


def test_a_statement_that_takes_too_long_says_so(postgres: Callable[..., PostgresStore]):
    with pytest.raises(StoreError, match=r"statement timeout.*make it 0 or longer") as raised:
        _sleep(postgres())
    assert not isinstance(raised.value, LostConnectionError)


def _sleep(store: PostgresStore) -> None:
    with store.connection() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 50"))
        connection.execute(text("SELECT pg_sleep(5)"))


@pytest.mark.parametrize(
    "wrong", [{"database": "nosuchdatabase"}, {"username": "nobody"}, {"query": {"sslmode": "x"}}]
)
def test_a_wrong_address_says_what_to_correct(postgres_url: str, wrong: dict):
    url = make_url(postgres_url)
    query = {**url.query, **wrong.pop("query", {})}
    store = PostgresStore(url.set(query=query, **wrong).render_as_string(hide_password=False))
    with pytest.raises(
        StoreAuthError, match=r"is refused .*correct user, password, database or options"
    ) as raised:
        store.live()
    assert raised.value.exit_code == 2
    store.close()
