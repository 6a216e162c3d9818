"""Conversations under way: what they still ask, and what came of those that ended. No threads and no network here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Generic, Protocol

from pipeline.models.base import ChatReply, ChatRequest, Result, Talk

ROWS_AT_ONCE = 500
"""Conversations that are begun together, so that one look into the cache serves them all."""


class Memory(Protocol):
    """What is known of replies."""

    def key(self, request: ChatRequest) -> str: ...

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        """Known replies by key: only those that may be served."""
        ...

    def flag(self, valid: Mapping[str, bool]) -> None:
        """Which stored replies may be served from now on, and which not."""
        ...


Heard = Callable[[ChatRequest, ChatReply], None]
"""Told of every request that was answered without a call."""


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
        """Whether a reply of this conversation may be served from now on. None mends itself, by whatever detour."""
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
        """Begin the next conversations; what they ask that is not known, by key. None when all have begun."""
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

    def _advance(self, ready: Sequence[tuple[_Row[Result], Sequence[ChatReply] | None]]) -> dict[str, ChatRequest]:
        unknown: dict[str, ChatRequest] = {}
        while ready:
            asked = [(row, *asked) for row, replies in ready for asked in self._step(row, replies)]
            ready = self._recall(asked, unknown)
        return unknown

    def _step(self, row: _Row[Result], replies: Sequence[ChatReply] | None) -> list[tuple[str, ChatRequest]]:
        """One turn of a conversation: what it asks next, by key."""
        row.good |= {key: row.replies[key].good for key in row.keys}
        try:
            requests = row.talk.send(replies) if replies is not None else next(row.talk)
            while not requests:
                requests = row.talk.send(())
        except StopIteration as end:
            self._results[row.position] = end.value
            for key in row.good:  # a reply that two conversations share is kept if both can do with it
                self._flags[key] = self._flags.get(key, True) and row.kept(key)
            row.keys = []
            return []
        row.keys, row.replies = [self.memory.key(request) for request in requests], {}
        for key, request in zip(row.keys, requests, strict=True):
            if request.mends:
                row.mended_by.setdefault(self.memory.key(request.mends), []).append(key)
        return list(zip(row.keys, requests, strict=True))

    def _recall(
        self, asked: Sequence[tuple[_Row[Result], str, ChatRequest]], unknown: dict[str, ChatRequest]
    ) -> list[tuple[_Row[Result], Sequence[ChatReply] | None]]:
        """Answer what is known; the rest waits. Returns the conversations that can go on."""
        keyed = {(id(row), key): (key, row, request) for row, key, request in asked}
        wanted = {key: request for key, _, request in keyed.values() if key not in self._waiting_for}
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
        return [(row, [row.replies[key] for key in row.keys]) for row in rows.values() if row.answered]

    def _shared(self, request: ChatRequest, reply: ChatReply) -> ChatReply:
        shared = replace(reply, cached=True)
        self.heard(request, shared)
        return shared


Ask = Callable[[Mapping[str, ChatRequest]], Mapping[str, ChatReply]]


def in_rounds(exchange: Exchange[Result], ask: Ask) -> list[Result]:
    """Drive all conversations together: what all of them ask is asked at once, round after round."""
    unknown: dict[str, ChatRequest] = {}
    while (more := exchange.begin()) is not None:
        unknown |= more
    while unknown:
        unknown = exchange.answer(ask(unknown))
    exchange.settle()
    return exchange.results()


def one_question(request: ChatRequest) -> Talk[ChatReply]:
    """A conversation of a single request."""
    (reply,) = yield (request,)
    return reply
