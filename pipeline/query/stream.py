"""A streamed answer: sources first, then the text piece by piece, then the whole answer."""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from pipeline.errors import GraphmillError, PromptTooLongError
from pipeline.models.base import ChatReply
from pipeline.query.answer import (
    Answer,
    AnswerText,
    ask_for_answer,
    build_answer_request,
    build_fixed_answer,
    finish_answer,
    make_inquiry,
    read_answer,
)
from pipeline.query.citations.annotations import Annotation
from pipeline.query.context import Context, Reference
from pipeline.query.prepare import prepare
from pipeline.query.prepared import PreparedQuery
from pipeline.query.replies import refuse_failed
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, QueryResources
from pipeline.query.too_long import shorten_prompt


@dataclass(frozen=True)
class Sources:
    """The evidence found before the model is asked to answer.

    ``most_calls``: most calls that the question can take, those already made included.
    """

    references: tuple[Reference, ...]
    context: Context
    most_calls: int = 1


@dataclass(frozen=True)
class Token:
    """A piece of the answer's text, and its citations, with their places in the whole text."""

    text: str
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True)
class Done:
    """The last event of a stream that was successful."""

    answer: Answer


@dataclass(frozen=True)
class Failed:
    """The last event of a stream that failed."""

    error: GraphmillError


Event = Sources | Token | Done | Failed


def stream_answer(request: QueryRequest, resources: QueryResources) -> Iterator[Event]:
    """Yield Sources, each Token, and Done; after an error, Failed instead of the rest.

    The tokens together are Answer.text and Answer.annotations: nothing is changed after it was
    yielded. If the request has no ``stream``, the model is not asked to stream, and the text is one
    Token.
    """
    try:
        yield from _events(request, resources)
    except GraphmillError as error:
        yield Failed(error)


def _events(request: QueryRequest, resources: QueryResources) -> Iterator[Event]:
    """Yield the events; after a prompt that was too long, yield Sources again and so on."""
    started = time.perf_counter()

    def ask(request: QueryRequest, notes: tuple[str, ...]) -> Iterator[Event]:
        prepared = prepare(request, resources)
        prepared = replace(prepared, notes=(*notes, *prepared.notes))
        shown = prepared.context.references if request.include_references else ()
        yield Sources(shown, prepared.context, prepared.most_calls)
        prepared = make_inquiry(prepared, resources)
        with Clock(prepared.timings).measure("model"):
            said = yield from _yield_tokens(prepared, resources)
        yield Done(finish_answer(prepared, resources, said, started))

    try:
        yield from ask(request, ())
    except PromptTooLongError as refusal:
        shorter, note = shorten_prompt(request, resources, refusal)
        yield from ask(shorter, (note,))


def _yield_tokens(
    prepared: PreparedQuery, resources: QueryResources
) -> Generator[Event, None, AnswerText]:
    """Yield the answer's tokens; return its whole text. Raises ModelError if the model fails."""
    fixed = build_fixed_answer(prepared, resources)
    if fixed is not None:
        yield Token(fixed.text, tuple(fixed.cited.annotations))
        return fixed
    if not prepared.request.stream:
        said = ask_for_answer(prepared, resources)
        yield Token(said.text, tuple(said.cited.annotations))
        return said
    replies: list[ChatReply] = []
    shown: list[str] = []
    answer = read_answer(_ask_for_stream(prepared, resources, replies), prepared, resources)
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


def _ask_for_stream(
    prepared: PreparedQuery, resources: QueryResources, replies: list[ChatReply]
) -> Iterator[str]:
    """Yield the pieces of the model's reply; append the whole reply to ``replies`` at its end."""
    chat = resources.chat(prepared.request.model)
    assert chat is not None
    reply = yield from chat.stream(build_answer_request(prepared))
    replies.append(reply)
