"""Protocols of models, and the requests and replies that verbs and queries exchange with them.

The adapters that implement the protocols live beside this file.
"""

import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

Result = TypeVar("Result")

version = cache(metadata.version)
"""Version of an installed distribution. It is cached, because each lookup parses the whole metadata
and a plan needs it for every step."""

Message = Mapping[str, str]
"""A chat message: ``{"role": "system" | "user" | "assistant", "content": ...}``."""

Check = Callable[[str], str | None]
"""Function that reads the text of a reply. It returns what is wrong with the text, or None. An
invalid reply is never served again."""
Repeats = Callable[[str], bool]
"""Predicate over row ids: whether to ask for the row's bad replies again, even if other replies
make up for them."""


@dataclass(frozen=True)
class RowsToAskAgain:
    """Name the rows whose bad replies are requested again. An instance is a ``Repeats``.

    ``unended``: rows of which good replies without an end mark are also requested again
    (``ChatRequest.lacks_end``).
    """

    rows: frozenset[str]
    unended: frozenset[str] = frozenset()

    def __call__(self, row: str) -> bool:
        return row in self.rows


def readable(read: Callable[[str], object], complaint: str) -> Check:
    """Return a check that answers ``complaint`` if ``read`` returns None for the text."""
    return lambda text: complaint if read(text) is None else None


GENEROUS_REPLY = 4000
"""Limit in tokens for replies to requests outside a step. Those replies have hundreds of tokens. A
model that thinks aloud needs more, and one that repeats itself without end stops here."""


class PictureChangedError(ValueError):
    """An error for a picture whose file is gone, or was written to after it was looked at."""


@dataclass(frozen=True)
class Picture:
    """A picture in a request. Its file is read only when the request is sent.

    ``digest`` is the SHA-256 of its bytes. ``media_type`` is one such as "image/png". ``width`` and
    ``height`` are in pixels.
    """

    path: Path = field(compare=False)
    digest: str
    media_type: str
    width: int
    height: int

    def content(self) -> bytes:
        """Return the bytes of the file. Raises PictureChangedError if they are other ones now."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise PictureChangedError(f"the picture cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != self.digest:
            raise PictureChangedError("the picture was written to while it was read")
        return content


@dataclass(frozen=True)
class ChatRequest:
    """A chat request.

    Sent: ``messages``, ``picture``, ``response_format`` and ``max_tokens``. ``bounded_format`` is
    ``response_format`` with limits on the length of what it describes. It is sent instead where the
    server accepts it, but the cache key has ``response_format``.

    Not sent: ``row_id`` is the row that needs the reply. ``check`` reads the reply. ``mends`` is
    the request of the same conversation whose bad reply this one makes up for. ``caller`` names the
    only caller to whom a known reply is served; "" shares it among all callers without a name. Of
    these, only ``caller`` is in the cache key.

    ``earlier`` are the forms in which earlier versions made the same request. They are never sent,
    but a paid reply to one of them answers this request.

    ``lacks_end`` reads the text of a good reply and returns whether the requested end mark is
    missing. ``text`` is the text at the end of the messages. A reply is bad if the endpoint reports
    far fewer input tokens than this text has; "" turns this check off. Neither field is in the
    cache key.

    ``max_tokens`` stops a reply that would never end. It is not in the cache key: a reply that
    reaches the limit is never good, and any other reply is the same without it.

    ``picture`` belongs to the last message. The cache key has its digest, so that a file of another
    name with the same picture is the same request.
    """

    row_id: str
    messages: tuple[Message, ...]
    response_format: Mapping[str, Any] | None = None
    check: Check | None = field(default=None, compare=False)
    mends: "ChatRequest | None" = field(default=None, compare=False)
    caller: str = ""
    bounded_format: Mapping[str, Any] | None = field(default=None, compare=False)
    earlier: "tuple[ChatRequest, ...]" = field(default=(), compare=False)
    lacks_end: Callable[[str], bool] | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)
    max_tokens: int | None = field(default=None, compare=False)
    picture: Picture | None = None


@dataclass(frozen=True)
class ChatReply:
    """A reply, or the reason why there is none.

    ``reason`` is the reason code of a reject, and ``text`` is then what arrived, if anything.
    Without a reason, ``message`` is the objection of the request's check, or "". ``prompt_cut``:
    the endpoint read only a part of the prompt; ``message`` says so.
    """

    text: str
    finish_reason: str = "stop"
    reason: str | None = None
    message: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached: bool = False
    prompt_cut: bool = False

    @property
    def good(self) -> bool:
        """True if the call succeeded and the check had no objection."""
        return self.reason is None and not self.message


@dataclass(frozen=True)
class Reply:
    """Result of a user's chat function, if the text alone does not say enough.

    ``finish_reason``: "stop", "length" if the reply was cut off, or "content_filter".
    ``input_tokens`` and ``output_tokens`` are the function's own counts, or None if it has none.
    """

    text: str
    finish_reason: str = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None


Talk = Generator[Sequence[ChatRequest], Sequence[ChatReply], Result]
"""Conversation for one row, as a generator. It yields requests; the requests of one yield are made
at the same time. It receives their replies in the same order and returns its result.

A bad reply is kept permanently in two cases. Either other requests mend it, and all their replies
are good or mended themselves. Or the result says that it uses all replies (``UsesAllReplies``).
"""


@runtime_checkable
class UsesAllReplies(Protocol):
    """Result of a conversation that says whether its bad replies are used for what they contain.

    Such replies are served until somebody requests the row again. Otherwise every run would pay
    again for a text that no reply covers completely.
    """

    @property
    def uses_all_replies(self) -> bool: ...


def one_question(request: ChatRequest) -> Talk[ChatReply]:
    """Run a conversation of a single request and return its reply."""
    (reply,) = yield (request,)
    return reply


class Tokens(NamedTuple):
    """Token counts of one call.

    ``cached``: the part of ``input`` that the endpoint's own cache served. ``searches``: the unit
    by which some rerankers are paid. ``estimated``: graphmill counted the tokens, because the
    endpoint did not report them.
    """

    input: int
    output: int
    cached: int = 0
    searches: int = 0
    estimated: bool = False


NO_TOKENS = Tokens(0, 0)
ESTIMATE_MARGIN = 1.3
"""Factor by which an estimated call counts against a limit. Our tokenizer is rarely the model's
own. The tokenizers of current models differ by up to about a third on the same text."""


TRUNCATED = "truncated"
"""Outcome of a reply that ended at a limit. Such a reply says nothing about the usual length of
replies."""
ANSWERED = ("ok", TRUNCATED)
"""Outcomes of calls that returned a whole reply, or one that ended at a limit."""


@dataclass(frozen=True)
class Usage:
    """Record of one call.

    ``outcome``: "ok", "throttled" (429), or the reason code of a reject. ``calls`` is 0 if the
    cache answered. ``cost`` is None if the model has no price. ``cached_tokens``: the input tokens
    that the endpoint's own cache served. ``attempt``: 1, 2, ... for the same request. ``texts``:
    the number of texts in an embedding call. ``estimated``: the endpoint did not report the tokens,
    so the tokens and the cost are our own count.
    """

    row_id: str
    model: str
    input_tokens: int
    output_tokens: int
    cached: bool
    seconds: float
    outcome: str = "ok"
    calls: int = 1
    cost: float | None = None
    cached_tokens: int = 0
    attempt: int = 1
    texts: int = 0
    estimated: bool = False


def margin_of(estimated: bool) -> float:
    """Return the factor by which a call's tokens and cost count against a limit."""
    return ESTIMATE_MARGIN if estimated else 1.0


class Listener(Protocol):
    """Observer of all calls, called from any thread.

    An exception that it raises ends the work; calls under way are waited for.
    """

    def begun(self, expected: Usage) -> str:
        """Record a call that is about to be sent, with its expected usage. Return an id for the
        call."""
        ...

    def ended(self, usage: Usage, call: str | None = None) -> None:
        """Record the usage of a finished call. ``call`` is the id from ``begun``, or None if
        nothing was sent."""
        ...

    def finished(self, rows: int) -> None:
        """Record that this many more texts have their vectors."""
        ...

    def notify(self, fact: str) -> None:
        """Receive a sentence that tells the user of the run why calls wait."""
        ...

    def reserve(self, tokens: int, cost: float | None) -> None:
        """Reserve tokens and cost that are about to be committed at once.

        An exception of the budget ends the work if this is too much.
        """
        ...


class IdleListener:
    """Listener that does nothing. Subclasses override the methods that they need."""

    def begun(self, expected: Usage) -> str:
        return ""

    def ended(self, usage: Usage, call: str | None = None) -> None:
        return

    def finished(self, rows: int) -> None:
        return

    def notify(self, fact: str) -> None:
        return

    def reserve(self, tokens: int, cost: float | None) -> None:
        return


@runtime_checkable
class ServedModel(Protocol):
    """Model behind an address, whose server may still be starting."""

    def begin_run(self, say: Callable[[str], None]) -> None:
        """Check the server as ``preflight`` does, and wait while it is starting.

        ``say`` receives a message about the wait. Raises AuthError or ModelError as ``preflight``
        does.
        """
        ...

    def note(self) -> str:
        """Return a remark about the server for the end of the run, or ""."""
        ...


@runtime_checkable
class Tokenizer(Protocol):
    """Tokenizer with the counts of the model's own. It treats special tokens as plain text."""

    name: str

    def encode(self, text: str) -> list[int]: ...

    def count(self, text: str) -> int: ...


@runtime_checkable
class ChatModel(Protocol):
    """Model that answers chat requests."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The properties of the model that can change a reply.

        They enter fingerprints and cache keys, and never contain a key or an address.
        """
        ...

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Result]:
        """Run all conversations and return their results in order.

        The conversations do not wait for each other. Equal requests are sent once. ``repeats``
        selects rows whose bad replies are requested again. A failed call is a reply with a reason,
        not an exception. Raises AuthError (the key was refused) and ModelError (nothing answers at
        all).
        """
        ...

    def complete(
        self, requests: Sequence[ChatRequest], listener: Listener | None = None
    ) -> list[ChatReply]:
        """Return the replies in the order of the requests."""
        return self.converse(map(one_question, requests), listener)

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        """Yield the text of the reply in chunks as it arrives, and return the whole reply.

        Raises AuthError or ModelError when the call fails, even in the middle.
        """
        ...

    def preflight(self) -> None:
        """Check in under 5 seconds that the model can work at all.

        Raises AuthError (the key is missing or refused) or ModelError (nothing answers).
        """
        ...


@runtime_checkable
class EmbeddingModel(Protocol):
    """Model that maps texts to vectors."""

    @property
    def identity(self) -> Mapping[str, Any]: ...

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """Return a float32 array of shape (len(texts), dimensions).

        Each row has length 1, or is all zeros if the text has no content.
        """
        ...

    def embed_for(
        self, caller: str, texts: Sequence[str], listener: Listener | None = None
    ) -> np.ndarray:
        """Embed as ``embed`` does, but with cached vectors that were made for this caller alone.

        Otherwise the cost and the time of a call would tell the caller whether a hidden document,
        or a question of somebody else, has the same text. A model without a cache has no vectors to
        keep apart.
        """
        return self.embed(texts, listener)

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the texts of each call that ``embed`` would make. A model on this machine makes
        none."""
        return []

    def keys(self, texts: Sequence[str]) -> set[str]:
        """Return the keys under which the vectors of the texts are cached; empty without a
        cache."""
        return set()

    def preflight(self) -> None:
        """Check as ``ChatModel.preflight`` does. A model on this machine needs no check."""
        return


@runtime_checkable
class Reranker(Protocol):
    """Model that scores documents by their relevance to a query."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The properties of the model that can change a relevance score."""
        ...

    def rerank(
        self, query: str, documents: Sequence[str], listener: Listener | None = None
    ) -> list[float]:
        """Return a relevance score for each document, in order.

        Scores are finite; a higher one is better. They can be compared within one query only.
        Raises AuthError (the key was refused) or ModelError (no answer, or none that can be read).
        """
        ...

    def preflight(self) -> None:
        """Check as ``EmbeddingModel.preflight`` does."""
        return


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return float32 rows scaled to length 1. A row of zeros stays zero."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0).astype(np.float32)
