"""Chat models behind any address that speaks the OpenAI protocol."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from pipeline.errors import ModelError, SettingsError
from pipeline.models.base import ChatReply, ChatRequest, Check, Listener
from pipeline.models.cache import NO_CACHE, Completion, ReplyCache
from pipeline.models.endpoint import Endpoint, Failure, Patience, sendable, token_counts
from pipeline.models.remembered import RememberedChat
from pipeline.text import clean

if TYPE_CHECKING:
    from openai import OpenAI

REPLY_OPTIONS = (
    "extra_body", "frequency_penalty", "max_completion_tokens", "max_tokens", "presence_penalty",
    "reasoning_effort", "seed", "stop", "temperature", "top_p", "verbosity",
)  # fmt: skip
"""What may be sent beside the messages. All of it can change a reply, so all of it is in the identity."""


@dataclass(frozen=True)
class OpenAIChat:
    """A ChatModel. ``timeout`` in seconds; prices per million tokens; ``options``: see REPLY_OPTIONS.

    Raises SettingsError for an option that is not one of them, or an address or key that cannot be one.
    """

    model: str
    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    cache: ReplyCache = NO_CACHE
    concurrency: int = 16
    timeout: float = 120
    max_retries: int = 5
    options: Mapping[str, Any] = field(default_factory=dict)
    input_price: float | None = None
    output_price: float | None = None
    where: str = "models.chat.default"

    def __post_init__(self) -> None:
        unknown = sorted(set(self.options) - set(REPLY_OPTIONS))
        if unknown:
            known = ", ".join(REPLY_OPTIONS)
            raise SettingsError(f"{self.where}: unknown options {', '.join(unknown)}; known: {known}")
        _ = self.endpoint

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"model": self.model, **self.options}

    @cached_property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.where, self.model, self.base_url, self.api_key, self.timeout, self.max_retries)

    def preflight(self) -> None:
        self.endpoint.preflight()

    def complete(
        self, requests: Sequence[ChatRequest], check: Check | None = None, listener: Listener | None = None
    ) -> list[ChatReply]:
        """See ChatModel. Equal requests are sent once. A reply that ``check`` objects to comes back without a
        reason, its ``message`` the objection: the caller reads what can be read; the cache will not serve it.

        ``listener`` is called from other threads, one call at a time; what it raises ends the work.
        """
        return self._remembered().complete(requests, check, listener)

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        """The text in pieces; the whole reply is the generator's return value. A known reply is one piece.

        Raises AuthError or ModelError when the call fails, also in the middle.
        """
        remembered = self._remembered()
        key = remembered.key(request)
        known = remembered.recall([key], None).get(key)
        if known:
            yield known.text
            return known
        completion = yield from self._stream(request)
        return remembered.keep(key, completion, None)

    def _remembered(self) -> RememberedChat:
        patience = Patience(self.endpoint, limit=max(8, 2 * self.concurrency))
        send = partial(self._ask, patience)
        return RememberedChat(self.model, self.identity, self.cache, self.concurrency, send, self._cost)

    def _ask(self, patience: Patience, request: ChatRequest) -> Completion | ChatReply:
        answer = self.endpoint.call(lambda client: self._send(client, request))
        if isinstance(answer, Failure):
            patience.missed(answer)
            return ChatReply("", "error", answer.reason, answer.message)
        patience.heard()
        return _completion(answer)

    def _stream(self, request: ChatRequest) -> Generator[str, None, Completion]:
        pieces: list[str] = []
        finish_reason, usage, caught = None, None, None
        options = {"stream": True, "stream_options": {"include_usage": True}}
        try:
            with self._send(self.endpoint.client, request, options) as events:
                for event in events:
                    usage = event.usage or usage
                    for choice in event.choices[:1]:
                        finish_reason = choice.finish_reason or finish_reason
                        if choice.delta.content:
                            pieces.append(clean(choice.delta.content))
                            yield pieces[-1]
        except Exception as error:
            caught = error
        if caught:
            failure = self.endpoint.failure(caught)
            raise failure.fatal or ModelError(f"{self.where}: {failure.message}; ask again")
        if finish_reason is None:
            raise ModelError(f"{self.where}: the answer broke off; ask again")
        return Completion("".join(pieces), finish_reason, *token_counts(usage))

    def _send(self, client: "OpenAI", request: ChatRequest, streaming: Mapping[str, Any] | None = None) -> Any:
        body = {name: value for name, value in self.options.items() if name != "extra_body"}
        body |= self.options.get("extra_body", {})
        if request.response_format:
            body["response_format"] = request.response_format
        messages = [{**message, "content": sendable(message["content"])} for message in request.messages]
        return client.chat.completions.create(
            model=self.model, messages=cast(Any, messages), extra_body=body, **(streaming or {})
        )

    def _cost(self, input_tokens: int, output_tokens: int) -> float | None:
        if self.input_price is None or self.output_price is None:
            return None
        return (input_tokens * self.input_price + output_tokens * self.output_price) / 1e6


def _completion(answer: Any) -> Completion | ChatReply:
    choices = getattr(answer, "choices", None)
    if not choices or choices[0].message is None:
        return ChatReply("", "error", "server_error", "the endpoint's answer holds no reply")
    choice, tokens = choices[0], token_counts(answer.usage)
    if choice.message.refusal:
        return Completion(clean(choice.message.refusal), "refusal", *tokens)
    return Completion(clean(_text(choice.message.content)), choice.finish_reason or "stop", *tokens)


def _text(content: Any) -> str:
    """Some servers answer in parts, as the protocol allows in questions."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""
