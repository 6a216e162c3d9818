"""Chat and embedding models behind any address that speaks the OpenAI protocol."""

import re
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipeline.errors import ModelError, SettingsError
from pipeline.models.base import ChatReply, ChatRequest, Check, Listener, Usage
from pipeline.models.cache import Completion, ReplyCache
from pipeline.models.endpoint import Endpoint, Failure, Patience
from pipeline.models.parallel import in_parallel
from pipeline.models.remembered import RememberedChat, recall_vectors, unit
from pipeline.text import clean

if TYPE_CHECKING:
    from openai import OpenAI

REPLY_OPTIONS = (
    "extra_body", "frequency_penalty", "max_completion_tokens", "max_tokens", "presence_penalty",
    "reasoning_effort", "seed", "stop", "temperature", "top_p", "verbosity",
)  # fmt: skip
"""What may be sent beside the messages. All of it can change a reply, so all of it is in the identity."""

SHORTEST_TO_HALVE = 100  # characters; an endpoint that cannot take so many has another trouble
NO_CACHE = ReplyCache("")
SURROGATES = re.compile("[\ud800-\udfff]")


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
        return Completion("".join(pieces), finish_reason, *_tokens(usage))

    def _send(self, client: "OpenAI", request: ChatRequest, streaming: Mapping[str, Any] | None = None) -> Any:
        body = {name: value for name, value in self.options.items() if name != "extra_body"}
        body |= self.options.get("extra_body", {})
        if request.response_format:
            body["response_format"] = request.response_format
        messages = [{**message, "content": _sendable(message["content"])} for message in request.messages]
        return client.chat.completions.create(
            model=self.model, messages=cast(Any, messages), extra_body=body, **(streaming or {})
        )

    def _cost(self, input_tokens: int, output_tokens: int) -> float | None:
        if self.input_price is None or self.output_price is None:
            return None
        return (input_tokens * self.input_price + output_tokens * self.output_price) / 1e6


@dataclass(frozen=True)
class OpenAIEmbedding:
    """An EmbeddingModel. ``dimensions`` is asked of the endpoint when given; price per million tokens.

    A text longer than the model takes is halved, at white space, as often as it needs; its vector is the mean
    of its parts' weighted by their lengths.
    """

    model: str
    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    cache: ReplyCache = NO_CACHE
    dimensions: int | None = None
    batch_size: int = 64
    concurrency: int = 16
    timeout: float = 120
    max_retries: int = 5
    input_price: float | None = None
    where: str = "models.embedding.default"

    def __post_init__(self) -> None:
        _ = self.endpoint

    @property
    def identity(self) -> Mapping[str, Any]:
        asked = {"dimensions": self.dimensions} if self.dimensions else {}
        return {"model": self.model, "normalized": True, **asked}

    @cached_property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.where, self.model, self.base_url, self.api_key, self.timeout, self.max_retries)

    def preflight(self) -> None:
        self.endpoint.preflight()

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """See EmbeddingModel. Equal texts are sent once, blank ones not at all. ``listener`` hears of batches
        (``row_id`` ""). Raises AuthError or ModelError; batches that came are kept."""
        recalled = recall_vectors(self.cache, self.identity, texts)
        turn = threading.Lock()

        def tell(usage: Usage) -> None:
            with turn:
                if listener:
                    listener(usage)

        def ask(batch: Mapping[str, str]) -> None:
            started = time.monotonic()
            vectors, tokens = self._vectors(list(batch.values()))
            new = dict(zip(batch, unit(vectors), strict=True))
            self.cache.store_vectors(self.model, new)
            recalled.known.update(new)
            seconds = time.monotonic() - started
            tell(Usage("", self.model, tokens, 0, False, seconds, cost=self._cost(tokens)))

        for _ in _slices(list(recalled.known), self.batch_size):
            tell(Usage("", self.model, 0, 0, cached=True, seconds=0.0, calls=0, cost=0.0))
        batches = [dict(items) for items in _slices(list(recalled.missing.items()), self.batch_size)]
        in_parallel(ask, batches, self.concurrency)
        return recalled.stack(self._size(recalled.known, len(texts)))

    def _vectors(self, texts: list[str]) -> tuple[np.ndarray, int]:
        """Vectors of texts that are not blank, and how many tokens they took."""
        response = self._send(texts)
        if response is None:
            return self._halves(texts)
        if len(_data(response)) != len(texts):
            response = self._send(texts)
        data = _data(response)
        if len(data) != len(texts):
            raise self._error(f"asked for {len(texts)} vectors, got {len(data)}", "look at the server")
        if sorted(item.index for item in data) == list(range(len(data))):
            data = sorted(data, key=lambda item: item.index)
        sizes = {len(item.embedding) for item in data}
        if len(sizes) > 1 or (self.dimensions and sizes != {self.dimensions}):
            expected = self.dimensions or "one number of"
            raise self._error(f"expected {expected} dimensions, got {sorted(sizes)}", "correct 'dimensions'")
        vectors = np.array([item.embedding for item in data], dtype=np.float64)
        if not np.isfinite(vectors).all():
            raise self._error("a vector has values that are no numbers", "look at the server")
        return vectors, _tokens(response.usage)[0]

    def _halves(self, texts: list[str]) -> tuple[np.ndarray, int]:
        """Half of the batch at a time; of a single text, the mean of its two halves."""
        if len(texts) > 1:
            middle = len(texts) // 2
            head, head_tokens = self._vectors(texts[:middle])
            tail, tail_tokens = self._vectors(texts[middle:])
            return np.vstack([head, tail]), head_tokens + tail_tokens
        size = len(texts[0])
        if size < SHORTEST_TO_HALVE:
            raise self._error(f"the endpoint finds {size} characters too long", "choose another model")
        halves = [half for half in _halve(texts[0]) if half.strip()]
        vectors, tokens = self._vectors(halves)
        return np.average(unit(vectors), axis=0, weights=[len(half) for half in halves])[np.newaxis], tokens

    def _send(self, texts: list[str]) -> Any:
        """The endpoint's answer; None if that was too much at once."""
        size = {"dimensions": self.dimensions} if self.dimensions else {}
        answer = self.endpoint.call(
            lambda client: client.embeddings.create(
                model=self.model, input=list(map(_sendable, texts)), encoding_format="float", extra_body=size
            )
        )
        if not isinstance(answer, Failure):
            return answer
        if answer.reason == "too_long":
            return None
        raise self._error(answer.message, "run again: what came before is kept")

    def _size(self, known: Mapping[str, np.ndarray], n_texts: int) -> int:
        sizes = {len(vector) for vector in known.values()}
        if len(sizes) > 1:
            fact = f"vectors of {' and '.join(map(str, sorted(sizes)))} dimensions for one model"
            raise self._error(fact, "set 'dimensions', or name the model otherwise")
        if sizes or self.dimensions or not n_texts:
            return next(iter(sizes), self.dimensions or 0)
        return self.embed(["dimensions"]).shape[1]

    def _error(self, fact: str, action: str) -> ModelError:
        return ModelError(f"{self.where}: {fact}; {action}")

    def _cost(self, tokens: int) -> float | None:
        return None if self.input_price is None else tokens * self.input_price / 1e6


def _completion(answer: Any) -> Completion | ChatReply:
    choices = getattr(answer, "choices", None)
    if not choices or choices[0].message is None:
        return ChatReply("", "error", "server_error", "the endpoint's answer holds no reply")
    choice, tokens = choices[0], _tokens(answer.usage)
    if choice.message.refusal:
        return Completion(clean(choice.message.refusal), "refusal", *tokens)
    return Completion(clean(_text(choice.message.content)), choice.finish_reason or "stop", *tokens)


def _text(content: Any) -> str:
    """Some servers answer in parts, as the protocol allows in questions."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""


def _tokens(usage: Any) -> tuple[int, int]:
    """In and out; 0 where the server does not say."""
    return getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0


def _data(response: Any) -> list[Any]:
    return getattr(response, "data", None) or []


def _sendable(text: str) -> str:
    """A lone surrogate cannot be sent."""
    return SURROGATES.sub("\ufffd", text)


def _halve(text: str) -> tuple[str, str]:
    """At the white space next to the middle; without any, in the middle."""
    middle = len(text) // 2
    after, before = re.search(r"\s", text[middle:]), text[:middle].rsplit(maxsplit=1)
    if after and after.start() < middle:
        middle += after.start()
    elif len(before) > 1:
        middle = len(before[0])
    return text[:middle], text[middle:]


def _slices(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
