"""What a chat model that a test makes up needs to hold conversations."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pipeline.models.base import ChatReply, ChatRequest, Result, Talk
from pipeline.models.cache import completion_key
from pipeline.models.exchange import Exchange, in_rounds


class NoMemory:
    """Remembers nothing."""

    def key(self, request: ChatRequest) -> str:
        return completion_key({}, request)

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        return {}

    def flag(self, valid: Mapping[str, bool]) -> None:
        return


def converse(talks: Iterable[Talk[Result]], reply: Callable[[ChatRequest], ChatReply]) -> list[Result]:
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
