"""What a question costs: each call made for it is counted, written down, and held to what its asker
may spend."""

import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipeline.engine.usage.questions import QuestionJournal, new_question_id, seconds_left
from pipeline.errors import BudgetError, DiskFullError, NotAllowedError, StoreError
from pipeline.files import tell
from pipeline.models.base import (
    Anew,
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    IdleListener,
    Listener,
    Reranker,
    Result,
    Talk,
    Usage,
)
from pipeline.query.asker import ANYONE, Asker

CHAT, EMBEDDING, RERANK = "chat", "embedding", "rerank"


@dataclass
class Account:
    """Of one question. ``cost``: None where a model that was asked has no price. Without a journal
    nothing is written down. ``loaded``: the workflow and version of the load that its last read has
    seen."""

    asker: Asker = ANYONE
    workspace: str = ""
    mode: str = ""
    journal: QuestionJournal | None = None
    question: str = field(default_factory=new_question_id)
    begun: int = 0
    chat_calls: int = 0
    cost: float | None = 0.0
    loaded: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def said(self) -> Mapping[str, str]:
        return {
            "question": self.question, "workspace": self.workspace, "key": self.asker.name,
            "mode": self.mode,
        }  # fmt: skip

    def begin(self, kind: str, expected: Usage) -> str:
        """Raises NotAllowedError or BudgetError, so that the call is not made, where nothing is
        left."""
        with self.lock:
            self.begun += 1
            self.chat_calls += kind == CHAT and expected.attempt == 1
            name, calls = f"{self.question}-{self.begun}", self.chat_calls
        if self.asker.max_calls is not None and calls > self.asker.max_calls:
            fact = (
                f"more than {self.asker.max_calls} calls of the chat model for one question are not"
                " allowed here"
            )
            raise NotAllowedError(f"query: {fact}; ask for less, or in another mode")
        if self.journal is None:
            return ""
        self._refuse_spent(self.journal)
        return self.journal.begun(name, expected, kind, self.said)

    def end(self, kind: str, usage: Usage, call: str | None) -> None:
        """What was paid for is not lost where it cannot be written down: its beginning is."""
        if usage.cached:
            return
        with self.lock:
            if kind == CHAT and usage.outcome == "too_long":
                self.chat_calls -= (
                    1  # it was refused before it cost anything, and is made once more, shorter
                )
            self.cost = None if self.cost is None or usage.cost is None else self.cost + usage.cost
        if self.journal is not None and call:
            try:
                self.journal.ended(call, usage, kind, self.said)
            except (DiskFullError, StoreError) as error:
                tell(str(error))

    def _refuse_spent(self, journal: QuestionJournal) -> None:
        asker = self.asker
        if asker.cost_per_day is None and asker.shared_cost_per_day is None:
            return
        spent = journal.spent_today()
        of_all = sum(cost for key, cost in spent.items() if key)
        for most, cost in (
            (asker.cost_per_day, spent.get(asker.name, 0.0)),
            (asker.shared_cost_per_day, of_all),
        ):
            if most is not None and cost >= most:
                raise BudgetError(
                    f"query: what may be spent on questions in a day ({most:g}) is spent; ask again"
                    f" in {seconds_left()} s, or let who runs the server raise cost_per_day"
                )


@dataclass(frozen=True)
class Heard(IdleListener):
    """A Listener that counts the calls of one kind of model in an account."""

    account: Account
    kind: str

    def begun(self, expected: Usage) -> str:
        return self.account.begin(self.kind, expected)

    def ended(self, usage: Usage, call: str | None = None) -> None:
        self.account.end(self.kind, usage, call)


@dataclass(frozen=True)
class AccountedChat(ChatModel):
    model: ChatModel
    account: Account

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        anew: Anew | None = None,
    ) -> list[Result]:
        return self.model.converse(map(self._owned_talk, talks), Heard(self.account, CHAT), anew)

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        return self.model.stream(self._owned(request), Heard(self.account, CHAT))

    def preflight(self) -> None:
        self.model.preflight()

    def _owned_talk(self, talk: Talk[Result]) -> Talk[Result]:
        replies: Sequence[ChatReply] | None = None
        while True:
            try:
                requests = talk.send(replies) if replies is not None else next(talk)
            except StopIteration as end:
                return end.value
            replies = yield [self._owned(request) for request in requests]

    def _owned(self, request: ChatRequest) -> ChatRequest:
        """What it is answered is remembered for its asker alone, where that is to be."""
        if not self.account.asker.apart:
            return request
        mends = self._owned(request.mends) if request.mends else None
        return replace(request, asker=self.account.asker.name, mends=mends)


@dataclass
class AccountedEmbedding(EmbeddingModel):
    """``model``: another one as soon as a load has ended whose vectors are that one's."""

    model: EmbeddingModel
    account: Account

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        return self.model.embed(texts, Heard(self.account, EMBEDDING))


@dataclass(frozen=True)
class AccountedReranker(Reranker):
    model: Reranker
    account: Account

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def rerank(
        self, query: str, documents: Sequence[str], listener: Listener | None = None
    ) -> list[float]:
        return self.model.rerank(query, documents, Heard(self.account, RERANK))
