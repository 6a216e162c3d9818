"""Queries in threads: so many at a time, so many that wait, and none for longer than it may take."""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from starlette.types import ASGIApp

from pipeline.settings.schema import ServeSettings

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class DaemonThreads(Executor):
    """So many threads. The standard library's own executor waits for calls under way when the interpreter exits, and a
    model may take minutes to answer one."""

    def __init__(self, count: int, name: str):
        self._count = count
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        for number in range(count):
            threading.Thread(target=self._run, daemon=True, name=f"{name}-{number}").start()

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
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


class Queries:
    """For one event loop. A query counts as running until its thread is free again, even if nobody waits for it any
    more: a call to a model cannot always be broken off at once."""

    def __init__(self, limits: ServeSettings):
        self.limits, self.running, self.waiting, self.closing = limits, 0, 0, False
        self._threads = DaemonThreads(limits.concurrency, "query")
        self._free = asyncio.Semaphore(limits.concurrency)
        self._steps: set[asyncio.Future[Any]] = set()

    async def run(self, work: Callable[[], Result]) -> Result:
        """What ``work`` returns. Raises BusyError, OverdueError, ClosingError, and what it raises."""
        deadline = self._deadline()
        await self._take_turn(deadline)
        step = self.in_thread(work)
        step.add_done_callback(self.give_back)
        while not await self.done(step, LOOK_SECONDS, deadline):
            pass
        return step.result()

    async def stream(self, begin: Callable[[], Iterator[Item]]) -> "Stream[Item]":
        """The items of an iterator, the first of which is there. Raises as ``run`` does."""
        deadline = self._deadline()
        await self._take_turn(deadline)
        stream = Stream(self, begin(), deadline)
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

    def give_back(self, ended: asyncio.Future[Any]) -> None:
        """The query has ended, whatever came of it."""
        if not ended.cancelled():
            ended.exception()  # asked for, so that asyncio does not complain where nobody waits for it any more
        self.running -= 1
        self._free.release()

    async def _take_turn(self, deadline: float) -> None:
        if self.closing:
            raise ClosingError
        if self._free.locked() and self.waiting >= self.limits.waiting:
            raise BusyError
        self.waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._free.acquire()
        except TimeoutError:
            raise BusyError from None
        finally:
            self.waiting -= 1
        self.running += 1

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.limits.timeout


class Stream(Generic[Item]):
    """The items of a blocking iterator, each fetched in a thread. Close it: the iterator is closed as soon as its
    thread is free, and then another query may run."""

    def __init__(self, queries: Queries, items: Iterator[Item], deadline: float):
        self._queries, self._items, self.deadline = queries, items, deadline
        self._step = self._next()

    def _next(self) -> asyncio.Future[Item | None]:
        return self._queries.in_thread(next, self._items, None)

    async def ready(self, seconds: float) -> bool:
        """Whether the next item, or the end, is there within so many seconds. Raises what the iterator raised, and
        OverdueError, ClosingError."""
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
        self._step.add_done_callback(self._close)

    def _close(self, step: asyncio.Future[Any]) -> None:
        if not step.cancelled():
            step.exception()
        closing = self._queries.in_thread(_close, self._items)
        closing.add_done_callback(self._queries.give_back)


def _close(items: Iterator[Any]) -> None:
    close = getattr(items, "close", None)
    if close:
        close()


@dataclass(frozen=True)
class Api:
    """The application, and the queries that are under way in it."""

    app: ASGIApp
    queries: Queries
