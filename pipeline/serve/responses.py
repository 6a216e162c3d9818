"""An answer as JSON or as server-sent events, or why there is none; none to those who have hung
up."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Any, assert_never

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from pipeline.query.answer_json import evidence_json, references_json
from pipeline.query.request import QueryRequest
from pipeline.query.stream import Done, Event, Failed, Sources, Token
from pipeline.serve.failures import Failure, failure_of, respond
from pipeline.serve.queries import LOOK_SECONDS, HungUpError, Stream, unless_gone

HUNG_UP = 499
"""For the log: nobody is there to get it."""


async def answered(
    request: Request,
    work: Coroutine[Any, Any, Response],
    told: Callable[[Failure], Response] = respond,
) -> Response:
    """What ``work`` brings, its errors as ``told``. It is cancelled when the client hangs up: a
    query that waits for its turn is then never begun."""
    try:
        return await unless_gone(work, _hung_up(request))
    except HungUpError:
        return Response(status_code=HUNG_UP)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        return told(failure_of(error, request.scope["door"].asker.all_told))


async def _hung_up(request: Request) -> None:
    """Its body has been read: nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


PING_SECONDS = 15.0
UNREAD_SECONDS = 5.0
"""That a client gets to read the end of a stream whose time is up."""
LOG = logging.getLogger("graphmill.serve")
PING = b": still here\n\n"


class EventStream(StreamingResponse):
    """Frames as they come. The headers keep proxies from holding them back."""

    media_type = "text/event-stream"

    def __init__(self, frames: Stream[bytes], all_told: bool):
        """``all_told``: as of ``failure_of``."""
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(_sent(frames, all_told), headers=headers)
        self.frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The query ends where this does, whoever has hung up or stopped reading, and however
        early."""
        try:
            async with asyncio.timeout_at(self.frames.deadline + UNREAD_SECONDS):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            LOG.warning("a client has stopped reading its stream; it is cut off")
        finally:
            self.frames.close()


async def _sent(frames: Stream[bytes], all_told: bool) -> AsyncIterator[bytes]:
    try:
        while True:
            silent = 0.0
            while not await frames.ready(LOOK_SECONDS):
                silent += LOOK_SECONDS
                if silent >= PING_SECONDS:
                    silent = 0.0
                    yield PING
            next_frame = frames.take()
            if next_frame is None:
                return
            yield next_frame
    except Exception as error:  # noqa: BLE001 - the status is sent already: it is told as an event
        yield frame("error", failure_of(error, all_told).error)


def framed(events: Iterable[Event], request: QueryRequest, evidence: bool) -> Iterator[bytes]:
    """Raises what the events say has failed: before the first frame it becomes a status, after it a
    frame. ``evidence``: the first event has it; the last does where the search went on after it."""
    sources_json = evidence_json if evidence else references_json
    for event in events:
        match event:
            case Sources():
                yield frame(
                    "sources",
                    sources_json(event.context, request) | {"most_calls": event.most_calls},
                )
            case Token():
                annotations = [annotation.to_json() for annotation in event.annotations]
                yield frame("token", {"text": event.text, "annotations": annotations})
            case Done():
                yield frame("done", event.answer.to_json(evidence and request.mode == "drift"))
            case Failed():
                raise event.error
            case _:
                assert_never(event)


def frame(name: str, data: Any) -> bytes:
    """JSON has no line break, so it is one line of data."""
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"


def json_bytes(data: Any) -> bytes:
    """In UTF-8, whatever is in it: a lone surrogate becomes a question mark."""
    return json.dumps(data, ensure_ascii=False).encode(errors="replace")
