"""Embedding models behind any address that supports the OpenAI protocol."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import ModelError
from pipeline.models.base import Listener, Tokens, Usage, unit
from pipeline.models.cache.database import slices
from pipeline.models.cache.lookup import embedding_keys, recall_vectors, unknown_texts
from pipeline.models.cache.reserve import bytes_of_vectors
from pipeline.models.conversations import in_parallel
from pipeline.models.endpoint.attempts import Attempts, Call
from pipeline.models.endpoint.client import Failure, sendable
from pipeline.models.endpoint.remote_model import PROBE_SECONDS, PROBE_TEXT, RemoteModel
from pipeline.models.endpoint.token_counts import reported_tokens, with_estimates
from pipeline.text.tokens import tokenizer

if TYPE_CHECKING:
    from openai import OpenAI


SHORTEST_TO_HALVE = 100
"""Characters. If an endpoint calls a shorter text too long, the length is not the problem."""


@dataclass(frozen=True)
class OpenAIEmbedding(RemoteModel):
    """EmbeddingModel behind an address. ``dimensions`` is requested from the endpoint if it is set.

    A text that is too long for the model is halved at white space as often as needed. Its vector is
    the mean of its halves' vectors, weighted by their lengths.
    """

    where: str = "models.embedding.default"
    dimensions: int | None = None
    batch_size: int = 64

    @property
    def identity(self) -> Mapping[str, Any]:
        asked = {"dimensions": self.dimensions} if self.dimensions else {}
        return {"model": self.model, "normalized": True, **self.origin, **asked}

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """Return the vectors of the texts, as EmbeddingModel says.

        Equal texts are sent once, blank ones not at all. ``listener`` receives the calls
        (``row_id`` "") and the number of texts that are done. Raises AuthError or ModelError;
        batches that have arrived are stored.
        """
        return self.embed_for("", texts, listener)

    def embed_for(
        self, caller: str, texts: Sequence[str], listener: Listener | None = None
    ) -> np.ndarray:
        """Embed as ``embed`` does, but with cached vectors of this caller alone if there is one."""
        recalled = recall_vectors(self.cache, self.identity, texts, caller)
        attempts = self.attempts(listener)

        def ask(batch: Mapping[str, str]) -> int:
            room.begin()
            vectors = unit(self._request_vectors(list(batch.values()), attempts))
            new = dict(zip(batch, vectors, strict=True))
            with room.storing():
                self.cache.store_vectors(self.model, new)
            recalled.known.update(new)
            return len(new)

        if listener:
            for _ in slices(list(recalled.known), self.batch_size):
                listener.ended(Usage("", self.model, 0, 0, cached=True, seconds=0, calls=0, cost=0))
        batches = [dict(items) for items in slices(list(recalled.missing.items()), self.batch_size)]
        ended = listener.finished if listener else None
        with self.reserve(bytes_of_vectors(self.batch_size, self.dimensions)) as room:
            in_parallel(batches, self.workers(ask, attempts), ended)
        return recalled.stack(self._dimensions_of(recalled.known, len(texts)))

    def send_smallest_call(self, client: "OpenAI") -> Tokens:
        """Embed one word: the server may list its models before it can use them. Return the call's
        tokens."""
        soon = client.with_options(timeout=PROBE_SECONDS)
        answer = soon.embeddings.create(
            model=self.model, input=[PROBE_TEXT], encoding_format="float"
        )
        reported = reported_tokens(getattr(answer, "usage", None))
        return with_estimates(reported, lambda: self._count_tokens([PROBE_TEXT]), lambda: 0)

    def keys(self, texts: Sequence[str]) -> set[str]:
        return embedding_keys(self.identity, texts) if self.cache.database.there else set()

    def unknown(self, texts: Sequence[str]) -> list[list[str]]:
        missing = unknown_texts(self.cache, self.identity, texts)
        return [list(texts) for texts in slices(list(missing.values()), self.batch_size)]

    def _request_vectors(self, texts: list[str], attempts: Attempts) -> np.ndarray:
        """Return the vectors of texts that are not blank, one row per text.

        Raises ModelError for an answer that does not fit the request.
        """
        response = self._send(texts, attempts)
        if response is None:
            return self._request_in_halves(texts, attempts)
        if len(_data(response)) != len(texts):
            # An answer with a wrong number of vectors is requested once more.
            response = self._send(texts, attempts)
        data = _data(response)
        if len(data) != len(texts):
            raise self._error(
                f"asked for {len(texts)} vectors, got {len(data)}", "check the server"
            )
        # Servers may return the vectors in another order, with the right indexes.
        if sorted(item.index for item in data) == list(range(len(data))):
            data = sorted(data, key=lambda item: item.index)
        sizes = {len(item.embedding) for item in data}
        if len(sizes) > 1 or (self.dimensions and sizes != {self.dimensions}):
            expected = self.dimensions or "one number of"
            raise self._error(
                f"expected {expected} dimensions, got {sorted(sizes)}", "correct 'dimensions'"
            )
        vectors = np.array([item.embedding for item in data], dtype=np.float64)
        if not np.isfinite(vectors).all():
            raise self._error("a vector has values that are no numbers", "check the server")
        return vectors

    def _request_in_halves(self, texts: list[str], attempts: Attempts) -> np.ndarray:
        """Return the vectors of texts that are too long for one call.

        A batch is requested in two halves. The vector of a single text is the mean of the vectors
        of its two halves.
        """
        if len(texts) > 1:
            middle = len(texts) // 2
            first = self._request_vectors(texts[:middle], attempts)
            second = self._request_vectors(texts[middle:], attempts)
            return np.vstack([first, second])
        size = len(texts[0])
        if size < SHORTEST_TO_HALVE:
            raise self._error(
                f"the endpoint finds {size} characters too long", "choose another model"
            )
        halves = [half for half in _halve(texts[0]) if half.strip()]
        vectors = unit(self._request_vectors(halves, attempts))
        mean = np.average(vectors, axis=0, weights=[len(half) for half in halves])
        return mean[np.newaxis]

    def _send(self, texts: list[str], attempts: Attempts) -> Any:
        """Return the endpoint's answer, or None if the texts were too long for one call.

        Raises ModelError when the call fails.
        """
        size = {"dimensions": self.dimensions} if self.dimensions else {}

        def create(client: "OpenAI") -> tuple[Any, Tokens]:
            from openai.types import CreateEmbeddingResponse

            sent = list(map(sendable, texts))
            answering = client.embeddings.with_streaming_response.create(
                model=self.model, input=sent, encoding_format="float", extra_body=size
            )
            answer = CreateEmbeddingResponse.construct(**self.endpoint.fetch(answering))
            reported = reported_tokens(getattr(answer, "usage", None))
            return answer, with_estimates(reported, lambda: self._count_tokens(texts), lambda: 0)

        answer = attempts.ask(self._call(texts), create)
        if not isinstance(answer, Failure):
            return answer
        if answer.reason == "too_long":
            return None
        action = "run again" if answer.passing else "correct what it names"
        raise self._error(answer.message, f"{action}: earlier results are kept")

    def _call(self, texts: list[str]) -> Call:
        tokens = self._count_tokens(texts) if self.rate.tokens_per_minute else 0
        return Call("", sum(map(len, texts)), tokens, len(texts))

    def _count_tokens(self, texts: list[str]) -> int:
        return sum(map(tokenizer(self.model).count, texts))

    def _dimensions_of(self, known: Mapping[str, np.ndarray], n_texts: int) -> int:
        """Return the number of dimensions of the vectors.

        If all texts are blank and no setting states it, any text is embedded to learn it. Raises
        ModelError if cached vectors have different numbers.
        """
        sizes = {len(vector) for vector in known.values()}
        if len(sizes) > 1:
            fact = f"vectors of {' and '.join(map(str, sorted(sizes)))} dimensions for one model"
            raise self._error(fact, "set 'dimensions', or name the model otherwise")
        if sizes:
            return sizes.pop()
        if self.dimensions or not n_texts:
            return self.dimensions or 0
        return self.embed(["dimensions"]).shape[1]

    def _error(self, fact: str, action: str) -> ModelError:
        return ModelError(f"{self.where}: {fact}; {action}")


def _data(response: Any) -> list[Any]:
    return getattr(response, "data", None) or []


def _halve(text: str) -> tuple[str, str]:
    """Split the text at the white space next to its middle, or in the middle if there is none."""
    middle = len(text) // 2
    after, before = re.search(r"\s", text[middle:]), text[:middle].rsplit(maxsplit=1)
    if after and after.start() < middle:
        middle += after.start()
    elif len(before) > 1:
        middle = len(before[0])
    return text[:middle], text[middle:]
