"""Spacing of calls by the rate, between threads and between processes that share a database."""

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.models.cache.database import Database
from pipeline.models.endpoint.limits import SECONDS_AHEAD, SHARE_OF_THE_LIMIT, Bucket, Rate

PACE = Rate(requests_per_minute=600)
STEP = 60 / 600 / SHARE_OF_THE_LIMIT
"""Seconds between two turns. To give one must take less, on a busy machine too."""


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    urls = {"memory": lambda: "", "sqlite": lambda: f"sqlite:///{tmp_path}/cache.sqlite",
            "postgresql": lambda: request.getfixturevalue("postgres_url")}  # fmt: skip
    opened = Database(urls[request.param]())
    yield opened
    opened.close()


def bucket(database: Database, rate: Rate) -> Bucket:
    """Return a bucket that no other test uses."""
    made = Bucket(uuid.uuid4().hex, rate, database)
    made.take(0)  # the tables are made
    return made


def assert_spaced(turns: list[float], step: float) -> None:
    """Check that no second has more calls than the rate, with a tolerance for clocks and locks."""
    turns = sorted(turns)
    most = 1.1 / step + 2
    assert max(sum(start <= turn < start + 1 for turn in turns) for start in turns) <= most
    assert turns[-1] - turns[0] >= 0.9 * step * (len(turns) - 1)


def test_turns_are_spaced_by_the_rate(database: Database):
    paced = bucket(database, PACE)
    begun = time.time()
    turns = [time.time() + paced.take(0) for _ in range(150)]
    assert_spaced(turns, STEP)
    assert turns[-1] - begun == pytest.approx(150 * STEP, rel=0.5, abs=0.5)


def test_threads_share_a_bucket(database: Database):
    paced, turns = bucket(database, PACE), []

    def take() -> None:
        turns.extend(time.time() + paced.take(0) for _ in range(20))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(turns) == 160
    assert_spaced(turns, STEP)


def test_processes_share_a_bucket_through_the_database(tmp_path: Path):
    code = """
import sys, time
from pipeline.models.endpoint.limits import Bucket, Rate
from pipeline.models.cache.database import Database
database = Database(sys.argv[1])
paced = Bucket("shared", Rate(requests_per_minute=600), database)
for _ in range(60):
    print(time.time() + paced.take(0))
database.close()
"""
    url = f"sqlite:///{tmp_path}/cache.sqlite"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    turns = [
        float(line) for process in processes for line in process.communicate(timeout=60)[0].split()
    ]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(turns) == 180
    assert_spaced(turns, STEP)


def test_tokens_have_a_clock_of_their_own_and_can_be_corrected(database: Database):
    paced = bucket(database, Rate(requests_per_minute=60_000_000, tokens_per_minute=60_000))
    second = round(1000 * SHARE_OF_THE_LIMIT)
    assert paced.take(10 * second) < 1
    assert paced.take(0) == pytest.approx(10, abs=1)
    paced.correct(-5 * second)
    assert paced.take(0) == pytest.approx(5, abs=1)
    paced.correct(20 * second)
    assert paced.take(0) == pytest.approx(25, abs=1)
    paced.correct(0)
    assert Bucket(paced.name, PACE, database).take(0) < 26


def test_an_idle_bucket_saves_no_turns_up(database: Database):
    paced = bucket(database, Rate(tokens_per_minute=60_000))
    paced.correct(-1_000_000)
    paced.take(970)
    assert paced.take(0) == pytest.approx(1, abs=0.5)


def test_a_held_bucket_gives_no_turn(database: Database):
    paced, other = bucket(database, PACE), bucket(database, PACE)
    paced.hold(20)
    paced.hold(3)
    assert paced.take(0) == pytest.approx(20, abs=2)
    assert other.take(0) < 2


def test_an_urgent_call_goes_ahead_and_the_others_wait_for_it(database: Database):
    paced = bucket(database, Rate(requests_per_minute=30))
    step = 2 / SHARE_OF_THE_LIMIT
    assert [paced.take(0, urgent=True) for _ in range(10)] == [0.0] * 10
    assert paced.take(0) == pytest.approx(11 * step, abs=1)
    for _ in range(5):
        paced.take(0, urgent=True)
    assert paced.take(0, urgent=True) == pytest.approx(17 * step - SECONDS_AHEAD, abs=1)


def test_without_a_rate_nobody_waits(database: Database):
    free = bucket(database, Rate())
    assert not free.rate.limited
    assert max(free.take(10**9) for _ in range(20)) < 0.5
