"""Calls and cost of an evaluation of answers, before any call is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipeline.engine.bill.counting_models import NOT_ASKED, RehearsedChat, Tally
from pipeline.engine.bill.expected_calls import Amount, Estimate
from pipeline.evaluation.answer_results import AnswerSetup, without_citations
from pipeline.evaluation.answers import (
    AnswerTarget,
    PricedChat,
    build_request,
    refuse_unusable,
    requested_model,
)
from pipeline.evaluation.evaluate import look_up_gold
from pipeline.evaluation.judge import PROMPT, judge_request
from pipeline.evaluation.questions import Question
from pipeline.models.base import ChatReply, EmbeddingModel, Listener, Tokens
from pipeline.query.answer import build_answer_request, join_pieces, read_answer
from pipeline.query.prepare import prepare
from pipeline.query.prepared import PreparedQuery
from pipeline.query.resources import QueryResources

ANSWER_LENGTH = (2, 150, 1000)
"""Tokens of an answer: the fewest, those expected, and the most."""
SHORT_LENGTH = (2, 30, 150)
"""Tokens of a verdict or of keywords. A model that thinks aloud writes more."""
Bounds = tuple[int, int, int]


class _UnknownVectorError(Exception):
    """A vector that would need a call."""


@dataclass(frozen=True)
class _KnownVectors(EmbeddingModel):
    """An embedding model that makes no call."""

    model: EmbeddingModel

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.model.identity

    def embed(self, texts: Sequence[str], listener: Listener | None = None) -> np.ndarray:
        """Return the vectors. Raises _UnknownVectorError if one of them needs a call."""
        if self.model.unknown(texts):
            raise _UnknownVectorError
        return self.model.embed(texts, listener)


@dataclass
class _Count:
    """Calls of one kind. ``tally`` has those whose prompt is known.

    ``more``: calls whose prompt is not known yet. ``most_tokens``: the most tokens of their
    prompts together. ``likely_tokens``: their expected tokens.
    """

    tally: Tally
    more: int = 0
    likely_tokens: int = 0
    most_tokens: int = 0
    lengths: list[int] = field(default_factory=list)

    def add_unknown(self, likely: int, most: int) -> None:
        """Count a call whose prompt is not known yet."""
        self.more += 1
        self.likely_tokens += likely
        self.most_tokens += most

    def estimate(self, chat: PricedChat, length: Bounds) -> Estimate:
        """Return the estimate; ``length`` bounds the tokens of a reply."""
        tally = self.tally
        calls = tally.calls + self.more
        least, likely, most = length
        if self.lengths:
            likely = round(sum(self.lengths) / len(self.lengths))
        input_range = (tally.input_tokens, tally.input_tokens + self.most_tokens)
        output_range = (tally.calls * least, calls * max(most, likely))
        expected = Tokens(tally.input_tokens + self.likely_tokens, calls * likely)
        low = chat.cost(Tokens(input_range[0], output_range[0]))
        high = chat.cost(Tokens(input_range[1], output_range[1]))
        return Estimate(
            rows=tally.rows + self.more,
            known=tally.known,
            calls=(tally.calls, calls),
            input_tokens=input_range,
            output_tokens=output_range,
            cost=None if low is None or high is None else (low, high),
            expected=Amount(calls, expected.input, expected.output, chat.cost(expected)),
            guessed=calls > 0,
        )


def forecast_answers(
    questions: Sequence[Question],
    setup: AnswerSetup,
    target: AnswerTarget,
) -> dict[str, Estimate]:
    """Return what an evaluation would ask and cost, by kind of call; no model is called.

    A prompt is counted as it would be sent, without reranking. Its greatest size is counted while
    the question's vector, or the answer that a judge would read, is not known.
    """
    model = requested_model(setup, target, questions[0].text)
    for name in filter(None, (model, setup.judge)):
        refuse_unusable(name, setup, target)
    known = look_up_gold(questions, target.vectors).known
    forecast = _Forecast(setup, target, model)
    for mode in setup.modes:
        for question in known:
            forecast.count(question, mode)
    answering = target.chat(model)
    estimates: dict[str, Estimate] = {}
    if setup.keywords:
        estimates["keywords"] = forecast.keywords.estimate(answering, SHORT_LENGTH)
    estimates["answers"] = forecast.answers.estimate(answering, ANSWER_LENGTH)
    if setup.judge:
        estimates["judge"] = forecast.judge.estimate(target.chat(setup.judge), SHORT_LENGTH)
    return estimates


class _Forecast:
    """The counts of one forecast, by kind of call."""

    def __init__(self, setup: AnswerSetup, target: AnswerTarget, model: str) -> None:
        chat = target.chat
        tokenizer = target.resources.tokenizer
        self.setup = replace(setup, rerank=False)
        self.target = target
        self.keywords = _Count(Tally(tokenizer))
        self.answers = _Count(Tally(tokenizer))
        self.judge = _Count(Tally(tokenizer))
        self.answering = RehearsedChat(chat(model), self.answers.tally)
        self.judging = RehearsedChat(chat(setup.judge), self.judge.tally) if setup.judge else None
        for_keywords = RehearsedChat(chat(model), self.keywords.tally)
        self.resources: QueryResources = replace(
            target.resources,
            embedding=_KnownVectors(target.embedding),
            keyword_chat=lambda name: for_keywords,
            reranker=None,
        )

    def count(self, question: Question, mode: str) -> None:
        """Count the calls of a question in a mode."""
        request = build_request(self.setup, self.target, question.text, mode)
        try:
            prepared = prepare(request, self.resources)
        except _UnknownVectorError:
            most = request.max_total_tokens
            self.answers.add_unknown(most // 2, most)
            self._count_verdict(question, None)
            return
        if prepared.abstention:
            return
        (reply,) = self.answering.complete([build_answer_request(prepared)])
        if reply.reason == NOT_ASKED:
            self._count_verdict(question, None)
            return
        self.answers.lengths.append(reply.output_tokens)
        abstention, text = self._read(reply, prepared)
        if not abstention:
            self._count_verdict(question, text)

    def _read(self, reply: ChatReply, prepared: PreparedQuery) -> tuple[str, str]:
        """Return the reason of no answer, and the text of the answer without its citations."""
        pieces = read_answer(iter([reply.text]), prepared, self.resources)
        text, (abstention, cited) = join_pieces(pieces)
        return abstention, without_citations(text, cited.annotations)

    def _count_verdict(self, question: Question, answer: str | None) -> None:
        """Count the call of the judge; ``answer`` is None if it is not known yet."""
        if self.judging is None or not question.answers:
            return
        prompt = self.resources.prompt(PROMPT)
        request = judge_request(prompt, question.text, question.answers, answer or "")
        if answer is not None:
            self.judging.complete([request])
            return
        content = request.messages[0]["content"]
        tokens = self.target.resources.tokenizer.count(content)
        _, likely, most = ANSWER_LENGTH
        self.judge.add_unknown(tokens + likely, tokens + most)
