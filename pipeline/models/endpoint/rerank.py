"""Rerankers behind any address that speaks the protocol of Jina, Cohere and vLLM (``POST
.../rerank``), or that of Hugging Face's Text Embeddings Inference."""

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.errors import ModelError, SettingsError
from pipeline.models.base import Listener, Tokens
from pipeline.models.conversations import in_parallel, made_once
from pipeline.models.endpoint.attempts import Attempts, Call, RemoteModel, RetryWindow
from pipeline.models.endpoint.client import Endpoint, Failure, UselessAnswerError, sendable
from pipeline.models.endpoint.token_counts import as_count
from pipeline.text.tokens import tokenizer

if TYPE_CHECKING:
    from openai import OpenAI


SHORTEST_TO_HALVE = 200  # characters; an endpoint that cannot take so many has another trouble
TEXTS_OF_A_SEARCH = 100
"""As Cohere bills them, where an endpoint does not count its searches itself."""


@dataclass(frozen=True)
class EndpointReranker(RemoteModel):
    """A Reranker. ``batch_size``: documents in a call; of each, only its first ``max_characters``
    are read, fewer where the endpoint finds them too long. ``timeout``: seconds of a call, and of
    waiting while the endpoint refuses all. ``search_price``: per thousand searches; some endpoints
    are paid by these, some by ``input_price``.

    Raises SettingsError without an address.
    """

    concurrency: int = 4
    timeout: float = 30
    max_retries: int = 2
    where: str = "models.rerank.default"
    batch_size: int = 100
    max_characters: int = 8000
    search_price: float = 0.0

    def __post_init__(self) -> None:
        if not self.base_url:
            action = "write the address in front of /rerank, or remove the section"
            raise SettingsError(f"{self.where}: no base_url; {action}")
        super().__post_init__()

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"model": self.model, "max_characters": self.max_characters}

    def cost(self, tokens: Tokens) -> float | None:
        by_tokens = super().cost(tokens)
        return None if by_tokens is None else by_tokens + tokens.searches * self.search_price / 1e3

    @made_once
    def endpoint(self) -> Endpoint:
        address, mark, query = self.base_url.partition("?")
        address = address.rstrip("/").removesuffix("/rerank") + mark + query
        return self.connect(self.where, self.model, address, self.api_key, self.timeout)

    def rerank(
        self, query: str, documents: Sequence[str], listener: Listener | None = None
    ) -> list[float]:
        """See Reranker. A document that the endpoint leaves out comes after all that it names."""
        attempts = replace(
            self.attempts(listener), patience=RetryWindow(self.endpoint, 1, self.timeout)
        )

        def ask(start: int) -> dict[int, float]:
            some = documents[start : start + self.batch_size]
            scores = self._scores(query, some, self.max_characters, attempts)
            return {start + index: score for index, score in scores.items()}

        starts = range(0, len(documents), self.batch_size)
        found = in_parallel(starts, self.workers(ask, attempts))
        scores = {index: score for some in found for index, score in some.items()}
        last = math.nextafter(min(scores.values(), default=0.0), -math.inf)
        return [scores.get(index, last) for index in range(len(documents))]

    def _scores(
        self, query: str, documents: Sequence[str], longest: int, attempts: Attempts
    ) -> dict[int, float]:
        texts = [sendable(document[:longest]) for document in documents]
        searches = math.ceil(len(texts) / TEXTS_OF_A_SEARCH)
        call = Call("", len(query) + sum(map(len, texts)), texts=len(texts), searches=searches)
        answer = attempts.ask(call, partial(self._send, sendable(query), texts, call.expected))
        if not isinstance(answer, Failure):
            return answer
        longest = min(longest, max(map(len, documents))) // 2
        if answer.reason == "too_long" and longest >= SHORTEST_TO_HALVE:
            return self._scores(query, documents, longest, attempts)
        action = (
            "lower batch_size or max_characters"
            if answer.status in (400, 413, 422)
            else "look at the server"
        )
        raise ModelError(f"{self.where}: {answer.message}; {action}")

    def _send(
        self, query: str, texts: list[str], expected: Tokens, client: "OpenAI"
    ) -> tuple[dict[int, float], Tokens]:
        from openai import UnprocessableEntityError

        try:
            answer = client.post("/rerank", cast_to=object, body=self._body(query, texts))
        except UnprocessableEntityError as error:
            if self._wants_texts.is_set() or "`texts`" not in str(error.body or error):
                raise
            self._wants_texts.set()
            answer = client.post("/rerank", cast_to=object, body=self._body(query, texts))
        tokens = _reported(answer, expected) or self._estimated(query, texts, expected)
        return _read_scores(answer, len(texts), tokens), tokens

    def _estimated(self, query: str, texts: list[str], expected: Tokens) -> Tokens:
        """Count the tokens: a reranker reads the query together with each text, and is billed
        so."""
        count = tokenizer(self.model).count
        tokens = count(query) * len(texts) + sum(map(count, texts))
        return Tokens(tokens, 0, searches=expected.searches, estimated=True)

    def _body(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self._wants_texts.is_set():
            return {"query": query, "texts": texts, "truncate": True}
        model = {"model": self.model} if self.model else {}
        return {**model, "query": query, "documents": texts, "top_n": len(texts)}

    @made_once
    def _wants_texts(self) -> threading.Event:
        """Set where the endpoint is Text Embeddings Inference, as its first refusal has told."""
        return threading.Event()


def _reported(answer: object, expected: Tokens) -> Tokens | None:
    """Return what the endpoint reports: Jina and vLLM their tokens, Cohere its searches; None if it
    reports neither.

    The one of both that it does not report is as expected. A count of 0 reports nothing: every call
    has tokens.
    """
    tokens = _count(answer, "usage", "total_tokens")
    searches = _count(answer, "meta", "billed_units", "search_units")
    if not tokens and not searches:
        return None
    return Tokens(tokens or expected.input, 0, searches=searches or expected.searches)


def _count(answer: Any, *path: str) -> int | None:
    for name in path:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return as_count(answer)


def _read_scores(answer: object, n_documents: int, tokens: Tokens) -> dict[int, float]:
    """Position -> score, of the entries that can be read. Raises UselessAnswerError when there is
    none."""
    entries = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    found = dict(_pairs(entries if isinstance(entries, list) else (), n_documents))
    if not found:
        raise UselessAnswerError("the answer holds no score of a document", tokens)
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
