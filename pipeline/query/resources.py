"""What it takes to answer: what is bound to a query, and its clock."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pipeline.contract.prompts import Prompt
from pipeline.current_request import check_request
from pipeline.models.base import ChatModel, EmbeddingModel, Reranker, Tokenizer
from pipeline.models.measured import UNMEASURED, Measured
from pipeline.query.account import Account
from pipeline.query.search.evidence import Evidence
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Passage

Found = tuple[Evidence, Sequence[Passage]]
"""Evidence, and the text units to show."""

Result = TypeVar("Result")


class ReadTogether(Protocol):
    def __call__(
        self, work: Callable[[VectorReads, GraphReads], Result], /
    ) -> tuple[Result, tuple[str, ...]]:
        """Does all reads of ``work`` at one moment of the stores; and what is to be said of the
        moment."""
        ...


def noting(notes: tuple[str, ...], read: ReadTogether) -> ReadTogether:
    """Read so, and have these said of every moment."""

    def noted(
        work: Callable[[VectorReads, GraphReads], Result], /
    ) -> tuple[Result, tuple[str, ...]]:
        result, told = read(work)
        return result, (*notes, *told)

    return noted if notes else read


@dataclass(frozen=True)
class QueryResources:
    """``chat`` by name; it gives None where that model is not configured, and raises UsageError
    where there is none of that name. ``keyword_chat``: the same, for a call that retrieval can do
    without: it is soon given up. ``measured``: what is known of that chat model by trial.
    ``learn_window``: keeps the tokens that a chat model reads, as its endpoint has just said, and
    returns what is known then. ``longest_reply``: that model's max_tokens, if set. ``account``:
    what the question costs."""

    read: ReadTogether
    embedding: EmbeddingModel
    chat: Callable[[str], ChatModel | None]
    keyword_chat: Callable[[str], ChatModel | None]
    tokenizer: Tokenizer
    prompt: Callable[[str], Prompt]
    reranker: Reranker | None = None
    measured: Callable[[str], Measured] = lambda name: UNMEASURED
    account: Account = field(default_factory=Account)
    learn_window: Callable[[str, int], Measured] = lambda name, window: Measured(
        window, source="endpoint"
    )
    longest_reply: Callable[[str], int | None] = lambda name: None

    def answering_in(self, form: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        """The ``response_format``, where that chat model was found to answer in such."""
        return form if self.measured(name).json_schema else None


@dataclass
class Clock:
    """Milliseconds per named part."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Note how long the block takes. Raises RequestEndedError where the question's request is
        over."""
        check_request()
        started = time.perf_counter()
        try:
            yield
        finally:
            self.parts[part] = round((time.perf_counter() - started) * 1000, 2)
