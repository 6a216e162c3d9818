"""A connection that the server has ended while it was idle; a database that nothing was loaded
into."""

from collections.abc import Callable

import psycopg
import pytest
from sqlalchemy import select, text

from pipeline.errors import LostConnectionError
from pipeline.load.loader import load
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.postgres import database
from pipeline.stores.postgres.schema import LIVE
from pipeline.stores.postgres.store import PostgresStore
from tests.load.tables import corpus, save
from tests.servers.postgres_server import make_database

PROCESS = text("SELECT pg_backend_pid()")


def process_of(store: PostgresStore) -> int:
    with store.connection() as connection:
        return connection.execute(PROCESS).scalar_one()


@pytest.fixture
def ended(postgres: Callable[..., PostgresStore], postgres_url: str) -> PostgresStore:
    """Its one connection was."""
    store = postgres()
    process = process_of(store)
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [process])
    return store


def test_a_connection_that_was_idle_for_long_is_replaced(
    ended: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "IDLE_SECONDS", -1)
    process = process_of(ended)
    assert process_of(ended) == process


def test_a_connection_that_was_just_used_is_not_tested_and_reports_a_lost_server(
    ended: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "IDLE_SECONDS", 60)
    with pytest.raises(LostConnectionError, match="went away"):
        process_of(ended)
    assert process_of(ended)


def test_a_connection_that_was_tested_begins_transactions(
    postgres: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "IDLE_SECONDS", -1)
    store = postgres()
    process_of(store)
    with store.connection() as connection:
        assert len({connection.execute(text("SELECT now()")).scalar_one() for _ in range(2)}) == 1


def test_an_empty_database_can_be_read_at_one_moment(
    postgres_url: str, workspace: str, snapshots: SnapshotStore
):
    store = PostgresStore(make_database(postgres_url, workspace.replace("-", "_")), workspace)
    assert store.live() is None
    with store.reading() as vectors:
        assert vectors.live() is None
        load(
            save(corpus({"a.txt": "Ada."}, {"Ada": "person"}, []), snapshots),
            snapshots,
            [store],
            100,
        )
        with vectors.connection() as connection:
            assert connection.execute(select(LIVE)).all() == []
            assert (
                connection.execute(text("SHOW transaction_isolation")).scalar_one()
                == "repeatable read"
            )
    assert store.live()
    store.close()


def test_a_connection_in_use_is_closed_when_it_comes_back_to_a_closed_store(
    postgres: Callable[..., PostgresStore],
):
    store = postgres()
    with store.connection() as connection:
        driver_connection = connection.connection.driver_connection
        store.close()
        assert not driver_connection.closed
    assert driver_connection.closed


def test_a_store_that_was_closed_opens_connections_again(
    postgres: Callable[..., PostgresStore],
):
    store = postgres()
    process = process_of(store)
    store.close()
    again = [process_of(store) for _ in range(3)]
    assert process not in again
    assert len(set(again)) == 1
