"""Resources of a query: reads of the stores, models, prompts and its account; and a clock."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pipeline.contract.prompts import Prompt
from pipeline.current_request import check_request
from pipeline.models.base import ChatModel, EmbeddingModel, Reranker, Tokenizer
from pipeline.models.measured import UNMEASURED, Measured
from pipeline.query.account import Account
from pipeline.stores.reads import GraphReads, VectorReads

Result = TypeVar("Result")


class ReadTogether(Protocol):
    """A function that reads the stores in one consistent state."""

    def __call__(
        self, work: Callable[[VectorReads, GraphReads], Result], /
    ) -> tuple[Result, tuple[str, ...]]:
        """Do all reads of ``work`` in one consistent state of the stores.

        Return its result, and notes on that state for the caller.
        """
        ...


def add_notes(notes: tuple[str, ...], read: ReadTogether) -> ReadTogether:
    """Return ``read`` with ``notes`` added to the notes of each read."""

    def read_with_notes(
        work: Callable[[VectorReads, GraphReads], Result], /
    ) -> tuple[Result, tuple[str, ...]]:
        result, own_notes = read(work)
        return result, (*notes, *own_notes)

    return read_with_notes if notes else read


@dataclass(frozen=True)
class QueryResources:
    """The models, stores and prompts that a query uses, and its account of costs.

    ``chat``: returns the chat model of a name, or None if that is not configured; raises UsageError
    for an unknown name. ``keyword_chat``: the same for a call whose failure is tolerated, so it is
    given up early. ``measured``: returns what trials have shown of the chat model of a name.
    ``learn_window``: stores the tokens that the endpoint of a chat model has just said it accepts,
    and returns the updated measurements. ``longest_reply``: returns max_tokens of the chat model of
    a name, or None. ``fuses_ranks``: the reranker's order is fused with that of the search, and
    does not replace it. ``account``: the costs of the question.
    """

    read: ReadTogether
    embedding: EmbeddingModel
    chat: Callable[[str], ChatModel | None]
    keyword_chat: Callable[[str], ChatModel | None]
    tokenizer: Tokenizer
    prompt: Callable[[str], Prompt]
    reranker: Reranker | None = None
    fuses_ranks: bool = False
    measured: Callable[[str], Measured] = lambda name: UNMEASURED
    account: Account = field(default_factory=Account)
    learn_window: Callable[[str, int], Measured] = lambda name, window: Measured(
        window, source="endpoint"
    )
    longest_reply: Callable[[str], int | None] = lambda name: None

    def answering_in(self, form: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
        """Return the ``response_format`` if the chat model is known to support it, else None."""
        return form if self.measured(name).json_schema else None


@dataclass
class Clock:
    """The duration of each named part of a query, in milliseconds."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Record how long the block takes. Raises RequestEndedError if the request has ended."""
        check_request()
        started = time.perf_counter()
        try:
            yield
        finally:
            self.parts[part] = round((time.perf_counter() - started) * 1000, 2)
