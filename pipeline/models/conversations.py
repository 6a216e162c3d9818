"""Conversations under way: what they still ask, and what came of those that ended; threads for
calls."""

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

Made = TypeVar("Made")
_MAKING = threading.RLock()
"""One for all: what is made may ask for other things that are."""
ROWS_AT_ONCE = 500
"""Conversations that are begun together, so that one look into the cache serves them all."""
Heard = Callable[[ChatRequest, ChatReply], None]
"""Told of every request that was answered without a call."""
Ask = Callable[[Mapping[str, ChatRequest]], Mapping[str, ChatReply]]
Item = TypeVar("Item")
Done = TypeVar("Done")
SECONDS_FOR_THE_HOPELESS = 2.0
SECONDS_IN_SILENCE = 1.0
"""After Ctrl-C, before somebody is told why the command goes on."""
FOLLOW_UP, FIRST = 0, 1
KeyedRequest = tuple[str, ChatRequest]
KeyedReply = tuple[str, ChatReply]


class made_once(cached_property[Made]):  # noqa: N801 - a decorator
    """As ``cached_property``, which since Python 3.12 lets several threads make several."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "made_once[Made]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Made: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
        with _MAKING:
            return super().__get__(instance, owner)


def made_once_each(make: Callable[[str], Made]) -> Callable[[str], Made]:
    """``make``, which is called once for each name."""
    made: dict[str, Made] = {}

    def made_of(name: str) -> Made:
        with _MAKING:
            if name not in made:
                made[name] = make(name)
            return made[name]

    return made_of


class Memory(Protocol):
    """What is known of replies."""

    def key(self, request: ChatRequest) -> str: ...

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        """Known replies by key: only those that may be served."""
        ...

    def flag(self, valid: Mapping[str, bool]) -> None:
        """Which stored replies may be served from now on, and which not."""
        ...


@dataclass
class _Row(Generic[Result]):
    position: int
    talk: Talk[Result]
    keys: list[str] = field(default_factory=list)
    replies: dict[str, ChatReply] = field(default_factory=dict)
    good: dict[str, bool] = field(default_factory=dict)
    mended_by: dict[str, list[str]] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        return all(key in self.replies for key in self.keys)

    def kept(self, key: str, mending: frozenset[str] = frozenset()) -> bool:
        """Whether a reply of this conversation may be served from now on. None mends itself, by
        whatever detour."""
        if self.good.get(key, False):
            return True
        menders = [] if key in mending else self.mended_by.get(key, [])
        return bool(menders) and all(self.kept(mender, mending | {key}) for mender in menders)


@dataclass
class Exchange(Generic[Result]):
    """``talks`` are begun as they are needed. Equal requests are asked once, whoever has them."""

    talks: Iterable[Talk[Result]]
    memory: Memory
    heard: Heard

    def __post_init__(self) -> None:
        self._waiting_to_begin = iter(enumerate(self.talks))
        self._results: dict[int, Result] = {}
        self._waiting_for: dict[str, list[tuple[_Row[Result], ChatRequest]]] = {}
        self._flags: dict[str, bool] = {}

    def begin(self, rows: int = ROWS_AT_ONCE) -> dict[str, ChatRequest] | None:
        """Begin the next conversations; what they ask that is not known, by key. None when all have
        begun."""
        begun = [_Row(position, talk) for position, talk in islice(self._waiting_to_begin, rows)]
        if not begun:
            self.settle()
            return None
        return self._advance([(row, None) for row in begun])

    def answer(self, replies: Mapping[str, ChatReply]) -> dict[str, ChatRequest]:
        """Hand replies to those who wait for them; what these ask now that is not known, by key."""
        ready: list[tuple[_Row[Result], Sequence[ChatReply] | None]] = []
        for key, reply in replies.items():
            for place, (row, request) in enumerate(self._waiting_for.pop(key)):
                row.replies[key] = self._shared(request, reply) if place else reply
                if row.answered:
                    ready.append((row, [row.replies[own] for own in row.keys]))
        return self._advance(ready)

    def settle(self) -> None:
        """Tell the memory which replies were good."""
        self.memory.flag(self._flags)
        self._flags = {}

    def results(self) -> list[Result]:
        """What came of each conversation, once all have ended."""
        return [self._results[position] for position in range(len(self._results))]

    def _advance(
        self, ready: Sequence[tuple[_Row[Result], Sequence[ChatReply] | None]]
    ) -> dict[str, ChatRequest]:
        unknown: dict[str, ChatRequest] = {}
        while ready:
            asked = [(row, *asked) for row, replies in ready for asked in self._step(row, replies)]
            ready = self._recall(asked, unknown)
        return unknown

    def _step(
        self, row: _Row[Result], replies: Sequence[ChatReply] | None
    ) -> list[tuple[str, ChatRequest]]:
        """One turn of a conversation: what it asks next, by key."""
        row.good |= {key: row.replies[key].good for key in row.keys}
        try:
            requests = row.talk.send(replies) if replies is not None else next(row.talk)
            while not requests:
                requests = row.talk.send(())
        except StopIteration as end:
            self._results[row.position] = end.value
            uses_all = isinstance(end.value, UsesAllReplies) and end.value.uses_all_replies
            for (
                key
            ) in row.good:  # a reply that two conversations share is kept if both can do with it
                self._flags[key] = self._flags.get(key, True) and (uses_all or row.kept(key))
            row.keys = []
            return []
        row.keys, row.replies = [self.memory.key(request) for request in requests], {}
        for key, request in zip(row.keys, requests, strict=True):
            if request.mends:
                row.mended_by.setdefault(self.memory.key(request.mends), []).append(key)
        return list(zip(row.keys, requests, strict=True))

    def _recall(
        self,
        asked: Sequence[tuple[_Row[Result], str, ChatRequest]],
        unknown: dict[str, ChatRequest],
    ) -> list[tuple[_Row[Result], Sequence[ChatReply] | None]]:
        """Answer what is known; the rest waits. Returns the conversations that can go on."""
        keyed = {(id(row), key): (key, row, request) for row, key, request in asked}
        wanted = {
            key: request for key, _, request in keyed.values() if key not in self._waiting_for
        }
        known = self.memory.recall(wanted)
        rows = {id(row): row for _, row, _ in keyed.values()}
        for key, row, request in keyed.values():
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

    def _shared(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        shared = replace(reply, cached=True)
        self.heard(request, shared)
        return shared


def in_rounds(exchange: Exchange[Result], ask: Ask) -> list[Result]:
    """Drive all conversations together: what all of them ask is asked at once, round after
    round."""
    unknown: dict[str, ChatRequest] = {}
    while (more := exchange.begin()) is not None:
        unknown |= more
    while unknown:
        unknown = exchange.answer(ask(unknown))
    exchange.settle()
    return exchange.results()


class StoppedError(Exception):
    """The work has been stopped while a call waited for its turn."""


@dataclass
class Workers(Generic[Item, Done]):
    """``work(item)`` for every item that is put, ``threads`` at a time, follow-ups first. ``stop``
    is set when the work is to end: no item is started any more. ``grace``: seconds that calls under
    way then get to end."""

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
        self.outstanding = 0

    def put(self, item: Item, priority: int = FIRST) -> None:
        self._items.put((priority, next(self._count), item))
        self.outstanding += 1
        if len(self._threads) < min(self.threads, self.outstanding):
            # Daemons, and no ThreadPoolExecutor: the interpreter would wait for an executor's calls
            # before it exits.
            self._threads.append(threading.Thread(target=self._run, daemon=True))
            self._threads[-1].start()

    def result(self) -> Done:
        """Return what the next finished item brought.

        Raises what it raised, and RequestEndedError when the request that this is done for ends:
        calls under way are left to themselves, and what they bring is kept.
        """
        ended = RequestEndedError("query: the request ended while a call was under way; ask again")
        with breakable(lambda: self._done.put(ended)):
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
        if isinstance(error, RequestEndedError):
            return
        hopeless = isinstance(error, AuthError | ModelError | NoSuchModelError)
        seconds = SECONDS_FOR_THE_HOPELESS if hopeless else self.grace
        begun = time.monotonic()
        self._join(begun + min(seconds, SECONDS_IN_SILENCE))
        under_way = sum(thread.is_alive() for thread in self._threads)
        if under_way and isinstance(error, KeyboardInterrupt) and seconds > SECONDS_IN_SILENCE:
            tell(
                f"{counted(under_way, 'call')} under way: waited for up to {seconds:,.0f} s; Ctrl-C"
                " again leaves them"
            )
        self._join(begun + seconds)

    def _join(self, deadline: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
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
    """What came of all items, as they ended, each of which ``ended`` hears in this thread. The
    first exception, or Ctrl-C, ends the work."""
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
    """Drive all conversations, each as soon as its replies are there. ``workers.work`` takes (key,
    request) and returns (key, reply)."""
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
        with suppress(
            StoreError
        ):  # a reply without a verdict is read again; the error that ended the work is raised
            exchange.settle()
        raise
    workers.end()
    exchange.settle()
    return exchange.results()
