"""Embedding models behind any address that speaks the OpenAI protocol."""

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.errors import ModelError
from pipeline.models.base import Listener, Usage
from pipeline.models.cache import NO_CACHE, ReplyCache
from pipeline.models.endpoint import Endpoint, Failure, sendable, token_counts
from pipeline.models.parallel import in_parallel
from pipeline.models.remembered import recall_vectors, unit

SHORTEST_TO_HALVE = 100  # characters; an endpoint that cannot take so many has another trouble


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
        return vectors, token_counts(response.usage)[0]

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
                model=self.model, input=list(map(sendable, texts)), encoding_format="float", extra_body=size
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


def _data(response: Any) -> list[Any]:
    return getattr(response, "data", None) or []


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
