"""Queries in threads: so many at a time, so many that wait, and none for longer than it may take.

Those that may ask a chat model and those that ask none have places of their own, so that the second
do not wait for a model that is slow to answer the first.
"""

import asyncio
import math
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from starlette.types import ASGIApp

from pipeline.current_request import CurrentRequest
from pipeline.serve.turns import Claim, TurnedOutError, Turns
from pipeline.settings.schema import ServeSettings

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class DaemonThreads(Executor):
    """So many threads. The standard library's own executor waits for calls under way when the
    interpreter exits, and a model may take minutes to answer one."""

    def __init__(self, count: int, name: str):
        self._count = count
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        for number in range(count):
            threading.Thread(target=self._run, daemon=True, name=f"{name}-{number}").start()

    def submit(
        self,
        fn: Callable[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Result]:
        future: Future[Result] = Future()
        self._calls.put((future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets each thread end with what it is doing; waits for none of them."""
        for _ in range(self._count):
            self._calls.put(None)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - whoever waits for the result gets it
                future.set_exception(error)
            del item, future, call  # else an idle thread keeps the last query's result alive


Item = TypeVar("Item")
SEARCHES = 16
"""Queries at a time that ask no chat model. They compute, while others wait for a model: more of
them at once would make each slower, and one key's expensive ones would slow all others."""
FAIR_SHARES = 4
"""The shares into which all places are divided: a key gets one of them, unless settings say
otherwise."""
LAST_SECONDS = 1.0
"""That queries nobody waits for any more get to close their calls to a model."""
LOOK_SECONDS = 0.5
"""How often whoever waits for a query looks whether the time is up or the server ends."""


class BusyError(Exception):
    """As many queries as may wait are waiting."""


class OverdueError(Exception):
    """The query has taken all of its time."""


class ClosingError(Exception):
    """The server ends, and has no more time for the query."""


class HungUpError(Exception):
    """Who asked does not wait for the answer any more."""


async def unless_gone(
    work: Coroutine[Any, Any, Result], gone: Coroutine[Any, Any, object]
) -> Result:
    """Return what ``work`` brings. It is cancelled when ``gone`` ends first: HungUpError."""
    answer, end = asyncio.ensure_future(work), asyncio.ensure_future(gone)
    try:
        await asyncio.wait([answer, end], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise HungUpError
        return answer.result()
    finally:
        answer.cancel()
        end.cancel()


ANYBODY = Claim()


class Queries:
    """For one event loop. A query counts as running until its thread is free again, even if nobody
    waits for it any more: its work is told to end, and some work takes a moment for that."""

    def __init__(self, limits: ServeSettings):
        self.limits, self.closing = limits, False
        searches = min(SEARCHES, limits.concurrency)
        self._turns = {
            True: Turns(limits.concurrency),
            False: Turns(searches, share=math.ceil(searches / FAIR_SHARES)),
        }
        self._threads = DaemonThreads(limits.concurrency + searches, "query")
        self._steps: set[asyncio.Future[Any]] = set()

    @property
    def running(self) -> int:
        return sum(turns.running for turns in self._turns.values())

    @property
    def waiting(self) -> int:
        return sum(turns.waiting for turns in self._turns.values())

    async def run(self, work: Callable[[], Result], claim: Claim = ANYBODY) -> Result:
        """Return what ``work`` returns; it is told to end where nobody waits for that any more.

        Raises BusyError, OverdueError, ClosingError, and what ``work`` raises.
        """
        begun = await self._begin(claim)
        step = self.in_thread(begun.request.doing, work)
        step.add_done_callback(begun.end)
        try:
            while not await self.done(step, LOOK_SECONDS, begun.request.deadline):
                pass
        finally:
            if not step.done():
                begun.request.end()
        return step.result()

    async def stream(
        self, begin: Callable[[], Iterator[Item]], claim: Claim = ANYBODY
    ) -> "Stream[Item]":
        """Return the items of an iterator, the first of which is there. Raises as ``run`` does."""
        stream = Stream(self, begin(), await self._begin(claim))
        try:
            while not await stream.ready(LOOK_SECONDS):
                pass
        except BaseException:
            stream.close()
            raise
        return stream

    def end(self) -> None:
        """Nobody waits for a query any more, within LOOK_SECONDS."""
        self.closing = True

    async def close(self) -> None:
        """Let the threads go, with what is under way in them after LAST_SECONDS."""
        self.end()
        until = asyncio.get_running_loop().time() + LAST_SECONDS
        while self.running and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.02)
        self._threads.shutdown()
        for step in list(self._steps):
            step.cancel()

    def in_thread(self, work: Callable[..., Result], *arguments: Any) -> asyncio.Future[Result]:
        step = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        self._steps.add(step)
        step.add_done_callback(self._steps.discard)
        return step

    async def done(self, step: asyncio.Future[Any], seconds: float, deadline: float) -> bool:
        """Whether it is done within so many seconds. Raises OverdueError, ClosingError."""
        now = asyncio.get_running_loop().time()
        if (await asyncio.wait([step], timeout=max(0.0, min(seconds, deadline - now))))[0]:
            return True
        self.check(deadline)
        return False

    def check(self, deadline: float) -> None:
        """Raises OverdueError, ClosingError, where there is no more time."""
        if self.closing:
            raise ClosingError
        if asyncio.get_running_loop().time() >= deadline:
            raise OverdueError

    async def _begin(self, claim: Claim) -> "Begun":
        """Wait for the claim's turn."""
        if self.closing:
            raise ClosingError
        loop, turns = asyncio.get_running_loop(), self._turns[claim.chat]
        deadline = loop.time() + self.limits.timeout  # the loop's time is that of time.monotonic
        if not turns.free_for(claim) and self.waiting >= self.limits.waiting:
            self._make_room(claim)
        try:
            async with asyncio.timeout_at(deadline):
                await turns.take(claim)
        except (TimeoutError, TurnedOutError):
            raise BusyError from None

        here = threading.get_ident()

        def over() -> None:
            if threading.get_ident() == here:
                turns.give_back_share(claim.key)
                return
            with suppress(RuntimeError):  # the loop has ended, and nobody waits for a turn any more
                loop.call_soon_threadsafe(turns.give_back_share, claim.key)

        return Begun(turns, CurrentRequest(claim.shared, deadline, over))

    def _make_room(self, claim: Claim) -> None:
        """Turn out the newest request of the key of which most wait. Raises BusyError where that is
        this one's."""
        lengths = {
            (chat, key): len(queue)
            for chat, turns in self._turns.items()
            for key, queue in turns.queues.items()
        }
        longest = max(lengths, key=lambda place: lengths[place], default=None)
        if longest is None or lengths[longest] <= lengths.get((claim.chat, claim.key), 0) + 1:
            raise BusyError
        chat, key = longest
        self._turns[chat].turn_out(key)


@dataclass(frozen=True)
class Begun:
    """A query that has its turn: its place, and what its work can be told."""

    turns: Turns
    request: CurrentRequest

    def end(self, ended: asyncio.Future[Any]) -> None:
        """Give back what it took, whatever came of it."""
        if not ended.cancelled():
            # Asked for, so that asyncio does not complain where nobody waits for it any more.
            ended.exception()
        self.request.part_ended()  # first, so that the same key may be the next to have the place
        self.turns.give_back_place()


class Stream(Generic[Item]):
    """The items of a blocking iterator, each fetched in a thread. Close it: its work is told to
    end, the iterator is closed as soon as its thread is free, and then another query may run."""

    def __init__(self, queries: Queries, items: Iterator[Item], begun: Begun):
        self._queries, self._items, self._begun = queries, items, begun
        self._step = self._next()

    @property
    def deadline(self) -> float:
        return self._begun.request.deadline

    def _next(self) -> asyncio.Future[Item | None]:
        return self._queries.in_thread(self._begun.request.doing, partial(next, self._items, None))

    async def ready(self, seconds: float) -> bool:
        """Whether the next item, or the end, is there within so many seconds. Raises what the
        iterator raised, and OverdueError, ClosingError."""
        self._queries.check(self.deadline)  # also where the items come one upon the other
        if not await self._queries.done(self._step, seconds, self.deadline):
            return False
        self._step.result()
        return True

    def take(self) -> Item | None:
        """The item that is ready; None at the end. The next one is being fetched from now on."""
        item = self._step.result()
        if item is not None:
            self._step = self._next()
        return item

    def close(self) -> None:
        self._begun.request.end()
        self._step.add_done_callback(self._close)

    def _close(self, step: asyncio.Future[Any]) -> None:
        if not step.cancelled():
            step.exception()
        closing = self._queries.in_thread(_close, self._items)
        closing.add_done_callback(self._begun.end)


def _close(items: Iterator[Any]) -> None:
    close = getattr(items, "close", None)
    if close:
        close()


@dataclass(frozen=True)
class Api:
    """The application, and the queries that are under way in it."""

    app: ASGIApp
    queries: Queries
