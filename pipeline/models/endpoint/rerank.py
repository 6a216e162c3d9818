"""Rerankers behind any address with the protocol of Jina, Cohere and vLLM (``POST .../rerank``).

The protocol of Hugging Face's Text Embeddings Inference is supported as well.
"""

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipeline.errors import ModelError, SettingsError
from pipeline.models.base import Listener, Tokens
from pipeline.models.conversations import in_parallel, made_once
from pipeline.models.endpoint.attempts import Attempts, Call, RetryWindow
from pipeline.models.endpoint.client import Endpoint, Failure, UselessAnswerError, sendable
from pipeline.models.endpoint.remote_model import RemoteModel
from pipeline.models.endpoint.token_counts import as_count
from pipeline.text.tokens import tokenizer

if TYPE_CHECKING:
    from openai import OpenAI


SHORTEST_TO_HALVE = 200
"""Characters. If an endpoint calls shorter documents too long, the length is not the problem."""
TEXTS_OF_A_SEARCH = 100
"""Number of documents in one billed search of Cohere. It is used if an endpoint does not report its
searches."""


@dataclass(frozen=True)
class EndpointReranker(RemoteModel):
    """Reranker behind an address.

    ``batch_size``: the number of documents in a call. ``max_characters``: only this many characters
    at the start of a document are read, and fewer if the endpoint finds them too long. ``timeout``:
    the time limit in seconds of a call, and of waiting while the endpoint refuses all calls.
    ``search_price``: the price per thousand searches. Some endpoints are paid by searches, others
    by ``input_price``.

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
        """Return the cost of tokens and searches, or None if the model has no price."""
        cost_of_tokens = super().cost(tokens)
        if cost_of_tokens is None:
            return None
        return cost_of_tokens + tokens.searches * self.search_price / 1e3

    @made_once
    def endpoint(self) -> Endpoint:
        # The client adds "/rerank" itself, and the query stays behind it.
        address, mark, query = self.base_url.partition("?")
        root = address.rstrip("/").removesuffix("/rerank")
        return self.connect(
            self.where, self.model, f"{root}{mark}{query}", self.api_key, self.timeout
        )

    def rerank(
        self, query: str, documents: Sequence[str], listener: Listener | None = None
    ) -> list[float]:
        """Return a score for each document, as Reranker says.

        A document that the endpoint leaves out gets a score below all others.
        """
        retry_window = RetryWindow(self.endpoint, 1, self.timeout)
        attempts = replace(self.attempts(listener), retry_window=retry_window)

        def ask(start: int) -> dict[int, float]:
            batch = documents[start : start + self.batch_size]
            scores = self._request_scores(query, batch, self.max_characters, attempts)
            return {start + index: score for index, score in scores.items()}

        starts = range(0, len(documents), self.batch_size)
        scores: dict[int, float] = {}
        for scores_of_batch in in_parallel(starts, self.workers(ask, attempts)):
            scores.update(scores_of_batch)
        below_all = math.nextafter(min(scores.values(), default=0.0), -math.inf)
        return [scores.get(index, below_all) for index in range(len(documents))]

    def _request_scores(
        self, query: str, documents: Sequence[str], longest: int, attempts: Attempts
    ) -> dict[int, float]:
        """Return the scores of the documents of one call by their positions.

        Only ``longest`` characters of each document are sent, and half as many if the endpoint
        finds them too long. Raises ModelError when the call fails.
        """
        texts = [sendable(document[:longest]) for document in documents]
        searches = math.ceil(len(texts) / TEXTS_OF_A_SEARCH)
        call = Call("", len(query) + sum(map(len, texts)), texts=len(texts), searches=searches)
        answer = attempts.ask(call, partial(self._send, sendable(query), texts, call.expected))
        if not isinstance(answer, Failure):
            return answer
        longest = min(longest, max(map(len, documents))) // 2
        if answer.reason == "too_long" and longest >= SHORTEST_TO_HALVE:
            return self._request_scores(query, documents, longest, attempts)
        action = "check the server"
        if answer.status in (400, 413, 422):
            action = "lower batch_size or max_characters"
        raise ModelError(f"{self.where}: {answer.message}; {action}")

    def _send(
        self, query: str, texts: list[str], expected: Tokens, client: "OpenAI"
    ) -> tuple[dict[int, float], Tokens]:
        """Send one call. Return the scores by position, and the tokens.

        If the endpoint refuses ``documents`` and names ``texts``, it is Text Embeddings Inference:
        the call is then repeated in its protocol, which all later calls use as well.
        """
        from openai import UnprocessableEntityError

        try:
            answer = client.post("/rerank", cast_to=object, body=self._body(query, texts))
        except UnprocessableEntityError as error:
            if self._wants_texts.is_set() or "`texts`" not in str(error.body or error):
                raise
            self._wants_texts.set()
            answer = client.post("/rerank", cast_to=object, body=self._body(query, texts))
        tokens = _read_usage(answer, expected) or self._estimate_tokens(query, texts, expected)
        return _read_scores(answer, len(texts), tokens), tokens

    def _estimate_tokens(self, query: str, texts: list[str], expected: Tokens) -> Tokens:
        """Count the tokens. A reranker reads, and bills, the query together with each text."""
        count = tokenizer(self.model).count
        tokens = count(query) * len(texts) + sum(map(count, texts))
        return Tokens(tokens, 0, searches=expected.searches, estimated=True)

    def _body(self, query: str, texts: list[str]) -> dict[str, Any]:
        """Return the JSON body in the protocol of the endpoint."""
        if self._wants_texts.is_set():
            return {"query": query, "texts": texts, "truncate": True}
        model = {"model": self.model} if self.model else {}
        return {**model, "query": query, "documents": texts, "top_n": len(texts)}

    @made_once
    def _wants_texts(self) -> threading.Event:
        """Return an event that is set when the endpoint turns out to be Text Embeddings
        Inference."""
        return threading.Event()


def _read_usage(answer: object, expected: Tokens) -> Tokens | None:
    """Return the usage that the endpoint reports, or None if it reports none.

    Jina and vLLM report tokens, Cohere reports searches. The expected value replaces the missing
    one of the two. A count of 0 is no report, because every call has tokens.
    """
    tokens = _count_at(answer, "usage", "total_tokens")
    searches = _count_at(answer, "meta", "billed_units", "search_units")
    if not tokens and not searches:
        return None
    return Tokens(tokens or expected.input, 0, searches=searches or expected.searches)


def _count_at(answer: Any, *path: str) -> int | None:
    """Return the count at this path of names in nested JSON objects, or None."""
    for name in path:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return as_count(answer)


def _read_scores(answer: object, n_documents: int, tokens: Tokens) -> dict[int, float]:
    """Return the scores by position; entries that cannot be read are left out.

    Raises UselessAnswerError when no score can be read.
    """
    entries = answer.get("results", answer.get("data")) if isinstance(answer, dict) else answer
    found = dict(_read_entries(entries if isinstance(entries, list) else (), n_documents))
    if not found:
        raise UselessAnswerError("the answer contains no score of a document", tokens)
    return found


def _read_entries(entries: Iterable[object], n_documents: int) -> Iterable[tuple[int, float]]:
    """Yield position and score of each entry with a valid position and a finite score."""
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        index = entry.get("index")
        score = entry.get("relevance_score", entry.get("score"))
        # A bool is an int for Python, but not a number in JSON.
        if type(index) is not int or isinstance(score, bool):
            continue
        if not 0 <= index < n_documents:
            continue
        if isinstance(score, int | float) and math.isfinite(score):
            yield index, float(score)
