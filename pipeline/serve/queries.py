"""Run queries in threads, with limits on how many run, how many wait, and how long each may take.

Queries that may ask a chat model and queries that ask none have separate places. The second kind
therefore never waits for a slow model.
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
from pipeline.serve.turns import Claim, Turn, TurnedOutError, Turns
from pipeline.settings.schema import ServeSettings

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class DaemonThreads(Executor):
    """An executor with a fixed number of daemon threads.

    The executor of the standard library waits for running calls when the interpreter exits, and a
    model may take minutes to answer one.
    """

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
        """Make each thread end after its present call, without waiting for any of them."""
        for _ in range(self._count):
            self._calls.put(None)

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the caller of the future gets it
                future.set_exception(error)
            # Otherwise an idle thread would keep the result of its last query in memory.
            del item, future, call


Item = TypeVar("Item")
SEARCHES = 16
"""The most queries without a chat model that run at a time. They compute, while the others wait for
a model: more at once would make each slower, and one key's expensive queries would slow all."""
FAIR_SHARES = 4
"""The number of shares of all places. A key gets one share, unless settings say otherwise."""
GIVEN_UP_SECONDS = 1.0
"""A query that was given up counts among those of its key for so long. Its place is free at once. A
client that hangs up and asks again all the time would otherwise use more of the server than one
that waits for its answers."""
REFUSED_SECONDS = 1.0
"""The delay of the refusal to a key that has too many queries waiting. A client that asks again at
once would otherwise use more of the server than one that waits."""
LAST_SECONDS = 1.0
"""The seconds that abandoned queries have to close their calls to a model."""
LOOK_SECONDS = 0.5
"""The seconds between two checks whether a query's time is up or the server ends."""


class BusyError(Exception):
    """The queue of waiting queries is full."""


class TooManyError(Exception):
    """The key has as many waiting queries as it may have."""


class OverdueError(Exception):
    """The query has taken all of its time."""


class ClosingError(Exception):
    """The server ends, and has no more time for the query."""


class HungUpError(Exception):
    """The client has disconnected and does not wait for the answer."""


async def unless_gone(
    work: Coroutine[Any, Any, Result], gone: Coroutine[Any, Any, object]
) -> Result:
    """Return the result of ``work``. If ``gone`` ends first, cancel it and raise HungUpError."""
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
    """The queries of one event loop.

    A query counts as running until its thread is free, also when nobody waits for it any more. Its
    work is then told to end, which may take a moment.
    """

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
        return sum(len(turns.running) for turns in self._turns.values())

    @property
    def waiting(self) -> int:
        return sum(turns.waiting for turns in self._turns.values())

    def others_wait(self, key: str) -> bool:
        """Return whether a query of another key waits."""
        return any(turns.others_wait(key) for turns in self._turns.values())

    async def run(self, work: Callable[[], Result], claim: Claim = ANYBODY) -> Result:
        """Run ``work`` in a thread when it is the claim's turn, and return its result.

        If this coroutine is cancelled, the work is told to end. Raises BusyError, TooManyError,
        OverdueError and ClosingError, and what ``work`` raises.
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
        """Return a stream of the items of an iterator once the first is ready.

        Raises the errors of ``run``.
        """
        stream = Stream(self, begin(), await self._begin(claim))
        try:
            while not await stream.ready(LOOK_SECONDS):
                pass
        except BaseException:
            stream.close()
            raise
        return stream

    def end(self) -> None:
        """End all queries: their callers get ClosingError within LOOK_SECONDS."""
        self.closing = True

    async def close(self) -> None:
        """End all queries, and stop the threads. Work that goes on after LAST_SECONDS is left to
        its thread."""
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
        """Wait for a step; return whether it is done within so many seconds.

        Raises OverdueError if the deadline passes first, ClosingError if the server ends.
        """
        now = asyncio.get_running_loop().time()
        timeout = max(0.0, min(seconds, deadline - now))
        finished, _ = await asyncio.wait([step], timeout=timeout)
        if finished:
            return True
        self.check(deadline)
        return False

    def check(self, deadline: float) -> None:
        """Raise OverdueError after the deadline, ClosingError if the server ends."""
        if self.closing:
            raise ClosingError
        if asyncio.get_running_loop().time() >= deadline:
            raise OverdueError

    async def _begin(self, claim: Claim) -> "Begun":
        """Wait for the claim's turn, and return the query that may run now.

        Raises BusyError if the queue is full or the turn does not come in time, TooManyError if the
        key has too many waiting, and ClosingError.
        """
        if self.closing:
            raise ClosingError
        loop, turns = asyncio.get_running_loop(), self._turns[claim.chat]
        # The loop's clock is time.monotonic, by which the request's work compares its deadline.
        deadline = loop.time() + self.limits.timeout
        if not turns.free_for(claim):
            await self._refuse_too_many(claim, turns)
            if self.waiting >= self.limits.waiting:
                self._make_room(claim)
        try:
            async with asyncio.timeout_at(deadline):
                turn = await turns.take(claim)
        except (TimeoutError, TurnedOutError):
            raise BusyError from None

        thread_of_loop = threading.get_ident()

        request = CurrentRequest(claim.shared, deadline)

        def give_back_share() -> None:
            if request.over:
                loop.call_later(GIVEN_UP_SECONDS, turns.give_back_share, claim.key)
            else:
                turns.give_back_share(claim.key)

        def when_over() -> None:
            if threading.get_ident() == thread_of_loop:
                give_back_share()
                return
            # RuntimeError: the loop has ended, and nobody waits for a turn any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(give_back_share)

        request.when_over = when_over
        return Begun(turns, turn, request)

    def count_loop(self, key: str, seconds: float) -> None:
        """Count time for which the event loop worked for a key, as a use of either kind of
        places."""
        for turns in self._turns.values():
            turns.count_loop(key, seconds)

    async def _refuse_too_many(self, claim: Claim, turns: Turns) -> None:
        """Raise TooManyError, after a delay, if half of the queries that may wait are the key's.

        A claim without a limit is the only one, and may have all of them waiting.
        """
        most = max(1, math.ceil(self.limits.waiting / 2))
        if claim.most is not None and turns.waiting_of(claim.key) >= most:
            await asyncio.sleep(REFUSED_SECONDS)
            raise TooManyError

    def _make_room(self, claim: Claim) -> None:
        """Remove the newest waiting request of the key that has most of them.

        Raises BusyError if no key would have more of them than the claim's own key with this one.
        """
        lengths = {
            (chat, key): turns.waiting_of(key)
            for chat, turns in self._turns.items()
            for key in turns.queues
        }
        longest = max(lengths, key=lengths.__getitem__, default=None)
        with_this_one = lengths.get((claim.chat, claim.key), 0) + 1
        if longest is None or lengths[longest] <= with_this_one:
            raise BusyError
        chat, key = longest
        self._turns[chat].turn_out(key)


@dataclass(frozen=True)
class Begun:
    """A query that may run: its place among the turns, and the request that its work belongs to."""

    turns: Turns
    turn: Turn
    request: CurrentRequest

    def end(self, ended: asyncio.Future[Any]) -> None:
        """Give back the place, whether the work succeeded or failed."""
        if not ended.cancelled():
            # asyncio would log an exception that nobody has read.
            ended.exception()
        # First the share, so that the same key may be the next to have the place.
        self.request.part_ended()
        self.turns.give_back_place(self.turn)


class Stream(Generic[Item]):
    """The items of a blocking iterator, each fetched in a thread.

    It must be closed. Its work is then told to end, the iterator is closed as soon as its thread is
    free, and then another query may run.
    """

    def __init__(self, queries: Queries, items: Iterator[Item], begun: Begun):
        self._queries, self._items, self._begun = queries, items, begun
        self._step = self._next()

    @property
    def deadline(self) -> float:
        return self._begun.request.deadline

    def _next(self) -> asyncio.Future[Item | None]:
        return self._queries.in_thread(self._begun.request.doing, partial(next, self._items, None))

    async def ready(self, seconds: float) -> bool:
        """Wait for the next item, or the end; return whether it is ready within so many seconds.

        Raises what the iterator raised, OverdueError and ClosingError.
        """
        # Items that follow each other closely never make ``done`` check the time.
        self._queries.check(self.deadline)
        if not await self._queries.done(self._step, seconds, self.deadline):
            return False
        self._step.result()
        return True

    def take(self) -> Item | None:
        """Return the item that is ready, None at the end, and begin to fetch the next one."""
        item = self._step.result()
        if item is not None:
            self._step = self._next()
        return item

    def close(self) -> None:
        """End the stream's work if it has not ended; then another query may run."""
        if not self._is_at_end():
            self._begun.request.end()
        self._step.add_done_callback(self._close)

    def _is_at_end(self) -> bool:
        """Return whether the iterator has no more items, or has failed."""
        if not self._step.done() or self._step.cancelled():
            return False
        return self._step.exception() is not None or self._step.result() is None

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
    """An ASGI application, and the queries that run in it."""

    app: ASGIApp
    queries: Queries
