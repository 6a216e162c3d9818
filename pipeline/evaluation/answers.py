"""Evaluation of answers: the chat model answers every question, as it does in a query.

Calls are made together, within the limits of the setup. Replies are cached as those of queries are,
so that an evaluation that was stopped goes on where it ended.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pipeline.engine.usage.run_budget import Budget
from pipeline.errors import ModelError, PromptTooLongError, UsageError, counted
from pipeline.evaluation.answer_results import (
    AnswerEvaluation,
    AnswerSetup,
    Citation,
    GivenAnswer,
    cited_gold,
    without_citations,
)
from pipeline.evaluation.evaluate import describe_load, look_up_gold, refuse_new_load
from pipeline.evaluation.judge import PROMPT, judge_request, verdict_of
from pipeline.evaluation.questions import Question, Targets
from pipeline.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    Talk,
    Tokens,
    Usage,
)
from pipeline.query.account import Account
from pipeline.query.answer import (
    Answer,
    answer,
    build_answer_request,
    build_fixed_answer,
    finish_answer,
    read_reply,
)
from pipeline.query.prepare import prepare
from pipeline.query.prepared import PreparedQuery
from pipeline.query.request import QueryRequest
from pipeline.query.resources import QueryResources
from pipeline.stores.base import Advanced, silent
from pipeline.stores.reads import VectorStore

AT_ONCE = 100
"""Questions whose prompts are held in memory together."""


@dataclass
class BudgetedAccount(Account):
    """An account of many questions, whose calls of all models count against a budget.

    ``made`` and ``known``: numbers of calls, and of replies that needed none.
    """

    budget: Budget = field(default_factory=Budget)
    made: int = 0
    known: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def begin(self, kind: str, expected: Usage) -> str:
        """Record that a call begins. Raises BudgetError if the budget is used up."""
        self.budget.check()
        return super().begin(kind, expected)

    def end(self, kind: str, usage: Usage, call: str | None) -> None:
        super().end(kind, usage, call)
        with self.lock:
            if usage.cached:
                self.known += 1
                return
            self.made += usage.calls
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
        self.budget.spend(usage.input_tokens + usage.output_tokens, usage.cost, usage.estimated)

    def usage_json(self) -> dict[str, Any]:
        return {
            "calls": self.made,
            "known": self.known,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": self.cost,
        }


class PricedChat(ChatModel, Protocol):
    """A chat model that knows its price."""

    def cost(self, tokens: Tokens) -> float | None:
        """Return the price of a call; None if the model has no price."""
        ...


@dataclass(frozen=True)
class AnswerTarget:
    """The project that is evaluated.

    ``request``: makes a request of a question and options, as a query does. ``resources``: those of
    a query; all their calls are recorded in ``account``. ``vectors``: the store of the gold.
    ``chat`` and ``embedding``: the models without an account.
    """

    request: Callable[..., QueryRequest]
    resources: QueryResources
    account: BudgetedAccount
    vectors: VectorStore
    chat: Callable[[str], PricedChat]
    embedding: EmbeddingModel


def evaluate_answers(
    questions: Sequence[Question],
    setup: AnswerSetup,
    target: AnswerTarget,
    advanced: Advanced = silent,
) -> AnswerEvaluation:
    """Ask every question without unknown gold in every mode, and measure the answers.

    A question whose call fails is in ``failed``. Raises UsageError if a model is not configured or
    if --max-cost is set for one without a price, BudgetError when a limit is reached, ModelError if
    all calls fail.
    """
    model = requested_model(setup, target, questions[0].text)
    for name in filter(None, (model, setup.judge)):
        refuse_unusable(name, setup, target)
    live = target.vectors.live()
    found = look_up_gold(questions, target.vectors)
    asking = _Asking(setup, target, found.targets)
    answers: list[GivenAnswer] = []
    expected = len(setup.modes) * len(found.known)
    for mode in setup.modes:
        for start in range(0, len(found.known), AT_ONCE):
            answers += asking.ask_all(found.known[start : start + AT_ONCE], mode)
            advanced("answers", len(answers) + len(asking.failed), expected)
    if not answers:
        mode, question, reason = asking.failed[0]
        raise ModelError(f"eval: no question was answered; line {question.line}, {mode}: {reason}")
    if setup.judge:
        answers = judge_answers(answers, setup.judge, target.resources)
    refuse_new_load(live, target.vectors)
    unjudged = [given.unjudged for given in answers if given.unjudged]
    notes = list(asking.notes)
    if unjudged:
        notes.append(f"{counted(len(unjudged), 'answer')} not judged: {unjudged[0]}")
    return AnswerEvaluation(
        setup=replace(setup, model=model),
        stores=describe_load(live),
        questions=found.known,
        left_out=found.left_out,
        targets=found.targets,
        answers=tuple(answers),
        failed=tuple(asking.failed),
        documents=found.documents,
        usage=target.account.usage_json(),
        notes=tuple(dict.fromkeys(notes)),
    )


def requested_model(setup: AnswerSetup, target: AnswerTarget, question: str) -> str:
    """Return the name of the chat model that a request of the setup asks; any question will do."""
    return build_request(setup, target, question, setup.modes[0]).model


def build_request(
    setup: AnswerSetup, target: AnswerTarget, question: str, mode: str
) -> QueryRequest:
    """Return the request of a question.

    Unless the setup asks the chat model for keywords, the question itself is both kinds of
    keywords, as in an evaluation of retrieval.
    """
    keywords = None if setup.keywords else (question,)
    return target.request(
        question,
        mode=mode,
        model=setup.model or None,
        hl_keywords=keywords,
        ll_keywords=keywords,
        enable_rerank=setup.rerank,
    )


def refuse_unusable(name: str, setup: AnswerSetup, target: AnswerTarget) -> None:
    """Raise UsageError if the chat model is not configured, or has no price to limit."""
    if target.resources.chat(name) is None:
        raise UsageError(
            f"eval: chat model '{name}' is not configured; set its api_key, or OPENAI_API_KEY"
        )
    if setup.max_cost is not None and target.chat(name).cost(Tokens(1, 1)) is None:
        raise UsageError(
            f"--max-cost: chat model '{name}' has no price; set its price in settings.yaml, or use"
            " --max-tokens"
        )
    if setup.rerank and target.resources.reranker is None:
        raise UsageError(
            "eval: no reranker is configured; name one in models.rerank, or do without"
        )


class _Asking:
    """The questions of one evaluation; ``notes`` and ``failed`` are collected."""

    def __init__(self, setup: AnswerSetup, target: AnswerTarget, targets: Targets) -> None:
        self.setup = setup
        self.target = target
        self.targets = targets
        self.notes: list[str] = []
        self.failed: list[tuple[str, Question, str]] = []

    def ask_all(self, questions: Sequence[Question], mode: str) -> Iterator[GivenAnswer]:
        """Yield the answers to these questions; their calls are made together."""
        resources = self.target.resources
        prepared = [prepare(self.request(question, mode), resources) for question in questions]
        chat = resources.chat(prepared[0].request.model)
        assert chat is not None
        replies = chat.converse([_converse_about(each) for each in prepared])
        for question, ready, reply in zip(questions, prepared, replies, strict=True):
            try:
                answered = self.finish(ready, reply)
            except ModelError as error:
                self.failed.append((mode, question, str(error)))
                continue
            yield self.given(question, mode, answered)

    def request(self, question: Question, mode: str) -> QueryRequest:
        return build_request(self.setup, self.target, question.text, mode)

    def finish(self, prepared: PreparedQuery, reply: ChatReply | None) -> Answer:
        """Return the answer in a reply. A prompt that was too long is asked again, shortened."""
        resources = self.target.resources
        started = time.perf_counter()
        try:
            if reply is None:
                said = build_fixed_answer(prepared, resources)
                assert said is not None
            else:
                said = read_reply(reply, prepared, resources)
        except PromptTooLongError:
            return answer(prepared.request, resources)
        return finish_answer(prepared, resources, said, started)

    def given(self, question: Question, mode: str, answered: Answer) -> GivenAnswer:
        """Return the answer with what it cites of the gold."""
        citations = self.citations(question, answered)
        cited_chunks = [citation.chunk for citation in citations]
        cited_documents = [citation.document for citation in citations]
        return GivenAnswer(
            mode=mode,
            question=question,
            text=answered.text,
            plain=without_citations(answered.text, answered.annotations),
            abstention=answered.abstention,
            citations=citations,
            found=cited_gold(question, self.targets, cited_chunks, cited_documents),
            prompt_tokens=answered.tokens["prompt"],
            notes=answered.notes,
        )

    def citations(self, question: Question, answered: Answer) -> tuple[Citation, ...]:
        """Return the cited passages, each once, in the order of the text; none of a refusal."""
        if answered.abstained:
            return ()
        supported: defaultdict[int, list[bool]] = defaultdict(list)
        for mark in answered.annotations:
            supported[mark.number].append(mark.supported)
        references = {reference.id: reference for reference in answered.context.references}
        cited: list[Citation] = []
        for number, are_supported in supported.items():
            reference = references[number]
            chunk, document = reference.chunk_id, reference.document_id
            gold = cited_gold(question, self.targets, [chunk], [document])
            citation = Citation(
                chunk=chunk,
                document=document,
                citations=len(are_supported),
                supported=are_supported.count(True),
                is_gold=bool(gold),
            )
            cited.append(citation)
        return tuple(cited)


def _converse_about(prepared: PreparedQuery) -> Talk[ChatReply | None]:
    """Ask for the answer and return the reply; None if the model is not to be asked."""
    if prepared.abstention:
        return None
    (reply,) = yield (build_answer_request(prepared),)
    return reply


def judge_answers(
    answers: Sequence[GivenAnswer], judge: str, resources: QueryResources
) -> list[GivenAnswer]:
    """Return the answers with the verdicts of a chat model on those that have gold answers."""
    prompt = resources.prompt(PROMPT)
    chat = resources.chat(judge)
    assert chat is not None
    places: list[int] = []
    requests: list[ChatRequest] = []
    for place, given in enumerate(answers):
        if given.is_judgeable:
            question = given.question
            request = judge_request(prompt, question.text, question.answers, given.plain)
            places.append(place)
            requests.append(request)
    judged = list(answers)
    for place, reply in zip(places, chat.complete(requests), strict=True):
        verdict, reason = verdict_of(reply)
        judged[place] = replace(judged[place], verdict=verdict, unjudged=reason)
    return judged
