"""The request that a thread works for: when its work has to end, and how to end it early.

A server sets it around the work of a request. Stores and models ask for it, so that a statement or
a wait ends with the request. Elsewhere there is none, and work takes as long as it takes.
"""

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pipeline.errors import RequestEndedError

LOG = logging.getLogger("graphmill.serve")
Result = TypeVar("Result")
GRACE_SECONDS = 0.2
"""That a wait gets to end by itself once its request has ended. To cancel a statement takes a
connection of its own, which costs the server more than most statements do: who hangs up often would
make it work."""
PAUSE_SECONDS = 1.0
"""Between two attempts to break off a wait."""
BreakOff = Callable[[], object]
"""Ends what a thread waits for. Another thread calls it, and more than once only where that was
asked for."""


@dataclass
class _Breakable:
    """Hold a wait that can be broken off.

    ``over``: the wait has ended, or was broken off. ``again``: one attempt may be lost, so that
    more follow until the wait has ended.
    """

    break_off: BreakOff
    again: bool
    over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self) -> bool:
        """Break the wait off if it goes on; return whether to try again."""
        with self.lock:
            if self.over:
                return False
            try:
                self.break_off()
            except Exception:
                # The other waits of the request must be broken off all the same.
                LOG.exception("a wait of a request that has ended could not be broken off")
            self.over = not self.again
            return self.again

    def leave(self) -> None:
        """Note that the wait is over. While it is being broken off, wait for that to end."""
        with self.lock:
            self.over = True


@dataclass
class CurrentRequest:
    """Hold one request, of which one thread at a time does the work.

    ``key`` names who asks among others who share the stores, and is None where nobody else asks.
    ``deadline`` is a time of ``time.monotonic``. ``when_over`` is called, in any thread, once the
    work has ended and no call of it goes on that was left behind.
    """

    key: str | None = None
    deadline: float = math.inf
    when_over: Callable[[], object] = lambda: None
    reading: int = 0
    _ended: bool = False
    _parts: int = 1
    _breakables: list[_Breakable] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def over(self) -> bool:
        """Return whether nobody waits for the work any more, or its time is up."""
        return self._ended or time.monotonic() >= self.deadline

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def check(self) -> None:
        """Raise RequestEndedError if the request is over."""
        if self.over:
            raise RequestEndedError(
                "query: nobody waits for the answer any more, or its time is up; ask again"
            )

    def end(self) -> None:
        """Let the work end as soon as it can, and do not wait for that."""
        with self._lock:
            self._ended = True
            breakables = list(self._breakables)
        if breakables:
            # To break off a statement takes a connection to the server, which no event loop may
            # wait for.
            threading.Thread(
                target=_end_all, args=[breakables], daemon=True, name="end of a request"
            ).start()

    @contextmanager
    def breakable(self, break_off: BreakOff, again: bool = False) -> Iterator[None]:
        """Have ``break_off`` called if the request ends within the block, and never after the
        block.

        ``again``: call it until the block ends, as where a call between two statements ends
        neither. Raises RequestEndedError where the request is over already.
        """
        breakable = _Breakable(break_off, again)
        with self._lock:
            self._breakables.append(breakable)
        try:
            self.check()  # after it is known: a request that ends from now on breaks it off
            yield
        finally:
            with self._lock:
                self._breakables.remove(breakable)
            breakable.leave()

    def part_begun(self) -> None:
        """Note a call that may outlast the work, as one to a model does that cannot be broken
        off."""
        with self._lock:
            self._parts += 1

    def part_ended(self) -> None:
        """Note that the work, or such a call, has ended."""
        with self._lock:
            self._parts -= 1
            last = self._parts == 0
        if last:
            self.when_over()

    def doing(self, work: Callable[[], Result]) -> Result:
        """Return what ``work`` returns; it finds this request as the current one."""
        token = _CURRENT.set(self)
        try:
            return work()
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[CurrentRequest | None] = ContextVar("current_request", default=None)


def current_request() -> CurrentRequest | None:
    """Return the request that this thread works for; None where it works for none."""
    return _CURRENT.get()


def check_request() -> None:
    """Raise RequestEndedError if the request that this thread works for is over."""
    request = _CURRENT.get()
    if request is not None:
        request.check()


@contextmanager
def breakable(break_off: BreakOff, again: bool = False) -> Iterator[None]:
    """Have ``break_off`` called if the request that this thread works for ends within the block.

    ``again``: call it until the block ends.
    """
    request = _CURRENT.get()
    if request is None:
        yield
        return
    with request.breakable(break_off, again):
        yield


def left_when_over(work: Callable[[], Result], discard: Callable[[Result], object]) -> Result:
    """Return what ``work`` returns, or leave it behind when the request ends before it.

    For a call that cannot be broken off: a thread of its own waits for it, and ``discard`` gets
    what comes too late. Raises RequestEndedError when the request ends, and what ``work`` raises.
    """
    request = _CURRENT.get()
    if request is None:
        return work()
    call = _Call(work, discard, request)
    with request.breakable(call.leave):
        request.part_begun()
        threading.Thread(target=call.make, daemon=True, name="call").start()
        result = call.made.get()
    if isinstance(result, BaseException):
        raise result
    return result


@dataclass
class _Call(Generic[Result]):
    """Hold work that one thread does for another, which may leave it."""

    work: Callable[[], Result]
    discard: Callable[[Result], object]
    request: CurrentRequest
    made: "queue.SimpleQueue[Result | BaseException]" = field(default_factory=queue.SimpleQueue)
    answered: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def make(self) -> None:
        try:
            result: Result | BaseException = self.work()
        except BaseException as error:  # noqa: BLE001 - whoever waits for the result gets it
            result = error
        if not self._answer(result) and not isinstance(result, BaseException):
            self.discard(result)
        self.request.part_ended()

    def leave(self) -> None:
        self._answer(
            RequestEndedError("query: the request ended while a call was under way; ask again")
        )

    def _answer(self, result: Result | BaseException) -> bool:
        """Give the one who waits the first result; return whether it was this one."""
        with self.lock:
            first = not self.answered
            self.answered = True
        if first:
            self.made.put(result)
        return first


def _end_all(breakables: list[_Breakable]) -> None:
    time.sleep(GRACE_SECONDS)
    waiting = [each for each in breakables if each.end()]
    while waiting:
        time.sleep(PAUSE_SECONDS)
        waiting = [each for each in waiting if each.end()]
