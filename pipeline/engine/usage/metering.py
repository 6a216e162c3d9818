"""Models that report what a step asks of them: how many rows are to come, and each call as it is done."""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.engine.budget import Budget
from pipeline.engine.usage import Journal
from pipeline.models.base import Anew, ChatModel, ChatReply, ChatRequest, EmbeddingModel, Result, Talk, Usage
from pipeline.models.exchange import one_question

THROTTLED = "throttled"


@dataclass
class Meter:
    """Sums of one step; the Listener of its models and the Tracker of its verb. ``tick`` is called with (done,
    expected) rows of work;
    ``documents`` says which document a row is of, where it is of one."""

    step: str
    tick: Callable[[int, int], None]
    budget: Budget = field(default_factory=Budget)
    journal: Journal | None = None
    documents: Mapping[str, str] = field(default_factory=dict)
    done: int = 0
    expected: int = 0
    calls: int = 0
    throttled_calls: int = 0
    cached_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, rows: int) -> None:
        self.expected += rows
        self.tick(self.done, self.expected)

    def finished(self, rows: int) -> None:
        self.done += rows
        self.tick(self.done, self.expected)

    def begun(self, expected: Usage) -> str:
        """Raises BudgetError, so that the call is not sent, when the budget is used up."""
        self.budget.check()
        if self.journal is None:
            return ""
        return self.journal.begun(self.step, self.documents.get(expected.row_id, ""), expected)

    def ended(self, usage: Usage, call: str | None = None) -> None:
        with self.lock:
            self.cached_calls += usage.cached
            if usage.cached:
                return
            throttled = usage.outcome == THROTTLED
            self.throttled_calls += throttled
            self.calls += 0 if throttled else usage.calls
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            self.cost = None if self.cost is None or usage.cost is None else self.cost + usage.cost
        self.budget.spend(usage.input_tokens + usage.output_tokens, usage.cost)
        if self.journal:
            self.journal.ended(self.step, self.documents.get(usage.row_id, ""), usage, call)

    def reserve(self, tokens: int, cost: float | None) -> None:
        self.budget.reserve(tokens, cost)


@dataclass(frozen=True)
class MeteredChat:
    """``anew``: rows whose bad replies are asked for again, mended though they are."""

    model: ChatModel
    meter: Meter
    anew: Anew | None = None

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def converse(
        self, talks: Iterable[Talk[Result]], listener: object = None, anew: Anew | None = None
    ) -> list[Result]:
        counted = [self._counted(talk) for talk in talks]
        self.meter.expect(len(counted))
        return self.model.converse(counted, self.meter, self.anew)

    def complete(self, requests: Sequence[ChatRequest], listener: object = None) -> list[ChatReply]:
        return self.converse(map(one_question, requests))

    def _counted(self, talk: Talk[Result]) -> Talk[Result]:
        result = yield from talk
        self.meter.finished(1)
        return result

    def stream(self, request: ChatRequest) -> Generator[str, None, ChatReply]:
        return self.model.stream(request)

    def preflight(self) -> None:
        self.model.preflight()


@dataclass(frozen=True)
class MeteredEmbedding:
    model: EmbeddingModel
    meter: Meter

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def embed(self, texts: Sequence[str], listener: object = None) -> np.ndarray:
        self.meter.expect(len(texts))
        before = self.meter.done
        vectors = self.model.embed(texts, self.meter)
        self.meter.finished(before + len(texts) - self.meter.done)  # the rest: known, equal or blank texts
        return vectors

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        return self.model.unknown(texts)

    def keys(self, texts: Sequence[str]) -> set[str]:
        return self.model.keys(texts)

    def preflight(self) -> None:
        self.model.preflight()
