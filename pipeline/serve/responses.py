"""Answer as JSON or as server-sent events, or with an error; clients that have disconnected get
nothing."""

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
"""The status in the log for a client that has disconnected; nobody receives it."""


async def answered(
    request: Request,
    work: Coroutine[Any, Any, Response],
    answer: Callable[[Failure], Response] = respond,
) -> Response:
    """Return the response of ``work``, or the response that ``answer`` makes of its error.

    The work is cancelled when the client disconnects; a query that waits for its turn then never
    begins.
    """
    try:
        return await unless_gone(work, _hung_up(request))
    except HungUpError:
        return Response(status_code=HUNG_UP)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        return answer(failure_of(error, request.scope["access"].caller.sees_internals))


async def _hung_up(request: Request) -> None:
    """Return when the client has disconnected. The body has been read, so no other message can
    follow."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


PING_SECONDS = 15.0
UNREAD_SECONDS = 5.0
"""The seconds in which a client has to read the end of a stream whose time is up."""
LOG = logging.getLogger("graphmill.serve")
PING = b": still here\n\n"


class EventStream(StreamingResponse):
    """A response of frames that are sent as they come. Its headers keep proxies from buffering."""

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: Stream[bytes],
        sees_internals: bool,
        failed: Callable[[Failure], bytes] | None = None,
    ):
        """Make the response; ``sees_internals`` is as for ``failure_of``.

        ``failed`` returns the frame of a failure, by default an event ``error``.
        """
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(_sent(frames, sees_internals, failed or _error_frame), headers=headers)
        self.frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames, and end the query with the response, however early the client leaves."""
        try:
            async with asyncio.timeout_at(self.frames.deadline + UNREAD_SECONDS):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            LOG.warning("a client has stopped reading its stream; it is cut off")
        finally:
            self.frames.close()


def _error_frame(failure: Failure) -> bytes:
    return frame("error", failure.error)


async def _sent(
    frames: Stream[bytes], sees_internals: bool, failed: Callable[[Failure], bytes]
) -> AsyncIterator[bytes]:
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
    except Exception as error:  # noqa: BLE001 - the status is sent already, so this is an event
        yield failed(failure_of(error, sees_internals))


def framed(events: Iterable[Event], request: QueryRequest, evidence: bool) -> Iterator[bytes]:
    """Yield the frames of a query's events.

    With ``evidence`` the first frame has the evidence; in mode ``drift`` the last one too, because
    the search went on meanwhile. Raises the error of a failed event: it becomes a status before the
    first frame, and a frame after it.
    """
    sources_json = evidence_json if evidence else references_json
    for event in events:
        match event:
            case Sources():
                sources = sources_json(event.context, request)
                yield frame("sources", sources | {"most_calls": event.most_calls})
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
    """Return a server-sent event. Its data is one line, because JSON has no line break."""
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"


def json_bytes(data: Any) -> bytes:
    """Return the data as JSON in UTF-8; a lone surrogate becomes a question mark."""
    return json.dumps(data, ensure_ascii=False).encode(errors="replace")
