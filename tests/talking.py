"""What a chat model that a test makes up needs to hold conversations."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipeline.models.base import ChatReply, ChatRequest, Result, Talk, Usage
from pipeline.models.cache.lookup import completion_key
from pipeline.models.conversations import Exchange, in_rounds


class NoMemory:
    """Remembers nothing."""

    def key(self, request: ChatRequest) -> str:
        return completion_key({}, request)

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        return {}

    def flag(self, valid: Mapping[str, bool]) -> None:
        return


def converse(
    talks: Iterable[Talk[Result]], reply: Callable[[ChatRequest], ChatReply]
) -> list[Result]:
    """All conversations, ``reply`` answering; its replies are checked as an endpoint's would be."""

    def ask(requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        return {key: checked(request, reply(request)) for key, request in requests.items()}

    return in_rounds(Exchange(talks, NoMemory(), lambda request, reply: None), ask)


def checked(request: ChatRequest, reply: ChatReply) -> ChatReply:
    if reply.reason or request.check is None:
        return reply
    if reply.finish_reason == "length":
        return replace(reply, message="cut off")
    return replace(reply, message=request.check(reply.text) or "")


@dataclass
class Hearer:
    """A Listener that keeps what it hears; ``under_way`` are the calls that were begun and have not
    ended."""

    usages: list[Usage] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    under_way: dict[str, str] = field(default_factory=dict)
    begun_calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begun(self, expected: Usage) -> str:
        with self.lock:
            self.begun_calls += 1
            self.under_way[str(self.begun_calls)] = expected.row_id
            return str(self.begun_calls)

    def ended(self, usage: Usage, call: str | None = None) -> None:
        with self.lock:
            self.usages.append(usage)
            if call is not None:
                del self.under_way[call]

    def finished(self, rows: int) -> None:
        self.done.append(rows)

    def notify(self, fact: str) -> None:
        self.facts.append(fact)

    def reserve(self, tokens: int, cost: float | None) -> None: ...

    @property
    def outcomes(self) -> list[str]:
        return [usage.outcome for usage in self.usages]
