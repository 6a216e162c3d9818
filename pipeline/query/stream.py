"""The answer as it comes: sources first, then the text in pieces, then the whole."""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from pipeline.errors import GraphmillError
from pipeline.models.base import ChatReply, ChatRequest
from pipeline.query.answer import Answer, Said, any_text, finished, fixed_answer, inquired, read_answer
from pipeline.query.clock import Clock
from pipeline.query.context import Context, Reference
from pipeline.query.prepare import prepare
from pipeline.query.prepared import Prepared
from pipeline.query.replies import refuse_failed
from pipeline.query.request import QueryRequest
from pipeline.query.stage import QueryStage


@dataclass(frozen=True)
class Sources:
    """What was found before the model is asked to answer; ``most_calls``: how many calls that can take, with those
    made for what was found."""

    references: tuple[Reference, ...]
    context: Context
    most_calls: int = 1


@dataclass(frozen=True)
class Token:
    text: str


@dataclass(frozen=True)
class Done:
    answer: Answer


@dataclass(frozen=True)
class Failed:
    """The last event of a stream that broke off."""

    error: GraphmillError


Event = Sources | Token | Done | Failed


def stream_answer(request: QueryRequest, stage: QueryStage) -> Iterator[Event]:
    """Sources, Token ..., Done; where something fails, Failed instead of what is missing. Tokens are as Answer.text has
    them: citations of what was not shown are taken out. Without ``stream`` the text is one Token."""
    try:
        yield from _events(request, stage)
    except GraphmillError as error:
        yield Failed(error)


def _events(request: QueryRequest, stage: QueryStage) -> Iterator[Event]:
    started = time.perf_counter()
    prepared = prepare(request, stage)
    shown = prepared.context.references if request.include_references else ()
    yield Sources(shown, prepared.context, prepared.most_calls)
    prepared = inquired(prepared, stage)
    with Clock(prepared.timings).measure("model"):
        said = yield from _spoken(prepared, stage)
    yield Done(finished(prepared, stage, said, started))


def _spoken(prepared: Prepared, stage: QueryStage) -> Generator[Event, None, Said]:
    if fixed := fixed_answer(prepared, stage):
        yield Token(fixed.text)
        return fixed
    replies: list[ChatReply] = []
    shown: list[str] = []
    answer = read_answer(_pieces(prepared, stage, replies), prepared)
    while True:
        try:
            shown.append(next(answer))
        except StopIteration as end:
            abstention, removed = end.value
            break
        if prepared.request.stream:
            yield Token(shown[-1])
    if not prepared.request.stream:
        yield Token("".join(shown))
    refuse_failed(replies[0])
    return Said("".join(shown), abstention, removed, replies[0])


def _pieces(prepared: Prepared, stage: QueryStage, replies: list[ChatReply]) -> Iterator[str]:
    """Adds the whole reply to ``replies`` when it has come."""
    chat = stage.chat(prepared.request.model)
    assert chat is not None
    replies.append((yield from chat.stream(ChatRequest("answer", prepared.messages, check=any_text))))
