"""Run conversations with a chat model, and the worker threads that make their calls."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice
from typing import Any, Generic, Protocol, TypeVar, overload

from pipeline.current_request import breakable, current_request
from pipeline.errors import (
    AuthError,
    ModelError,
    NoSuchModelError,
    RequestEndedError,
    StoreError,
    counted,
)
from pipeline.files import tell
from pipeline.models.base import ChatReply, ChatRequest, Result, Talk, UsesAllReplies
from pipeline.spans import below, current_span

Made = TypeVar("Made")
_MAKING = threading.RLock()
"""One lock for all cached values, reentrant because one of them may need others."""
ROWS_AT_ONCE = 500
"""Number of conversations that begin together, so that one cache lookup serves them all."""
Heard = Callable[[ChatRequest, ChatReply], None]
"""Function that is called for each request answered without a call."""
Ask = Callable[[Mapping[str, ChatRequest]], Mapping[str, ChatReply]]
"""Function that makes the calls for requests by key, and returns the replies by key."""
Item = TypeVar("Item")
Done = TypeVar("Done")
SECONDS_FOR_THE_HOPELESS = 2.0
"""Time that calls under way have to end after an error that they would meet as well."""
SECONDS_IN_SILENCE = 1.0
"""Time after Ctrl-C before a message says why the command still runs."""
FOLLOW_UP, FIRST = 0, 1
"""Priorities of the work queue: a conversation that has begun goes before new ones."""
KeyedRequest = tuple[str, ChatRequest]
KeyedReply = tuple[str, ChatReply]


class made_once(cached_property[Made]):  # noqa: N801 - a decorator
    """``cached_property`` that computes its value once even with several threads.

    Since Python 3.12, ``cached_property`` itself has no lock.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "made_once[Made]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Made: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
        with _MAKING:
            return super().__get__(instance, owner)


def made_once_each(make: Callable[[str], Made]) -> Callable[[str], Made]:
    """Return a function that calls ``make`` once per name and caches the result; it is
    thread-safe."""
    made: dict[str, Made] = {}

    def made_of(name: str) -> Made:
        with _MAKING:
            if name not in made:
                made[name] = make(name)
            return made[name]

    return made_of


class Memory(Protocol):
    """Store of known replies."""

    def key(self, request: ChatRequest) -> str: ...

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        """Return the known replies that may be served, by key."""
        ...

    def flag(self, valid: Mapping[str, bool]) -> None:
        """Record for each key whether its stored reply may be served from now on."""
        ...


@dataclass
class _Row(Generic[Result]):
    """State of one conversation.

    ``keys`` are the keys of its current requests in order, and ``replies`` are the replies to them
    so far. ``good`` says of each earlier reply whether it was good. ``mended_by`` maps the key of a
    bad reply to the keys of the requests that mend it.
    """

    position: int
    talk: Talk[Result]
    keys: list[str] = field(default_factory=list)
    replies: dict[str, ChatReply] = field(default_factory=dict)
    good: dict[str, bool] = field(default_factory=dict)
    mended_by: dict[str, list[str]] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        return all(key in self.replies for key in self.keys)

    def is_kept(self, key: str, mending: frozenset[str] = frozenset()) -> bool:
        """Return whether the reply with this key may be served from now on.

        A bad reply is kept if other requests mend it, and all their replies are kept. ``mending``
        holds the keys on the current path, so that no reply mends itself through others.
        """
        if self.good.get(key, False):
            return True
        menders = [] if key in mending else self.mended_by.get(key, [])
        return bool(menders) and all(self.is_kept(mender, mending | {key}) for mender in menders)


@dataclass
class Exchange(Generic[Result]):
    """Run many conversations, which begin as they are needed.

    Equal requests of several conversations are made once. ``heard`` is called for each request that
    needed no call.
    """

    talks: Iterable[Talk[Result]]
    memory: Memory
    heard: Heard

    def __post_init__(self) -> None:
        self._waiting_to_begin = iter(enumerate(self.talks))
        self._results: dict[int, Result] = {}
        self._waiting_for: dict[str, list[tuple[_Row[Result], ChatRequest]]] = {}
        self._flags: dict[str, bool] = {}

    def begin(self, rows: int = ROWS_AT_ONCE) -> dict[str, ChatRequest] | None:
        """Begin the next conversations. Return their requests without a known reply, by key.

        Returns None when all conversations have begun.
        """
        begun = [_Row(position, talk) for position, talk in islice(self._waiting_to_begin, rows)]
        if not begun:
            self.settle()
            return None
        return self._advance([(row, None) for row in begun])

    def answer(self, replies: Mapping[str, ChatReply]) -> dict[str, ChatRequest]:
        """Pass replies to the conversations that wait for them. Return their next unknown requests
        by key."""
        ready: list[tuple[_Row[Result], Sequence[ChatReply] | None]] = []
        for key, reply in replies.items():
            for place, (row, request) in enumerate(self._waiting_for.pop(key)):
                # The first conversation paid for the call; the others share its reply.
                is_first = place == 0
                row.replies[key] = reply if is_first else self._share(request, reply)
                if row.answered:
                    ready.append((row, [row.replies[own] for own in row.keys]))
        return self._advance(ready)

    def settle(self) -> None:
        """Tell the memory which replies were good."""
        self.memory.flag(self._flags)
        self._flags = {}

    def results(self) -> list[Result]:
        """Return the results of all conversations in order. All must have ended."""
        return [self._results[position] for position in range(len(self._results))]

    def _advance(
        self, ready: Sequence[tuple[_Row[Result], Sequence[ChatReply] | None]]
    ) -> dict[str, ChatRequest]:
        """Resume conversations with their replies until each of them ends or waits for a call.

        Returns the requests that need a call, by key. Replies are None for a conversation that
        begins.
        """
        unknown: dict[str, ChatRequest] = {}
        while ready:
            asked: list[tuple[_Row[Result], str, ChatRequest]] = []
            for row, replies in ready:
                asked += [(row, key, request) for key, request in self._resume(row, replies)]
            ready = self._recall(asked, unknown)
        return unknown

    def _resume(
        self, row: _Row[Result], replies: Sequence[ChatReply] | None
    ) -> list[tuple[str, ChatRequest]]:
        """Resume one conversation with its replies. Return its next requests with their keys.

        The list is empty if the conversation has ended.
        """
        for key in row.keys:
            row.good[key] = row.replies[key].good
        try:
            requests = row.talk.send(replies) if replies is not None else next(row.talk)
            while not requests:
                requests = row.talk.send(())
        except StopIteration as end:
            self._finish(row, end.value)
            return []
        row.keys = [self.memory.key(request) for request in requests]
        row.replies = {}
        keyed = list(zip(row.keys, requests, strict=True))
        for key, request in keyed:
            if request.mends:
                mended_key = self.memory.key(request.mends)
                row.mended_by.setdefault(mended_key, []).append(key)
        return keyed

    def _finish(self, row: _Row[Result], result: Result) -> None:
        """Store the result of a conversation, and decide which of its replies are kept."""
        self._results[row.position] = result
        uses_all = isinstance(result, UsesAllReplies) and result.uses_all_replies
        for key in row.good:
            # A reply that two conversations share is kept if both of them keep it.
            kept_by_others = self._flags.get(key, True)
            self._flags[key] = kept_by_others and (uses_all or row.is_kept(key))
        row.keys = []

    def _recall(
        self,
        asked: Sequence[tuple[_Row[Result], str, ChatRequest]],
        unknown: dict[str, ChatRequest],
    ) -> list[tuple[_Row[Result], Sequence[ChatReply] | None]]:
        """Give known replies to the requests, and let the other requests wait.

        Adds the requests that need a call to ``unknown``. Returns the conversations that can go on,
        with their replies.
        """
        # A conversation that makes the same request twice waits for it once.
        distinct = {(id(row), key): (key, row, request) for row, key, request in asked}
        wanted = {
            key: request for key, _, request in distinct.values() if key not in self._waiting_for
        }
        known = self.memory.recall(wanted)
        rows = {id(row): row for _, row, _ in distinct.values()}
        for key, row, request in distinct.values():
            if key in known:
                row.replies[key] = known[key]
                self.heard(request, known[key])
                continue
            if key not in self._waiting_for:
                unknown[key] = request
            self._waiting_for.setdefault(key, []).append((row, request))
        return [
            (row, [row.replies[key] for key in row.keys]) for row in rows.values() if row.answered
        ]

    def _share(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        """Return the reply marked as cached, and report the request as answered without a call."""
        shared = replace(reply, cached=True)
        self.heard(request, shared)
        return shared


def in_rounds(exchange: Exchange[Result], ask: Ask) -> list[Result]:
    """Run all conversations in rounds: each call of ``ask`` gets the requests of all of them.

    Returns their results in order.
    """
    unknown: dict[str, ChatRequest] = {}
    while (more := exchange.begin()) is not None:
        unknown |= more
    while unknown:
        unknown = exchange.answer(ask(unknown))
    exchange.settle()
    return exchange.results()


class StoppedError(Exception):
    """The work was stopped while a call waited for its turn."""


@dataclass
class Workers(Generic[Item, Done]):
    """Worker threads that call ``work(item)`` for each item that is put.

    At most ``threads`` run at a time, and follow-ups go first. When ``stop`` is set, no further
    item is started. ``grace`` is the time in seconds that calls under way then have to end.
    """

    work: Callable[[Item], Done]
    threads: int
    stop: threading.Event
    grace: float

    def __post_init__(self) -> None:
        self._items: queue.PriorityQueue[tuple[int, int, Item | None]] = queue.PriorityQueue()
        self._done: queue.SimpleQueue[Done | BaseException] = queue.SimpleQueue()
        self._count = count()
        self._threads: list[threading.Thread] = []
        self._request = current_request()
        self._span = current_span()
        self.outstanding = 0

    def put(self, item: Item, priority: int = FIRST) -> None:
        """Add an item to the queue, and start another thread if one is needed and allowed."""
        self._items.put((priority, next(self._count), item))
        self.outstanding += 1
        if len(self._threads) < min(self.threads, self.outstanding):
            # Daemon threads instead of a ThreadPoolExecutor: the interpreter would wait for the
            # executor's calls before it exits.
            thread = threading.Thread(target=self._work_on_items, daemon=True)
            self._threads.append(thread)
            thread.start()

    def result(self) -> Done:
        """Wait for the next finished item and return its result.

        Raises the exception of that item. Raises RequestEndedError when the current request ends:
        calls under way then continue by themselves, and their results are kept.
        """
        ended = RequestEndedError("query: the request ended while a call was under way; ask again")
        with breakable(lambda: self._done.put(ended)):
            result = self._done.get()
        self.outstanding -= 1
        if isinstance(result, BaseException):
            raise result
        return result

    def results(self) -> Iterator[Done]:
        """Yield the next result, then all results that are already available."""
        yield self.result()
        while self.outstanding and not self._done.empty():
            yield self.result()

    def end(self, error: BaseException | None = None) -> None:
        """Stop the threads. After an error, wait for calls under way, because they are paid for.

        After an error that the calls would meet as well, the wait is short. After RequestEndedError
        there is no wait.
        """
        self.stop.set()
        for _ in self._threads:
            self._items.put((FOLLOW_UP - 1, next(self._count), None))
        if error is None or isinstance(error, RequestEndedError):
            return
        is_hopeless = isinstance(error, AuthError | ModelError | NoSuchModelError)
        seconds = SECONDS_FOR_THE_HOPELESS if is_hopeless else self.grace
        begun = time.monotonic()
        self._join(begun + min(seconds, SECONDS_IN_SILENCE))
        under_way = len([thread for thread in self._threads if thread.is_alive()])
        is_interrupted = isinstance(error, KeyboardInterrupt)
        if under_way and is_interrupted and seconds > SECONDS_IN_SILENCE:
            tell(
                f"{counted(under_way, 'call')} under way: waited for up to {seconds:,.0f} s; Ctrl-C"
                " again leaves them"
            )
        self._join(begun + seconds)

    def _join(self, deadline: float) -> None:
        """Wait for the threads until the deadline, a time of ``time.monotonic``."""
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work_on_items(self) -> None:
        """Process items from the queue until None is taken or the work is stopped.

        Spans of the calls are below that of the thread which has made these workers.
        """
        with below(self._span):
            self._work_until_stopped()

    def _work_until_stopped(self) -> None:
        while True:
            _, _, item = self._items.get()
            if item is None or self.stop.is_set():
                return
            if self._request is not None:
                self._request.part_begun()
            try:
                self._done.put(self.work(item))
            except StoppedError:
                return
            except BaseException as error:
                self.stop.set()
                self._done.put(error)
            finally:
                if self._request is not None:
                    self._request.part_ended()


def in_parallel(
    items: Iterable[Item], workers: Workers[Item, Done], ended: Callable[[Done], None] | None = None
) -> list[Done]:
    """Process all items in parallel. Return the results in the order in which they finished.

    ``ended`` receives each result, in the thread of the caller. The first exception or Ctrl-C ends
    the work and is raised.
    """
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


def converse(
    exchange: Exchange[Result], workers: Workers[KeyedRequest, KeyedReply]
) -> list[Result]:
    """Run all conversations, each of which goes on as soon as it has its replies.

    ``workers.work`` takes (key, request) and returns (key, reply). Returns the results in order.
    """
    begun: Mapping[str, ChatRequest] | None = {}
    try:
        while begun is not None or workers.outstanding:
            # Twice as many requests as threads, so that no thread waits for its next item.
            while begun is not None and workers.outstanding < 2 * workers.threads:
                begun = exchange.begin()
                for item in (begun or {}).items():
                    workers.put(item)
            if workers.outstanding:
                for item in exchange.answer(dict(workers.results())).items():
                    workers.put(item, FOLLOW_UP)
    except BaseException as error:
        workers.end(error)
        # A failure here must not replace the error that ended the work. A reply without a verdict
        # is simply read again later.
        with suppress(StoreError):
            exchange.settle()
        raise
    workers.end()
    exchange.settle()
    return exchange.results()
