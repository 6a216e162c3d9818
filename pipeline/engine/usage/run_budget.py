"""Limits of a run's costs, and models that report what a step asks of them."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipeline.contract.conversion import ConversionRules, Converted, Converter, FileToConvert
from pipeline.contract.registry import Tracker
from pipeline.engine.reply_lengths import ReplyLengths
from pipeline.engine.resources import Asked, Model, WrappedChat, WrappedConverter, WrappedEmbedding
from pipeline.engine.run_report import StepReport
from pipeline.engine.usage.journal import Journal
from pipeline.errors import BudgetError, UsageError
from pipeline.models.base import (
    ESTIMATE_MARGIN,
    ChatModel,
    ChatReply,
    Repeats,
    Result,
    Talk,
    Tokens,
    Usage,
    margin_of,
)

ONE_TOKEN = Tokens(1, 1)
"""The tokens whose price tells whether a model has one."""


def refuse_unpriced(
    model: Model,
    limit: str = "--max-cost",
    otherwise: str = "give --max-tokens in its place, also in a schedule such as nightly/crontab",
) -> None:
    """Raise UsageError if calls of the model cannot be counted against a limit of costs.

    The message names the limit, and what the caller can do beside setting a price.
    """
    # A model without the method ``cost`` calls no endpoint and is free.
    cost = getattr(model, "cost", None)
    if cost is not None and cost(ONE_TOKEN) is None:
        raise UsageError(
            f"{limit}: model '{model.identity['model']}' has no price; set its price in"
            " settings.yaml ({input: 0, output: 0} for a model on your own machine), or"
            f" {otherwise}"
        )


@dataclass
class Budget:
    """The limits of a run, and what counts against them.

    ``max_cost``: in the currency of the price table. ``max_tokens``: in and out. None is unlimited.
    ``cost`` and ``tokens`` are what counts against the limits. A call whose tokens are estimated
    counts ``ESTIMATE_MARGIN`` times, so that the bill stays below the limit although the estimate
    may be too low.

    Raises UsageError for a limit that is negative or not finite.
    """

    max_cost: float | None = None
    max_tokens: int | None = None
    cost: float = 0.0
    tokens: int = 0
    estimated: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for option, limit in (("--max-cost", self.max_cost), ("--max-tokens", self.max_tokens)):
            # The comparison refuses nan too, a limit that would never be reached.
            if limit is not None and not 0 <= limit < math.inf:
                raise UsageError(
                    f"{option}: {limit:g} is no limit; give a number from 0 on, or leave it out"
                )

    @property
    def limited(self) -> bool:
        return self.max_cost is not None or self.max_tokens is not None

    def spend(self, tokens: int, cost: float | None, estimated: bool = False) -> None:
        """Count a call against the limits. ``estimated``: its endpoint did not report the
        tokens."""
        factor = margin_of(estimated)
        with self.lock:
            self.tokens += math.ceil(tokens * factor)
            self.cost += (cost or 0.0) * factor
            self.estimated = self.estimated or estimated

    def check(self) -> None:
        """Raise BudgetError when nothing is left."""
        with self.lock:
            if self.max_tokens is not None and self.tokens >= self.max_tokens:
                raise self._spent(
                    f"{self.tokens:,} tokens of --max-tokens {self.max_tokens:,} are used"
                )
            if self.max_cost is not None and self.cost >= self.max_cost:
                raise self._spent(f"{self.cost:.4f} of --max-cost {self.max_cost:g} is spent")

    def reserve(self, tokens: int, cost: float | None) -> None:
        """Raise BudgetError when this is more than what is left; nothing is subtracted.

        The amount counts with the margin of an estimate as soon as one call of the run was
        estimated.
        """
        with self.lock:
            factor = margin_of(self.estimated)
            more_tokens = math.ceil(tokens * factor)
            more_cost = (cost or 0.0) * factor
            if self.max_tokens is not None and self.tokens + more_tokens > self.max_tokens:
                raise self._spent(
                    f"a batch of about {more_tokens:,} tokens is more than --max-tokens"
                    f" {self.max_tokens:,} leaves"
                )
            if self.max_cost is not None and self.cost + more_cost > self.max_cost:
                raise self._spent(
                    f"a batch of about {more_cost:.4f} is more than --max-cost"
                    f" {self.max_cost:g} leaves"
                )

    def _spent(self, fact: str) -> BudgetError:
        if self.estimated:
            fact = f"{fact} (estimated calls count {ESTIMATE_MARGIN:g} times)"
        return BudgetError(
            f"budget: {fact}; everything answered is kept: run again with a higher limit to go on"
        )


def estimated_tokens(reports: Iterable[StepReport]) -> str | None:
    """Return the note of a run whose endpoints do not report all token counts; None where they
    do."""
    steps = list(reports)
    estimated = sum(step.estimated_calls for step in steps)
    calls = sum(step.calls for step in steps)
    if not estimated:
        return None
    return (
        f"usage: the endpoint reports no token counts: {estimated:,} of {calls:,} calls are"
        f" estimated; limits count them {ESTIMATE_MARGIN:g} times, the bill once"
    )


THROTTLED = "throttled"


@dataclass
class Meter(Tracker):
    """Sums of one step. It is the Listener of the step's models and converter, and the Tracker of
    its verb.

    ``tick`` is called with (done, expected) rows of work. ``documents``: row -> its document, for
    rows that have one. ``conversions`` counts files that were ``converted``, those whose conversion
    was ``kept``, and those that could not be converted (``not_converted``). ``converters``:
    converter -> files whose kept conversion it made, where today's is another one.
    ``converted_bytes``: size of the files that were converted now. ``conversion_seconds``: the wall
    time of that.
    """

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
    estimated_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    conversions: Counter[str] = field(default_factory=Counter)
    converters: Counter[str] = field(default_factory=Counter)
    converted_bytes: int = 0
    conversion_seconds: float = 0.0
    tell: Callable[[str], None] | None = None
    lengths: ReplyLengths = field(default_factory=ReplyLengths)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, rows: int) -> None:
        self.expected += rows
        self.tick(self.done, self.expected)

    def finished(self, rows: int) -> None:
        self.done += rows
        self.tick(self.done, self.expected)

    def converted(
        self, kept: bool, by_another: str = "", failed: bool = False, size: int = 0
    ) -> None:
        self.converted_bytes += size
        if failed:
            self.conversions["not_converted"] += 1
        else:
            self.conversions["kept" if kept else "converted"] += 1
        if by_another:
            self.converters[by_another] += 1
        self.finished(1)

    def notify(self, fact: str) -> None:
        """Forward to the run's progress why calls wait."""
        if self.tell:
            self.tell(fact)

    def begun(self, expected: Usage) -> str:
        """Note that a call begins; return its name in the journal.

        Raises BudgetError, so that the call is not sent, when the budget is used up.
        """
        self.budget.check()
        if self.journal is None:
            return ""
        document = self.documents.get(expected.row_id, "")
        return self.journal.begun(self.step, document, expected)

    def ended(self, usage: Usage, call: str | None = None) -> None:
        with self.lock:
            if usage.cached:
                self.cached_calls += 1
                return
            if usage.outcome == THROTTLED:
                self.throttled_calls += 1
            else:
                self.calls += usage.calls
            if usage.estimated:
                self.estimated_calls += 1
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            if self.cost is None or usage.cost is None:
                # One call without a price leaves the step without a cost.
                self.cost = None
            else:
                self.cost += usage.cost
        tokens = usage.input_tokens + usage.output_tokens
        self.budget.spend(tokens, usage.cost, usage.estimated)
        if self.journal:
            document = self.documents.get(usage.row_id, "")
            self.journal.ended(self.step, document, usage, call)

    def reserve(self, tokens: int, cost: float | None) -> None:
        self.budget.reserve(tokens, cost)


def metered(asked: Asked, meter: Meter, repeats: Repeats | None = None) -> Asked:
    """Return the model or converter so that it reports to the meter.

    ``repeats``: returns whether a row's bad replies are asked for again, although they were
    repaired, or a file is converted again.
    """
    if isinstance(asked, Converter):
        return MeteredConverter(asked, meter, repeats)
    if isinstance(asked, ChatModel):
        return MeteredChat(asked, meter, repeats)
    return MeteredEmbedding(asked, meter)


@dataclass(frozen=True)
class MeteredConverter(WrappedConverter):
    meter: Meter
    repeats: Repeats | None = None

    def convert(
        self,
        files: Sequence[FileToConvert],
        rules: ConversionRules,
        listener: object = None,
        repeats: Repeats | None = None,
    ) -> list[Converted]:
        began = time.monotonic()
        try:
            return self.converter.convert(files, rules, self.meter, self.repeats)
        finally:
            self.meter.conversion_seconds += time.monotonic() - began


@dataclass(frozen=True)
class MeteredChat(WrappedChat):
    """A chat model that reports to the meter. ``repeats``: rows whose bad replies are asked for
    again, although they were repaired."""

    meter: Meter
    repeats: Repeats | None = None

    def converse(
        self, talks: Iterable[Talk[Result]], listener: object = None, repeats: Repeats | None = None
    ) -> list[Result]:
        counted = [self._counted(talk) for talk in talks]
        self.meter.expect(len(counted))
        return self.model.converse(counted, self.meter, self.repeats)

    def _counted(self, talk: Talk[Result]) -> Talk[Result]:
        """Pass on the conversation's requests, each with the limit of its reply, and count it when
        it ends."""
        lengths = self.meter.lengths
        replies: Sequence[ChatReply] | None = None
        while True:
            try:
                requests = next(talk) if replies is None else talk.send(replies)
            except StopIteration as end:
                self.meter.finished(1)
                return end.value
            replies = yield [lengths.limited(request) for request in requests]
            lengths.learn(replies)


@dataclass(frozen=True)
class MeteredEmbedding(WrappedEmbedding):
    meter: Meter

    def embed(self, texts: Sequence[str], listener: object = None) -> np.ndarray:
        self.meter.expect(len(texts))
        before = self.meter.done
        vectors = self.model.embed(texts, self.meter)
        # Texts that were known, equal to others or blank were in no call.
        self.meter.finished(before + len(texts) - self.meter.done)
        return vectors
