"""What a verb or a query may ask of a model. Adapters live beside this file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

Message = Mapping[str, str]
"""``{"role": "system" | "user" | "assistant", "content": ...}``"""

Check = Callable[[str], str | None]
"""Reads a reply's text; returns what is wrong with it, or None. An invalid reply is never served again."""


@dataclass(frozen=True)
class ChatRequest:
    """One call. ``row_id`` says which row it is for: it is reported, not sent, and not in the cache key."""

    row_id: str
    messages: tuple[Message, ...]
    response_format: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ChatReply:
    """A reply, or why there is none: ``reason`` is then a reject's reason code, ``text`` what came, if anything.
    Without a reason ``message`` is what the check objected to, if it did."""

    text: str
    finish_reason: str = "stop"
    reason: str | None = None
    message: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached: bool = False


@dataclass(frozen=True)
class Usage:
    """One call, as it is counted. ``outcome`` is "ok" or a reject's reason code; ``calls`` is 0 where the
    cache answered; ``cost`` is None where the model has no price."""

    row_id: str
    model: str
    input_tokens: int
    output_tokens: int
    cached: bool
    seconds: float
    outcome: str = "ok"
    calls: int = 1
    cost: float | None = None


Listener = Callable[[Usage], None]


@runtime_checkable
class Tokenizer(Protocol):
    """Counts as the model's own tokenizer counts; special tokens are plain text."""

    name: str

    def encode(self, text: str) -> list[int]: ...

    def count(self, text: str) -> int: ...


@runtime_checkable
class ChatModel(Protocol):
    @property
    def identity(self) -> Mapping[str, Any]:
        """What of the model can change a reply: enters fingerprints and cache keys; never a key or an address."""
        ...

    def complete(
        self, requests: Sequence[ChatRequest], check: Check | None = None, listener: Listener | None = None
    ) -> list[ChatReply]:
        """Replies in the order of the requests. A call that fails is a reply with a reason, not an exception;
        AuthError (the key was refused) and ModelError (nothing answers at all) are raised."""
        ...

    def stream(self, request: ChatRequest) -> Iterator[str]:
        """The reply's text in pieces, as it comes."""
        ...

    def preflight(self) -> None:
        """One quick look, under 5 s, whether the model can work at all.

        Raises AuthError (the key is missing or refused) or ModelError (nothing answers).
        """
        ...


@runtime_checkable
class EmbeddingModel(Protocol):
    @property
    def identity(self) -> Mapping[str, Any]: ...

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """float32 array (len(texts), dimensions), each row of length 1 (all zeros where a text has no content)."""
        ...

    def preflight(self) -> None: ...
