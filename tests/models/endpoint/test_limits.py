"""Concurrency of calls: lower when the endpoint is too busy, higher again when it answers."""

import threading
import time
import uuid
from collections.abc import Callable
from itertools import pairwise

import pytest

from pipeline.models.cache.database import Database
from pipeline.models.conversations import StoppedError
from pipeline.models.endpoint import limits
from pipeline.models.endpoint.limits import Bucket, Limiter, Place, Rate, sleep

LONG = 30.0
NEVER = threading.Event()


def limiter(most: int, rate: Rate = Rate()) -> Limiter:
    return Limiter(most, Bucket(uuid.uuid4().hex, rate, Database("")))


def in_threads(number: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()


@pytest.mark.parametrize("allowed", [1, 2, 5])
def test_no_more_than_what_is_allowed_is_under_way(allowed: int):
    limit = limiter(5)
    limit.allowed = float(allowed)
    seen: list[int] = []
    full = threading.Event()

    def work() -> None:
        for _ in range(10):
            with limit.wait_for_turn(0, NEVER):
                seen.append(limit.under_way)
                if seen[-1] >= allowed:
                    full.set()
                assert full.wait(
                    LONG
                )  # the first hold their turns until there are as many as may be

    in_threads(8, work)
    assert len(seen) == 80
    assert max(seen) == allowed
    assert limit.under_way == 0


def test_one_overload_halves_what_is_allowed_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "SECONDS_BETWEEN_CUTS", LONG)
    limit = limiter(16)
    for _ in range(16):
        limit.record_overload(0)
    assert limit.allowed == 8


def test_concurrency_falls_to_one_and_rises_again_to_its_maximum(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "SECONDS_BETWEEN_CUTS", 0.0)
    limit = limiter(16)
    for expected in (8, 4, 2, 1, 1):
        limit.record_overload(0)
        assert limit.allowed == expected
    limit.record_success(Place(1, 0.0))
    assert limit.allowed == 2
    ups = [limit.allowed for _ in range(200) if limit.record_success(Place(1, 0.0)) is None]
    assert ups == sorted(ups)
    assert all(after - before <= 0.5 for before, after in pairwise(ups))
    assert ups[-1] == 16


def test_no_call_starts_during_a_hold():
    limit = limiter(4)
    begun = time.monotonic()
    limit.record_overload(0.4)
    limit.record_overload(0.1)
    starts: list[float] = []

    def work() -> None:
        with limit.wait_for_turn(0, NEVER):
            starts.append(time.monotonic() - begun)

    in_threads(4, work)
    assert min(starts) >= 0.39


def test_a_hold_is_told_to_those_who_share_the_bucket():
    limit = limiter(4, Rate(requests_per_minute=6_000))
    limit.bucket.take(0)
    limit.record_overload(20)
    assert limit.bucket.take(0) > 18


def test_a_call_that_waits_for_its_turn_ends_when_the_work_is_stopped():
    limit, stop, left = limiter(1), threading.Event(), []

    def wait() -> None:
        try:
            with limit.wait_for_turn(0, stop):
                left.append("came in")
        except StoppedError:
            left.append("left")

    with limit.wait_for_turn(0, NEVER):
        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        stop.set()
        for thread in threads:
            thread.join(LONG)
    assert left == ["left"] * 3
    with pytest.raises(StoppedError):
        sleep(LONG, stop)
    assert limit.under_way == 0


def test_a_place_is_free_again_after_an_error():
    limit = limiter(1)
    with pytest.raises(RuntimeError), limit.wait_for_turn(0, NEVER):
        raise RuntimeError
    with limit.wait_for_turn(0, NEVER):
        assert limit.under_way == 1


def test_a_cut_is_for_all_calls_that_were_sent_before_it():
    limit = limiter(16)
    limit.under_way = 10
    began = time.monotonic()
    assert all(limit.record_timeout(Place(level, began)) for level in (16, 12, 9))
    assert limit.allowed == 8
    assert limit.record_timeout(Place(8, time.monotonic()))
    assert limit.allowed == 4


def test_the_level_at_which_calls_timed_out_is_never_reached_again():
    limit = limiter(16)
    limit.under_way = 10
    limit.record_success(Place(1, 0.0))
    assert limit.record_timeout(Place(9, 1.0))
    assert limit.allowed == 4.5
    ups = [limit.allowed for _ in range(500) if limit.record_success(Place(1, 0.0)) is None]
    assert all(after - before <= limits.GROWTH_AFTER_TIMEOUTS for before, after in pairwise(ups))
    assert ups[-1] == 8


def test_a_call_that_later_ones_overtook_is_slow_by_itself():
    limit = limiter(16)
    limit.under_way = 10
    limit.record_success(Place(5, 2.0))
    assert not limit.record_timeout(Place(16, 1.0))
    assert limit.allowed == 16


def test_many_overtaken_calls_are_an_overload():
    limit = limiter(16)
    limit.under_way = 10
    for _ in range(8):
        limit.record_success(Place(5, 2.0))
    for _ in range(limits.MANY_OVERTAKEN):
        assert not limit.record_timeout(Place(16, 1.0))
    assert limit.allowed == 8
    assert limit.ceiling == 15


def test_a_call_alone_at_the_server_is_slow_by_itself():
    limit = limiter(16)
    assert not limit.record_timeout(Place(16, time.monotonic()))
    limit.under_way = 3
    assert not limit.record_timeout(Place(1, time.monotonic()))
    assert (limit.allowed, limit.note("x")) == (16, "")
