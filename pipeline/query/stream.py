"""The answer as it comes: sources first, then the text in pieces, then the whole."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.models.base import ChatRequest
from pipeline.query.answer import Answer, Clock, QueryStage, check_citations, finished, fixed_answer, prepare
from pipeline.query.context import Context, Reference
from pipeline.query.request import QueryRequest


@dataclass(frozen=True)
class Sources:
    references: tuple[Reference, ...]
    context: Context


@dataclass(frozen=True)
class Token:
    text: str


@dataclass(frozen=True)
class Done:
    answer: Answer


Event = Sources | Token | Done


def stream_answer(request: QueryRequest, stage: QueryStage) -> Iterator[Event]:
    """Sources, Token ..., Done. The answer in Done has its citations checked; the tokens are as they came."""
    started = time.perf_counter()
    prepared = prepare(request, stage)
    yield Sources(prepared.context.references, prepared.context)
    fixed = fixed_answer(prepared, stage)
    pieces = []
    with Clock(prepared.timings).measure("model"):
        for piece in [fixed] if fixed is not None else _pieces(prepared.messages, stage):
            pieces.append(piece)
            yield Token(piece)
    text, removed = "".join(pieces), 0
    if fixed is None:
        text, removed = check_citations(text, prepared.context)
    yield Done(finished(prepared, stage, text, started, removed))


def _pieces(messages: tuple[dict[str, str], ...], stage: QueryStage) -> Iterator[str]:
    assert stage.chat is not None
    return stage.chat.stream(ChatRequest("answer", messages))
