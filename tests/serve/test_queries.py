"""Turns, threads and streams, without a network."""

import asyncio
import threading
from typing import Any

import pytest

from pipeline.serve import responses as events
from pipeline.serve.queries import BusyError, Queries
from pipeline.serve.responses import EventStream
from pipeline.settings.schema import ServeSettings

SCOPE: dict[str, Any] = {"type": "http", "asgi": {"spec_version": "2.3"}}


async def nothing_more(*_: Any) -> Any:
    await asyncio.Event().wait()


async def hung_up() -> Any:
    return {"type": "http.disconnect"}


async def all_ended(queries: Queries) -> None:
    while queries.running:
        await asyncio.sleep(0.01)
    await queries.close()


@pytest.mark.parametrize("receive", [nothing_more, hung_up])
def test_who_does_not_read_or_is_gone_before_the_first_byte_is_cut_off(
    receive: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "UNREAD_SECONDS", 0.1)
    closed = []

    def frames():
        try:
            while True:
                yield b"frame"
        finally:
            closed.append(True)

    async def send_to_nobody() -> None:
        queries = Queries(ServeSettings(concurrency=1, timeout=0.2))
        await EventStream(await queries.stream(frames), True)(SCOPE, receive, nothing_more)
        await all_ended(queries)

    asyncio.run(send_to_nobody())
    assert closed == [True]


def test_turns_come_in_order_and_no_more_wait_than_may():
    done: list[int] = []

    async def ask() -> None:
        queries = Queries(ServeSettings(concurrency=1, waiting=3))
        asked = [
            asyncio.create_task(queries.run(lambda number=number: done.append(number)))
            for number in range(4)
        ]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await queries.run(lambda: None)
        await asyncio.gather(*asked)
        assert (queries.running, queries.waiting) == (0, 0)
        await queries.close()

    asyncio.run(ask())
    assert done == [0, 1, 2, 3]


def test_what_is_given_up_counts_until_it_ends():
    go = threading.Event()

    async def ask() -> None:
        queries = Queries(ServeSettings(concurrency=1))
        asked = asyncio.create_task(queries.run(go.wait))
        while not queries.running:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert queries.running == 1
        go.set()
        await all_ended(queries)

    asyncio.run(ask())
