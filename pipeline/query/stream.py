"""The answer as it comes, sources first, and what could be asked next."""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pipeline.contract.prompts import Placeholders
from pipeline.errors import GraphmillError, PromptTooLongError, UsageError
from pipeline.models.base import ChatReply, ChatRequest, readable
from pipeline.query import formats
from pipeline.query.annotations import Annotation
from pipeline.query.answer import (
    Answer,
    AnswerText,
    any_text,
    finished,
    fixed_answer,
    inquired,
    read_answer,
    usage_of,
    whole_answer,
)
from pipeline.query.context import Context, Reference
from pipeline.query.messages import (
    CONTEXT,
    ELSEWHERE,
    Messages,
    PreparedQuery,
    asked_twice,
    conversation,
    count_tokens,
    language_of,
    refuse_failed,
)
from pipeline.query.prepare import prepare
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, QueryResources
from pipeline.query.too_long import ask_within_window, shortened

PROMPT = "next_questions"
PLACEHOLDERS = Placeholders(("number",), CONTEXT)


@dataclass(frozen=True)
class Sources:
    """What was found before the model is asked to answer; ``most_calls``: how many calls that can
    take, with those made for what was found."""

    references: tuple[Reference, ...]
    context: Context
    most_calls: int = 1


@dataclass(frozen=True)
class Token:
    """A piece of the answer. ``annotations``: the citations in it, their places counted from the
    answer's beginning."""

    text: str
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True)
class Done:
    answer: Answer


@dataclass(frozen=True)
class Failed:
    """The last event of a stream that broke off."""

    error: GraphmillError


Event = Sources | Token | Done | Failed


def stream_answer(request: QueryRequest, resources: QueryResources) -> Iterator[Event]:
    """Yield Sources, each Token, and Done; where something fails, Failed instead of what is
    missing.

    Tokens are as Answer.text and Answer.annotations have them: what was shown is not changed later.
    Without ``stream`` the text is one Token, and the model is asked for it as a whole.
    """
    try:
        yield from _events(request, resources)
    except GraphmillError as error:
        yield Failed(error)


def _events(request: QueryRequest, resources: QueryResources) -> Iterator[Event]:
    """Yield the events. A prompt that is refused as too long is made shorter, once: then Sources
    come again."""
    started = time.perf_counter()

    def ask(request: QueryRequest, notes: tuple[str, ...]) -> Iterator[Event]:
        prepared = prepare(request, resources)
        prepared = replace(prepared, notes=(*notes, *prepared.notes))
        shown = prepared.context.references if request.include_references else ()
        yield Sources(shown, prepared.context, prepared.most_calls)
        prepared = inquired(prepared, resources)
        with Clock(prepared.timings).measure("model"):
            said = yield from _spoken(prepared, resources)
        yield Done(finished(prepared, resources, said, started))

    try:
        yield from ask(request, ())
    except PromptTooLongError as refusal:
        shorter, note = shortened(request, resources, refusal)
        yield from ask(shorter, (note,))


def _spoken(
    prepared: PreparedQuery, resources: QueryResources
) -> Generator[Event, None, AnswerText]:
    if fixed := fixed_answer(prepared, resources):
        yield Token(fixed.text, tuple(fixed.cited.annotations))
        return fixed
    if not prepared.request.stream:
        said = whole_answer(prepared, resources)
        yield Token(said.text, tuple(said.cited.annotations))
        return said
    replies: list[ChatReply] = []
    shown: list[str] = []
    answer = read_answer(_pieces(prepared, resources, replies), prepared, resources)
    while True:
        try:
            piece = next(answer)
        except StopIteration as end:
            abstention, cited = end.value
            break
        shown.append(piece.text)
        yield Token(piece.text, piece.annotations)
    refuse_failed(replies[0])
    return AnswerText("".join(shown), abstention, cited, replies[0])


def _pieces(
    prepared: PreparedQuery, resources: QueryResources, replies: list[ChatReply]
) -> Iterator[str]:
    """Adds the whole reply to ``replies`` when it has come."""
    chat = resources.chat(prepared.request.model)
    assert chat is not None
    replies.append(
        (yield from chat.stream(ChatRequest("answer", prepared.messages, check=any_text)))
    )


@dataclass(frozen=True)
class NextQuestions:
    """``questions``: the most promising first. ``usage``: tokens as the endpoint counted them.
    ``cost``, ``question_id``: as of an Answer."""

    request: QueryRequest
    questions: tuple[str, ...]
    usage: dict[str, int]
    notes: tuple[str, ...] = ()
    question_id: str = ""
    cost: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": self.request.mode,
            "question": self.request.query,
            "questions": list(self.questions),
            "usage": self.usage,
            "cost": self.cost,
            "question_id": self.question_id,
            "notes": list(self.notes),
        }


def next_questions(request: QueryRequest, number: int, resources: QueryResources) -> NextQuestions:
    """At most ``number`` questions that lead on from the request's conversation and question, from
    what its mode finds for that question. Of a mode that shows reports in windows, the first window
    is looked at.

    Raises UsageError without a chat model, ModelError where it gives no questions.
    """
    from pipeline.models.parse.report import parse_questions

    chat = resources.chat(request.model)
    if chat is None:
        raise UsageError(
            "questions: they are the chat model's, and none is configured; set OPENAI_API_KEY"
        )
    asked = {turn.content.casefold() for turn in request.conversation_history} | {
        request.query.casefold()
    }

    def ask(request: QueryRequest, notes: tuple[str, ...]) -> NextQuestions:
        prepared = prepare(request, resources)
        messages = _messages(prepared, number, resources)
        check = readable(lambda text: parse_questions(text) or None, "no questions in the reply")
        form = resources.answering_in(formats.QUESTIONS, request.model)
        [[reply], paid] = chat.converse(
            [asked_twice([ChatRequest("questions", messages, form, check)], 1)]
        )[0]
        refuse_failed(reply, count_tokens(messages, resources.tokenizer))
        new = [
            question for question in parse_questions(reply.text) if question.casefold() not in asked
        ]
        usage, account = usage_of(*prepared.replies, *paid), resources.account
        said = (*notes, *_notes(prepared, reply))
        return NextQuestions(
            request, tuple(new[:number]), usage, said, account.question, account.cost
        )

    return ask_within_window(request, resources, ask)


def _messages(prepared: PreparedQuery, number: int, resources: QueryResources) -> Messages:
    template = resources.prompt(PROMPT)
    template.check(PLACEHOLDERS)
    context = prepared.context.windows[0] if prepared.context.windows else prepared.context.text
    language = language_of(prepared.request)
    rules = template.render(context=ELSEWHERE, number=str(number), language=language)
    return conversation(prepared.request, rules, context, prepared.request.query)


def _notes(prepared: PreparedQuery, reply: ChatReply) -> tuple[str, ...]:
    objection = (
        (f"the model's questions could not all be read ({reply.message})",) if reply.message else ()
    )
    return (*prepared.notes, *objection)
