"""Ask only what is not known yet: what every chat and embedding adapter does around its own calls."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.models.base import ChatReply, ChatRequest, Check, Listener, Usage
from pipeline.models.cache import Completion, ReplyCache, completion_key, embedding_key
from pipeline.models.parallel import in_parallel

Send = Callable[[ChatRequest], Completion | ChatReply]
"""One call: what came, or a reply that says why nothing did."""


@dataclass(frozen=True)
class RememberedChat:
    """Replies of one chat model: known ones from the cache, the rest by ``send``, ``threads`` at a time."""

    model: str
    identity: Mapping[str, Any]
    cache: ReplyCache
    threads: int
    send: Send
    cost: Callable[[int, int], float | None]

    def key(self, request: ChatRequest) -> str:
        return completion_key(self.identity, request)

    def complete(
        self, requests: Sequence[ChatRequest], check: Check | None, listener: Listener | None
    ) -> list[ChatReply]:
        """Replies in the order of the requests; equal requests are sent once.

        ``listener`` hears of every request, one at a time, from other threads; what it raises ends the work.
        """
        tell = self._in_turn(listener)
        keys = [self.key(request) for request in requests]
        replies = self.recall(keys, check)
        asked: dict[str, ChatRequest] = {}
        for key, request in zip(keys, requests, strict=True):
            if key in replies:
                tell(request, replies[key], 0.0)
            else:
                asked.setdefault(key, request)
        fresh: dict[str, ChatReply] = {}

        def ask(item: tuple[str, ChatRequest]) -> None:
            key, request = item
            started = time.monotonic()
            answer = self.send(request)
            seconds = time.monotonic() - started
            fresh[key] = self.keep(key, answer, check) if isinstance(answer, Completion) else answer
            tell(request, fresh[key], seconds)

        try:
            in_parallel(ask, asked.items(), self.threads)
        finally:
            self.cache.flag({key: _is_readable(reply) for key, reply in fresh.items()})
        return [
            replies.get(key) or self._share(request, asked[key], fresh[key], tell)
            for key, request in zip(keys, requests, strict=True)
        ]

    def recall(self, keys: Iterable[str], check: Check | None) -> dict[str, ChatReply]:
        """Known replies that can be read. They are checked again: what reads them may have changed since."""
        known = self.cache.completions(keys)
        replies = {key: read(completion, check) for key, completion in known.items()}
        served = {
            key: replace(reply, cached=True)
            for key, reply in replies.items()
            if _is_readable(reply) and (check or known[key].valid is not False)
        }
        self.cache.flag({key: True for key in served if not known[key].valid})
        return served

    def keep(self, key: str, completion: Completion, check: Check | None) -> ChatReply:
        """Store the reply, then read it."""
        self.cache.store_completion(key, self.model, completion)
        return read(completion, check)

    def _share(self, request: ChatRequest, asked: ChatRequest, reply: ChatReply, tell: "_Tell") -> ChatReply:
        if request is asked:
            return reply
        shared = replace(reply, cached=True)
        tell(request, shared, 0.0)
        return shared

    def _in_turn(self, listener: Listener | None) -> "_Tell":
        turn = threading.Lock()

        def tell(request: ChatRequest, reply: ChatReply, seconds: float) -> None:
            if listener is None:
                return
            tokens = (reply.input_tokens, reply.output_tokens)
            usage = Usage(
                request.row_id, self.model, *tokens, reply.cached, seconds,
                outcome=reply.reason or "ok", calls=0 if reply.cached else 1,
                cost=0.0 if reply.cached else self.cost(*tokens),
            )  # fmt: skip
            with turn:
                listener(usage)

        return tell


_Tell = Callable[[ChatRequest, ChatReply, float], None]


def read(completion: Completion, check: Check | None) -> ChatReply:
    """The reply, with a reason where nothing was said; ``message`` is why, or ``check``'s objection."""
    reason, message = None, ""
    if completion.finish_reason == "content_filter":
        reason, message = "content_filter", "the endpoint's content filter stopped the reply"
    elif completion.finish_reason == "refusal":
        reason, message = "refusal", f"the model refused: {completion.text}"
    elif not completion.text.strip():
        cut = " (cut at the output limit)" if completion.finish_reason == "length" else ""
        reason, message = "empty", f"the reply has no text{cut}"
    elif check:
        message = check(completion.text) or ""
    tokens = (completion.input_tokens, completion.output_tokens)
    return ChatReply(completion.text, completion.finish_reason, reason, message, *tokens)


def _is_readable(reply: ChatReply) -> bool:
    return reply.reason is None and not reply.message


@dataclass(frozen=True)
class RecalledVectors:
    """The vectors known of some texts. ``missing``: key -> text, each text once; blank texts have no key."""

    keys: Sequence[str | None]
    known: dict[str, np.ndarray]
    missing: Mapping[str, str]

    def stack(self, dimensions: int) -> np.ndarray:
        """One row a text, zeros where it is blank."""
        rows = np.zeros((len(self.keys), dimensions), dtype=np.float32)
        for row, key in zip(rows, self.keys, strict=True):
            if key is not None:
                row[:] = self.known[key]
        return rows


def recall_vectors(cache: ReplyCache, identity: Mapping[str, Any], texts: Sequence[str]) -> RecalledVectors:
    keys = [embedding_key(identity, text) if text.strip() else None for text in texts]
    asked = {key: text for key, text in zip(keys, texts, strict=True) if key is not None}
    known = cache.vectors(asked)
    return RecalledVectors(keys, known, {key: text for key, text in asked.items() if key not in known})


def unit(vectors: np.ndarray) -> np.ndarray:
    """float32 rows of length 1; a row of zeros stays."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0).astype(np.float32)
