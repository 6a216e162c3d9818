"""The account of a question: its model calls, counted, recorded and checked against limits."""

import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipeline.engine.usage.questions import QuestionJournal, new_question_id, seconds_left
from pipeline.errors import BudgetError, DiskFullError, NotAllowedError, StoreError
from pipeline.files import tell
from pipeline.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    IdleListener,
    Listener,
    Repeats,
    Reranker,
    Result,
    Talk,
    Usage,
)
from pipeline.query.caller import ANYONE, Caller

CHAT, EMBEDDING, RERANK = "chat", "embedding", "rerank"


@dataclass
class Account:
    """The calls and costs of one question.

    ``cost`` is None once a model without a price has been called. Without ``journal`` nothing is
    recorded. ``loaded``: workflow and version of the load that the last read saw. ``begun``: calls
    of all models, retries included; ``chat_calls``: calls of chat models, without retries.
    """

    caller: Caller = ANYONE
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
    def journal_fields(self) -> Mapping[str, str]:
        """The fields of each journal entry that name the question and its caller."""
        return {
            "question": self.question,
            "workspace": self.workspace,
            "key": self.caller.name,
            "mode": self.mode,
        }

    def begin(self, kind: str, expected: Usage) -> str:
        """Record that a call begins; return the name of its journal entry, "" without a journal.

        Raises NotAllowedError or BudgetError, before the call is made, if a limit is exhausted.
        """
        with self.lock:
            self.begun += 1
            if kind == CHAT and expected.attempt == 1:
                self.chat_calls += 1
            name, calls = f"{self.question}-{self.begun}", self.chat_calls
        if self.caller.max_calls is not None and calls > self.caller.max_calls:
            fact = (
                f"more than {self.caller.max_calls} calls of the chat model for one question are"
                " not allowed here"
            )
            raise NotAllowedError(f"query: {fact}; ask for less, or in another mode")
        if self.journal is None:
            return ""
        self._refuse_spent(self.journal)
        return self.journal.begun(name, expected, kind, self.journal_fields)

    def end(self, kind: str, usage: Usage, call: str | None) -> None:
        """Record the cost of a call that has ended; ``call`` is the name of its journal entry.

        If the journal cannot be written, a message is printed and the question goes on: the entry
        of the call's beginning still shows that it was made.
        """
        if usage.cached:
            return
        with self.lock:
            if kind == CHAT and usage.outcome == "too_long":
                # It was refused before it cost anything, and is repeated with a shorter prompt.
                self.chat_calls -= 1
            if self.cost is not None:
                self.cost = None if usage.cost is None else self.cost + usage.cost
        if self.journal is not None and call:
            try:
                self.journal.ended(call, usage, kind, self.journal_fields)
            except (DiskFullError, StoreError) as error:
                tell(str(error))

    def _refuse_spent(self, journal: QuestionJournal) -> None:
        """Raise BudgetError if a daily limit of the caller is spent."""
        caller = self.caller
        if caller.cost_per_day is None and caller.shared_cost_per_day is None:
            return
        spent = journal.spent_today()
        of_caller = spent.get(caller.name, 0.0)
        of_named_callers = sum(cost for key, cost in spent.items() if key)
        limits = (
            (caller.cost_per_day, of_caller),
            (caller.shared_cost_per_day, of_named_callers),
        )
        for most, cost in limits:
            if most is not None and cost >= most:
                raise BudgetError(
                    f"query: what may be spent on questions in a day ({most:g}) is spent; ask again"
                    f" in {seconds_left()} s, or let who runs the server raise cost_per_day"
                )


@dataclass(frozen=True)
class AccountListener(IdleListener):
    """A listener that records the calls of one kind of model in an account."""

    account: Account
    kind: str

    def begun(self, expected: Usage) -> str:
        return self.account.begin(self.kind, expected)

    def ended(self, usage: Usage, call: str | None = None) -> None:
        self.account.end(self.kind, usage, call)


@dataclass(frozen=True)
class AccountedChat(ChatModel):
    """A chat model whose calls are recorded in an account."""

    model: ChatModel
    account: Account

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def converse(
        self,
        talks: Iterable[Talk[Result]],
        listener: Listener | None = None,
        repeats: Repeats | None = None,
    ) -> list[Result]:
        listened = AccountListener(self.account, CHAT)
        return self.model.converse(map(self._with_caller_in_talk, talks), listened, repeats)

    def stream(
        self, request: ChatRequest, listener: Listener | None = None
    ) -> Generator[str, None, ChatReply]:
        return self.model.stream(self._with_caller(request), AccountListener(self.account, CHAT))

    def preflight(self) -> None:
        self.model.preflight()

    def _with_caller_in_talk(self, talk: Talk[Result]) -> Talk[Result]:
        """Run the talk with ``_with_caller`` applied to each of its requests."""
        replies: Sequence[ChatReply] | None = None
        while True:
            try:
                requests = talk.send(replies) if replies is not None else next(talk)
            except StopIteration as end:
                return end.value
            replies = yield [self._with_caller(request) for request in requests]

    def _with_caller(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the caller's name if replies may not be shared with others."""
        if not self.account.caller.apart:
            return request
        mends = self._with_caller(request.mends) if request.mends else None
        return replace(request, caller=self.account.caller.name, mends=mends)


@dataclass
class AccountedEmbedding(EmbeddingModel):
    """An embedding model whose calls are recorded in an account.

    ``model`` is replaced when a load has brought vectors of another model.
    """

    model: EmbeddingModel
    account: Account

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        listened = AccountListener(self.account, EMBEDDING)
        if self.account.caller.apart:
            return self.model.embed_for(self.account.caller.name, texts, listened)
        return self.model.embed(texts, listened)


@dataclass(frozen=True)
class AccountedReranker(Reranker):
    """A reranker whose calls are recorded in an account."""

    model: Reranker
    account: Account

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def rerank(
        self, query: str, documents: Sequence[str], listener: Listener | None = None
    ) -> list[float]:
        return self.model.rerank(query, documents, AccountListener(self.account, RERANK))
