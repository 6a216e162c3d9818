"""How far PostgreSQL is with an index is told while it builds it."""

import threading

import pytest
from sqlalchemy import text

from pipeline.stores.base import Live
from pipeline.stores.postgres import maintenance as index_progress
from pipeline.stores.postgres.maintenance import watched
from pipeline.stores.postgres.store import PostgresStore

KEY = 7_230_011
ROWS = 2_000


@pytest.fixture
def store(postgres_url: str, workspace: str):
    store = PostgresStore(postgres_url, workspace)
    yield store
    store.close()


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_progress, "LOOKS_EVERY", 0.01)


def watchers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "index progress"]


def test_pages_are_reported_while_the_index_is_built(store: PostgresStore):
    """The build waits for a lock that is released when progress is reported. If it never is, the
    build fails."""
    told: list[tuple[str, int, int]] = []
    with store.engine.connect() as holder, store.engine.connect() as building:
        holder.execute(text(f"SELECT pg_advisory_lock({KEY})"))

        def advanced(part: str, done: int, expected: int) -> None:
            told.append((part, done, expected))
            if expected > 1 and len(told) == 2:
                holder.execute(text(f"SELECT pg_advisory_unlock({KEY})"))

        building.execute(text("SET LOCAL lock_timeout = '20s'"))
        building.execute(text(
            "CREATE FUNCTION pg_temp.waiting(place int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
            f"$$ BEGIN IF place = 1 THEN PERFORM pg_advisory_xact_lock({KEY}); END IF; RETURN place; END $$"  # noqa: E501
        ))  # fmt: skip
        building.execute(
            text(f"CREATE TEMP TABLE paged AS SELECT generate_series(1, {ROWS}) AS place")
        )
        pages = building.execute(text("SELECT pg_relation_size('paged') / 8192")).scalar_one()
        with watched(building, "index of paged", advanced):
            building.execute(text("CREATE INDEX ON paged (pg_temp.waiting(place))"))
        building.rollback()
    assert told[0] == ("index of paged", 0, 1)
    assert told[1][2] == pages > 1
    assert told[-1] == ("index of paged", pages, pages)
    assert not watchers()


def test_begin_and_end_are_reported_without_progress_and_a_failed_build_raises(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        index_progress, "BUILDING", text("SELECT * FROM no_such_view WHERE pid = :process")
    )
    told: list[tuple[int, int]] = []
    with store.engine.connect() as building:
        with watched(building, "index", lambda part, done, expected: told.append((done, expected))):
            building.execute(text("SELECT pg_sleep(0.2)"))
        assert told == [(0, 1), (1, 1)]
        with (
            pytest.raises(ZeroDivisionError),
            watched(building, "index", lambda part, done, expected: told.append((done, expected))),
        ):
            raise ZeroDivisionError
        assert told == [(0, 1), (1, 1), (0, 1)]
        assert building.execute(text("SELECT 1")).scalar_one() == 1
    assert not watchers()


def test_every_index_of_a_load_is_reported(store: PostgresStore):
    told: list[str] = []
    with store.writing(
        Live("index", "1", {"model": "m"}, 3), lambda part, done, expected: told.append(part)
    ) as writer:
        writer.publish()
    assert {"index of chunks", "word index of chunks", "mention index of entities"} <= set(told)
