"""Models that report what a step asks of them: how many calls are to come, and each as it is done."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.models.base import ChatModel, ChatReply, ChatRequest, Check, EmbeddingModel, Listener, Usage


@dataclass
class Meter:
    """Sums of one step. ``tick`` is called with (done, expected) rows of model work."""

    tick: Callable[[int, int], None]
    done: int = 0
    expected: int = 0
    usages: list[Usage] = field(default_factory=list)

    def expect(self, rows: int) -> None:
        self.expected += rows
        self.tick(self.done, self.expected)

    def count(self, usage: Usage) -> None:
        self.usages.append(usage)
        self.done += 1
        self.tick(self.done, self.expected)

    @property
    def calls(self) -> int:
        return sum(usage.calls for usage in self.usages)

    @property
    def cached_calls(self) -> int:
        return sum(usage.cached for usage in self.usages)

    @property
    def input_tokens(self) -> int:
        return sum(usage.input_tokens for usage in self.usages if not usage.cached)

    @property
    def output_tokens(self) -> int:
        return sum(usage.output_tokens for usage in self.usages if not usage.cached)

    @property
    def cost(self) -> float | None:
        """In the currency of the price table; None when a model that was called has no price."""
        costs = [usage.cost for usage in self.usages if not usage.cached]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None


@dataclass(frozen=True)
class MeteredChat:
    model: ChatModel
    meter: Meter

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def complete(
        self, requests: Sequence[ChatRequest], check: Check | None = None, listener: Listener | None = None
    ) -> list[ChatReply]:
        self.meter.expect(len(requests))
        return self.model.complete(requests, check, _both(self.meter.count, listener))

    def stream(self, request: ChatRequest) -> Iterator[str]:
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

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        return self.model.embed(texts, _both(self.meter.count, listener))

    def preflight(self) -> None:
        self.model.preflight()


def _both(first: Listener, second: Listener | None) -> Listener:
    def listen(usage: Usage) -> None:
        first(usage)
        if second:
            second(usage)

    return listen
