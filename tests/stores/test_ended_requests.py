"""A request that ends takes what a database does for it along, and leaves the connection as good as
it was."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from sqlalchemy import text

from pipeline import current_request
from pipeline.current_request import GRACE_SECONDS, CurrentRequest
from pipeline.errors import RequestEndedError
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.database import CONNECTIONS_OF_A_KEY
from pipeline.stores.postgres.store import PostgresStore
from tests.serve.serving import wait_until

SLOW_SQL = text("SELECT count(*) FROM generate_series(1, 1e10)")
SLOW_CYPHER: Any = (
    "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b WITH a * b AS c RETURN max(c)"
)
SOON = 5.0
"""Seconds. The statements take many minutes."""


@contextmanager
def ended_after(request: CurrentRequest, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, request.end)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def seconds_until_ended(request: CurrentRequest, work: Callable[[], object]) -> float:
    begun = time.monotonic()
    with pytest.raises(RequestEndedError):
        request.doing(work)
    return time.monotonic() - begun


def slow_in_postgres(store: PostgresStore) -> None:
    with store.connection() as connection:
        connection.execute(SLOW_SQL)


def one(store: PostgresStore) -> int:
    with store.connection() as connection:
        return connection.execute(text("SELECT 1")).scalar_one()


def test_postgres_stops_when_the_request_ends(postgres: Callable[..., PostgresStore]):
    store, request = postgres(), CurrentRequest()
    with ended_after(request, 0.2):
        assert seconds_until_ended(request, lambda: slow_in_postgres(store)) < SOON


def test_a_cancel_that_comes_between_two_statements_is_tried_again(
    postgres: Callable[..., PostgresStore],
):
    store, request = postgres(), CurrentRequest()

    def two_statements() -> None:
        with store.connection() as connection:
            connection.execute(text("SELECT 1"))
            time.sleep(GRACE_SECONDS + 0.3)  # the first cancel finds no statement
            connection.execute(SLOW_SQL)

    with ended_after(request, 0.05):
        assert seconds_until_ended(request, two_statements) < SOON


def test_postgres_stops_by_itself_when_the_time_of_the_request_is_over(
    postgres: Callable[..., PostgresStore],
):
    """The request is not ended by anybody."""
    store, request = postgres(), CurrentRequest(deadline=time.monotonic() + 0.3)
    assert seconds_until_ended(request, lambda: slow_in_postgres(store)) < SOON


def test_no_statement_of_another_request_is_cancelled(
    postgres: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch
):
    """Requests end at any moment of short statements, and all requests share the connections."""
    monkeypatch.setattr(current_request, "GRACE_SECONDS", 0.0)
    store = postgres()
    wrong: list[BaseException] = []

    def short(seconds: float) -> None:
        with store.connection() as connection:
            connection.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})

    def ends(place: int) -> None:
        for turn in range(30):
            request = CurrentRequest()
            with ended_after(request, 0.0005 * ((turn + place) % 12)):
                try:
                    request.doing(lambda: short(0.002))
                except RequestEndedError:
                    pass
                except BaseException as error:
                    wrong.append(error)

    def stays() -> None:
        for _ in range(60):
            try:
                CurrentRequest().doing(lambda: short(0.001))
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=ends, args=[place]) for place in range(4)]
    threads += [threading.Thread(target=stays) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_requests_of_one_key_leave_connections_for_others(
    postgres: Callable[..., PostgresStore],
):
    """A request that waits for a connection of its key ends when its time is over, as any other."""
    store = postgres()
    hogs = [CurrentRequest(key="hog") for _ in range(3 * CONNECTIONS_OF_A_KEY)]
    outcomes: list[str] = []

    def hold(request: CurrentRequest) -> None:
        try:
            request.doing(lambda: slow_in_postgres(store))
        except RequestEndedError:
            outcomes.append("ended")

    threads = [threading.Thread(target=hold, args=[request], daemon=True) for request in hogs]
    for thread in threads:
        thread.start()
    held = store._shares.held
    wait_until(lambda: held["hog"] == CONNECTIONS_OF_A_KEY)
    begun = time.monotonic()
    assert CurrentRequest(key="guest").doing(lambda: one(store)) == 1
    assert time.monotonic() - begun < SOON
    assert held["hog"] == CONNECTIONS_OF_A_KEY
    for request in hogs:
        request.end()
    for thread in threads:
        thread.join(SOON)
    assert outcomes == ["ended"] * len(hogs)
    assert not held


@pytest.mark.parametrize("seconds", [None, 0.3])
def test_neo4j_stops_a_query_when_its_request_ends(
    neo4j: Callable[..., Neo4jStore], seconds: float | None
):
    """The transaction is terminated by another connection, or by its own time limit."""
    store = neo4j()
    store.driver  # noqa: B018 - to connect is no part of it
    request = (
        CurrentRequest() if seconds is None else CurrentRequest(deadline=time.monotonic() + seconds)
    )
    with ended_after(request, 0.3) if seconds is None else nullcontext():
        assert seconds_until_ended(request, lambda: store.read(SLOW_CYPHER)) < SOON
