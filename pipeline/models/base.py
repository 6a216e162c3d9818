"""What a verb or a query may ask of a model. Adapters live beside this file."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

Result = TypeVar("Result")

version = cache(metadata.version)
"""Of a distribution that is installed: its whole metadata are parsed for that, and a plan asks for
each step."""

Message = Mapping[str, str]
"""``{"role": "system" | "user" | "assistant", "content": ...}``"""

Check = Callable[[str], str | None]
"""Reads a reply's text; returns what is wrong with it, or None. An invalid reply is never served
again."""
Anew = Callable[[str], bool]
"""Whether the bad replies of a row are to be asked for again, mended though they are."""


@dataclass(frozen=True)
class RowsToAskAgain:
    """Name the rows whose bad replies are asked for again, as an ``Anew``.

    ``unended``: rows of which good replies without an end mark are asked for again too
    (``ChatRequest.lacks_end``).
    """

    rows: frozenset[str]
    unended: frozenset[str] = frozenset()

    def __call__(self, row: str) -> bool:
        return row in self.rows


def readable(read: Callable[[str], object], complaint: str) -> Check:
    """Complains of a text that ``read`` makes nothing of (None)."""
    return lambda text: complaint if read(text) is None else None


GENEROUS_REPLY = 4000
"""The limit of replies to requests outside a step. Those replies have hundreds of tokens; a model
that thinks aloud needs more, and one that repeats itself without end stops here."""


@dataclass(frozen=True)
class ChatRequest:
    """One call. ``row_id`` says which row it is for, ``check`` reads its reply, ``mends`` is the
    request of the same conversation whose bad reply this one makes up for; none of them is sent or
    in the cache key. ``asker``: the only one whom its reply, once known, is served to; "" shares it
    with all who name nobody. It is not sent.

    ``bounded_format`` is ``response_format`` with limits on the length of what it describes. It is
    sent instead where the server takes it; the cache key has ``response_format``. ``earlier`` are
    the forms in which earlier versions asked the same: they are never sent, but a reply that was
    paid for in one of them answers this request.

    ``lacks_end`` reads a good reply's text and says whether the end mark that was asked for is
    missing. ``text``: the text at the end of the messages; a reply is bad if the endpoint reports
    far fewer tokens than this text has. The default "" leaves the reported tokens unchecked.
    Neither field is in the cache key.

    ``max_tokens`` ends a reply that would never end. It is sent, but it is not in the cache key: a
    reply that reaches it is never good, and any other reply is what it would be without it."""

    row_id: str
    messages: tuple[Message, ...]
    response_format: Mapping[str, Any] | None = None
    check: Check | None = field(default=None, compare=False)
    mends: "ChatRequest | None" = field(default=None, compare=False)
    asker: str = ""
    bounded_format: Mapping[str, Any] | None = field(default=None, compare=False)
    earlier: "tuple[ChatRequest, ...]" = field(default=(), compare=False)
    lacks_end: Callable[[str], bool] | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)
    max_tokens: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ChatReply:
    """A reply, or why there is none: ``reason`` is then a reject's reason code, ``text`` what came,
    if anything. Without a reason ``message`` is what the request's check objected to, if it did.
    ``prompt_cut``: the endpoint read only a part of the prompt; ``message`` says so."""

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
        """Something was said, and the check, if there is one, had nothing against it."""
        return self.reason is None and not self.message


@dataclass(frozen=True)
class Reply:
    """Hold the result of a chat function of your own, if a text alone does not say enough.

    ``finish_reason``: "stop", "length" if the reply was cut off, or "content_filter".
    ``input_tokens`` and ``output_tokens``: as the function knows them; None if it does not.
    """

    text: str
    finish_reason: str = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None


Talk = Generator[Sequence[ChatRequest], Sequence[ChatReply], Result]
"""What one row has to ask: yields requests (those of one yield at the same time), is sent their
replies in that order, and returns what came of them. A bad reply is kept for good if there are
requests that mend it and their replies are all good, or mended themselves, or if the result says
that it uses what there is (``UsesAllReplies``)."""


@runtime_checkable
class UsesAllReplies(Protocol):
    """Say, as a conversation's result, whether its bad replies are used for what they hold.

    Such replies are served until somebody asks for the row again, so that not every run pays for a
    text that no reply covers whole.
    """

    @property
    def uses_all_replies(self) -> bool: ...


def one_question(request: ChatRequest) -> Talk[ChatReply]:
    """A conversation of a single request."""
    (reply,) = yield (request,)
    return reply


class Tokens(NamedTuple):
    """The tokens of one call. The endpoint's own cache served ``cached`` of the ``input``. A
    reranker may be paid by ``searches``. ``estimated``: we counted the tokens, because the endpoint
    did not report them."""

    input: int
    output: int
    cached: int = 0
    searches: int = 0
    estimated: bool = False


NO_TOKENS = Tokens(0, 0)
ESTIMATE_MARGIN = 1.3
"""An estimated call counts so many times against a limit. Our tokenizer is rarely the one of the
model, and the tokenizers of current models differ by up to about a third on the same text."""


TRUNCATED = "truncated"
"""The outcome of a reply that ended at a limit. It says nothing of how long replies are."""
ANSWERED = ("ok", TRUNCATED)
"""The outcomes of calls that brought a whole reply, or one that ended at a limit."""


@dataclass(frozen=True)
class Usage:
    """One call, as it is counted.

    ``outcome``: "ok", "throttled" (429), or a reject's reason code; ``calls`` is 0 where the cache
    answered; ``cost`` is None where the model has no price; ``cached_tokens``: those of the input
    for which the endpoint's own cache served; ``attempt``: 1, 2, ... of the same request;
    ``texts``: how many an embedding call had; ``estimated``: the endpoint did not report the
    tokens, so they and the cost are our own count.
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
    """Hears of every call, from any thread. What it raises ends the work: calls under way are
    waited for."""

    def begun(self, expected: Usage) -> str:
        """A call is about to be sent, and what it is expected to take; returns a name for it."""
        ...

    def ended(self, usage: Usage, call: str | None = None) -> None:
        """``call``: what ``begun`` returned; None where nothing was sent."""
        ...

    def finished(self, rows: int) -> None:
        """So many more texts have their vectors."""
        ...

    def notify(self, fact: str) -> None:
        """Hear why calls wait: a sentence for whoever watches the run."""
        ...

    def reserve(self, tokens: int, cost: float | None) -> None:
        """So much is about to be bound at once. Raises what ends the work when that is too much."""
        ...


class IdleListener:
    """A Listener that does nothing; subclasses override the methods that they need."""

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
    """A model behind an address; its server may be starting."""

    def begin_run(self, say: Callable[[str], None]) -> None:
        """Look at the server as ``preflight`` does, and wait while it is starting; ``say`` hears of
        the wait.

        Raises AuthError or ModelError as ``preflight`` does.
        """
        ...

    def note(self) -> str:
        """Return what the run should tell of the server at its end, or ""."""
        ...


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
        """What of the model can change a reply: enters fingerprints and cache keys; never a key or
        an address."""
        ...

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        anew: Anew | None = None,
    ) -> list[Result]:
        """What came of each conversation, in their order. They do not wait for each other; equal
        requests are sent once. A call that fails is a reply with a reason, not an exception;
        AuthError (the key was refused) and ModelError (nothing answers at all) are raised."""
        ...

    def complete(
        self, requests: Sequence[ChatRequest], listener: Listener | None = None
    ) -> list[ChatReply]:
        """Replies in the order of the requests."""
        return self.converse(map(one_question, requests), listener)

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        """The reply's text in pieces, as it comes; returns the whole reply.

        Raises AuthError or ModelError when the call fails, also in the middle.
        """
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
        """float32 array (len(texts), dimensions), each row of length 1 (all zeros where a text has
        no content)."""
        ...

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        """The calls that ``embed`` would make: the texts of each. None by a model on this
        machine."""
        return []

    def keys(self, texts: Sequence[str]) -> set[str]:
        """Under which their vectors are remembered, if they are."""
        return set()

    def preflight(self) -> None:
        """See ChatModel. On this machine nothing is to be looked at."""
        return


@runtime_checkable
class Reranker(Protocol):
    @property
    def identity(self) -> Mapping[str, Any]:
        """What of the model can change a relevance."""
        ...

    def rerank(
        self, query: str, documents: Sequence[str], listener: Listener | None = None
    ) -> list[float]:
        """A relevance for each document, in their order: finite, the higher the better, to be
        compared within one query only. Raises AuthError (the key was refused) or ModelError (no
        answer, or none that can be read)."""
        ...

    def preflight(self) -> None:
        """See EmbeddingModel."""
        return


def unit(vectors: np.ndarray) -> np.ndarray:
    """float32 rows of length 1; a row of zeros stays."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0).astype(np.float32)
