"""Calls at the same time: the one place with threads for model calls."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from pipeline.errors import AuthError, ModelError
from pipeline.models.base import ChatReply, ChatRequest, Result
from pipeline.models.exchange import Exchange

Item = TypeVar("Item")
Done = TypeVar("Done")
SECONDS_FOR_THE_HOPELESS = 2.0
FOLLOW_UP, FIRST = 0, 1

Asked = tuple[str, ChatRequest]
Answered = tuple[str, ChatReply]


class StoppedError(Exception):
    """The work has been stopped while a call waited for its turn."""


@dataclass
class Workers(Generic[Item, Done]):
    """``work(item)`` for every item that is put, ``threads`` at a time, follow-ups first. ``stop`` is set when the
    work is to end: no item is started any more. ``grace``: seconds that calls under way then get to end."""

    work: Callable[[Item], Done]
    threads: int
    stop: threading.Event
    grace: float

    def __post_init__(self) -> None:
        self._items: queue.PriorityQueue[tuple[int, int, Item | None]] = queue.PriorityQueue()
        self._done: queue.SimpleQueue[Done | BaseException] = queue.SimpleQueue()
        self._count = count()
        self._threads: list[threading.Thread] = []
        self.outstanding = 0

    def put(self, item: Item, priority: int = FIRST) -> None:
        self._items.put((priority, next(self._count), item))
        self.outstanding += 1
        if len(self._threads) < min(self.threads, self.outstanding):
            # Daemons, and no ThreadPoolExecutor: the interpreter would wait for an executor's calls before it exits.
            self._threads.append(threading.Thread(target=self._run, daemon=True))
            self._threads[-1].start()

    def result(self) -> Done:
        """What the next finished item brought. Raises what it raised."""
        result = self._done.get()
        self.outstanding -= 1
        if isinstance(result, BaseException):
            raise result
        return result

    def results(self) -> Iterator[Done]:
        """The next result, and all that are there with it."""
        yield self.result()
        while self.outstanding and not self._done.empty():
            yield self.result()

    def end(self, error: BaseException | None = None) -> None:
        """Let the threads go; after an error, calls under way are waited for: they are paid for."""
        self.stop.set()
        for _ in self._threads:
            self._items.put((FOLLOW_UP - 1, next(self._count), None))
        if error is None:
            return
        hopeless = isinstance(error, AuthError | ModelError)
        deadline = time.monotonic() + (SECONDS_FOR_THE_HOPELESS if hopeless else self.grace)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while True:
            _, _, item = self._items.get()
            if item is None or self.stop.is_set():
                return
            try:
                self._done.put(self.work(item))
            except StoppedError:
                return
            except BaseException as error:
                self.stop.set()
                self._done.put(error)


def in_parallel(
    items: Iterable[Item], workers: Workers[Item, Done], ended: Callable[[Done], None] | None = None
) -> list[Done]:
    """What came of all items, as they ended, each of which ``ended`` hears in this thread. The first exception, or
    Ctrl-C, ends the work."""
    done = []
    try:
        for item in items:
            workers.put(item)
        while workers.outstanding:
            done.append(workers.result())
            if ended:
                ended(done[-1])
    except BaseException as error:
        workers.end(error)
        raise
    workers.end()
    return done


def converse(exchange: Exchange[Result], workers: Workers[Asked, Answered]) -> list[Result]:
    """Drive all conversations, each as soon as its replies are there. ``workers.work`` takes (key, request) and
    returns (key, reply)."""
    begun: Mapping[str, ChatRequest] | None = {}
    try:
        while begun is not None or workers.outstanding:
            while begun is not None and workers.outstanding < 2 * workers.threads:
                begun = exchange.begin()
                for item in (begun or {}).items():
                    workers.put(item)
            if workers.outstanding:
                for item in exchange.answer(dict(workers.results())).items():
                    workers.put(item, FOLLOW_UP)
    except BaseException as error:
        workers.end(error)
        exchange.settle()
        raise
    workers.end()
    exchange.settle()
    return exchange.results()
