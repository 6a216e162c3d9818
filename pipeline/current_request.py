"""The request that a thread works for: when its work must end, and how to end it early.

A server sets the request around its work. Stores and models read it, so that a statement or a wait
ends with the request. Outside a server there is none, and work has no time limit.
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
"""Time that a wait has to end by itself once its request has ended. Cancelling a statement needs a
connection of its own, which costs the server more than most statements. Without this delay, clients
that hang up often would cause much load."""
PAUSE_SECONDS = 1.0
"""Time between two attempts to interrupt a wait."""
BreakOff = Callable[[], object]
"""Function that interrupts what a thread waits for. Another thread calls it, and repeats the call
only if that was requested."""


@dataclass
class _Breakable:
    """Hold a wait that can be interrupted.

    ``over``: the wait has ended or was interrupted. ``again``: one attempt may have no effect, so
    that attempts are repeated until the wait has ended.
    """

    break_off: BreakOff
    again: bool
    over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self) -> bool:
        """Interrupt the wait if it is not over. Return whether another attempt is needed."""
        with self.lock:
            if self.over:
                return False
            try:
                self.break_off()
            except Exception:
                # The other waits of the request must still be interrupted.
                LOG.exception("a wait of a request that has ended could not be broken off")
            self.over = not self.again
            return self.again

    def leave(self) -> None:
        """Record that the wait is over. If it is being interrupted right now, wait for that to
        finish."""
        with self.lock:
            self.over = True


@dataclass
class CurrentRequest:
    """Hold one request. One thread at a time works for it.

    ``key`` names the caller among others who share the stores; None if there are no others.
    ``deadline`` is a time of ``time.monotonic``. ``when_over`` is called in any thread, once the
    work and all its abandoned calls have ended.
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
        """True when nobody waits for the work any more, or its time is up."""
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
        """Ask the work to end as soon as it can, without waiting for it."""
        with self._lock:
            self._ended = True
            breakables = list(self._breakables)
        if breakables:
            # Interrupting a statement needs a connection to the server. An event loop must not
            # wait for that.
            threading.Thread(
                target=_end_all, args=[breakables], daemon=True, name="end of a request"
            ).start()

    @contextmanager
    def breakable(self, break_off: BreakOff, again: bool = False) -> Iterator[None]:
        """Call ``break_off`` if the request ends within the block; never call it after the block.

        ``again``: repeat the call until the block ends. That is needed where a call between two
        statements would interrupt neither. Raises RequestEndedError if the request is already over.
        """
        breakable = _Breakable(break_off, again)
        with self._lock:
            self._breakables.append(breakable)
        try:
            # The check follows the registration: a request that ends after it calls break_off.
            self.check()
            yield
        finally:
            with self._lock:
                self._breakables.remove(breakable)
            breakable.leave()

    def part_begun(self) -> None:
        """Count a call that may outlast the work, such as a model call that cannot be
        interrupted."""
        with self._lock:
            self._parts += 1

    def part_ended(self) -> None:
        """Record that the work or such a call has ended. Call ``when_over`` after the last one."""
        with self._lock:
            self._parts -= 1
            last = self._parts == 0
        if last:
            self.when_over()

    def doing(self, work: Callable[[], Result]) -> Result:
        """Run ``work`` with this request as the current one, and return its result."""
        token = _CURRENT.set(self)
        try:
            return work()
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[CurrentRequest | None] = ContextVar("current_request", default=None)


def current_request() -> CurrentRequest | None:
    """Return the request that this thread works for, or None."""
    return _CURRENT.get()


def check_request() -> None:
    """Raise RequestEndedError if the request that this thread works for is over."""
    request = _CURRENT.get()
    if request is not None:
        request.check()


@contextmanager
def breakable(break_off: BreakOff, again: bool = False) -> Iterator[None]:
    """Call ``break_off`` if the request that this thread works for ends within the block.

    ``again``: repeat the call until the block ends. Raises RequestEndedError if the request is
    already over.
    """
    request = _CURRENT.get()
    if request is None:
        yield
        return
    with request.breakable(break_off, again):
        yield


def left_when_over(work: Callable[[], Result], discard: Callable[[Result], object]) -> Result:
    """Return the result of ``work``, or abandon it if the request ends first.

    It is for a call that cannot be interrupted. The call runs in a thread of its own, and
    ``discard`` receives a result that comes too late. Raises RequestEndedError if the request ends,
    and every exception of ``work``.
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
    """Hold a call that another thread makes, and that the waiting thread may abandon."""

    work: Callable[[], Result]
    discard: Callable[[Result], object]
    request: CurrentRequest
    made: "queue.SimpleQueue[Result | BaseException]" = field(default_factory=queue.SimpleQueue)
    answered: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def make(self) -> None:
        """Run the work and hand over its result, or discard it if nobody waits any more."""
        try:
            result: Result | BaseException = self.work()
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            result = error
        if not self._answer(result) and not isinstance(result, BaseException):
            self.discard(result)
        self.request.part_ended()

    def leave(self) -> None:
        """Let the waiting thread continue with a RequestEndedError."""
        self._answer(
            RequestEndedError("query: the request ended while a call was under way; ask again")
        )

    def _answer(self, result: Result | BaseException) -> bool:
        """Hand over the first result only. Return whether this was the first."""
        with self.lock:
            first = not self.answered
            self.answered = True
        if first:
            self.made.put(result)
        return first


def _end_all(breakables: list[_Breakable]) -> None:
    """Interrupt the waits after a grace period, and repeat this as long as one of them needs it."""
    time.sleep(GRACE_SECONDS)
    waiting = [each for each in breakables if each.end()]
    while waiting:
        time.sleep(PAUSE_SECONDS)
        waiting = [each for each in waiting if each.end()]
