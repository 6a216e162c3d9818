"""Rerankers behind any address that speaks the protocol of Jina, Cohere and vLLM (``POST .../rerank``), or that of
Hugging Face's Text Embeddings Inference."""

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pipeline.errors import ModelError, SettingsError
from pipeline.models.base import NO_TOKENS, Tokens
from pipeline.models.endpoint.address import Endpoint, Failure, sendable
from pipeline.models.endpoint.attempts import Attempts, Call, Patience
from pipeline.models.endpoint.limits import Bucket, Limiter, Rate
from pipeline.models.exchange import Workers, in_parallel, made_once
from pipeline.models.memory.database import Database

if TYPE_CHECKING:
    from openai import OpenAI


SHORTEST_TO_HALVE = 200  # characters; an endpoint that cannot take so many has another trouble


@dataclass(frozen=True)
class EndpointReranker:
    """A Reranker. ``batch_size``: documents in a call; of each, only its first ``max_characters`` are read, fewer where
    the endpoint finds them too long. ``timeout``: seconds of a call, and of waiting while the endpoint refuses all.

    Raises SettingsError without an address, or for an address or key that cannot be one.
    """

    model: str = ""
    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    batch_size: int = 100
    max_characters: int = 8000
    concurrency: int = 4
    timeout: float = 30
    max_retries: int = 2
    where: str = "models.rerank.default"

    def __post_init__(self) -> None:
        if not self.base_url:
            action = "write the address in front of /rerank, or remove the section"
            raise SettingsError(f"{self.where}: no base_url; {action}")
        _ = self.endpoint

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"model": self.model, "max_characters": self.max_characters}

    @made_once
    def endpoint(self) -> Endpoint:
        address = self.base_url.rstrip("/").removesuffix("/rerank")
        return Endpoint(self.where, self.model, address, self.api_key, self.timeout)

    def preflight(self) -> None:
        self.endpoint.preflight()

    def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """See Reranker. A document that the endpoint leaves out comes after all that it names."""
        stop = threading.Event()
        patience = Patience(self.endpoint, 1, self.timeout)
        attempts = Attempts(self.endpoint, self._limiter, self.max_retries, lambda tokens: None, stop, patience)

        def ask(start: int) -> dict[int, float]:
            some = documents[start : start + self.batch_size]
            scores = self._scores(query, some, self.max_characters, attempts)
            return {start + index: score for index, score in scores.items()}

        starts = range(0, len(documents), self.batch_size)
        found = in_parallel(starts, Workers(ask, self.concurrency, stop, grace=self.timeout))
        scores = {index: score for some in found for index, score in some.items()}
        last = math.nextafter(min(scores.values(), default=0.0), -math.inf)
        return [scores.get(index, last) for index in range(len(documents))]

    @made_once
    def _limiter(self) -> Limiter:
        return Limiter(self.concurrency, Bucket(self.endpoint.digest, Rate(), Database("")))

    def _scores(self, query: str, documents: Sequence[str], longest: int, attempts: Attempts) -> dict[int, float]:
        texts = [sendable(document[:longest]) for document in documents]
        call = Call("", len(query) + sum(map(len, texts)), texts=len(texts))
        answer = attempts.ask(call, partial(self._send, sendable(query), texts))
        if not isinstance(answer, Failure):
            return answer
        longest = min(longest, max(map(len, documents))) // 2
        if answer.reason == "too_long" and longest >= SHORTEST_TO_HALVE:
            return self._scores(query, documents, longest, attempts)
        action = "lower batch_size or max_characters" if answer.status in (400, 413, 422) else "look at the server"
        raise ModelError(f"{self.where}: {answer.message}; {action}")

    def _send(self, query: str, texts: list[str], client: "OpenAI") -> tuple[dict[int, float], Tokens]:
        from openai import UnprocessableEntityError

        try:
            answer = client.post("/rerank", cast_to=object, body=self._body(query, texts))
        except UnprocessableEntityError as error:
            if self._dialect.texts or "`texts`" not in str(error.body or error):
                raise
            self._dialect.texts = True
            answer = client.post("/rerank", cast_to=object, body=self._body(query, texts))
        return _read_scores(answer, len(texts)), NO_TOKENS

    def _body(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self._dialect.texts:
            return {"query": query, "texts": texts, "truncate": True}
        model = {"model": self.model} if self.model else {}
        return {**model, "query": query, "documents": texts, "top_n": len(texts)}

    @cached_property
    def _dialect(self) -> "_Dialect":
        return _Dialect()


@dataclass
class _Dialect:
    """``texts``: the endpoint is Text Embeddings Inference, as its first refusal has told."""

    texts: bool = False


def _read_scores(answer: object, n_documents: int) -> dict[int, float]:
    """Position -> score, of the entries that can be read. Raises ValueError when there is none."""
    entries = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    found = dict(_pairs(entries if isinstance(entries, list) else (), n_documents))
    if not found:
        raise ValueError("the answer holds no score of a document")
    return found


def _pairs(entries: Iterable[object], n_documents: int) -> Iterable[tuple[int, float]]:
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        index, score = entry.get("index"), entry.get("relevance_score", entry.get("score"))
        if type(index) is not int or not 0 <= index < n_documents or isinstance(score, bool):
            continue
        if isinstance(score, int | float) and math.isfinite(score):
            yield index, float(score)
