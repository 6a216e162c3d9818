"""Read streamed answers from the bytes of a response that is still being sent."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.models.endpoint.client import OverdueError
from pipeline.models.endpoint.token_counts import plain_text, written_text

UNSTATED = "unstated"
"""Finish reason of a stream that ended by its end mark without stating a reason."""
END_MARK = "[DONE]"
DATA = "data:"


@dataclass(frozen=True)
class Chunk:
    """A chunk of an answer.

    ``usage``: token counts with the attribute names of the OpenAI protocol. ``written``: all text
    that the model wrote in this chunk. It includes reasoning, which is billed but is no part of the
    answer's ``text``.
    """

    text: str = ""
    finish_reason: str | None = None
    usage: Any = None
    written: str = ""


class StreamedError(ValueError):
    """An error that was sent instead of a chunk. It has the attributes of the client's own
    errors."""

    def __init__(self, said: Any):
        self.body = said if isinstance(said, dict) else {"message": str(said)}
        self.code = self.body.get("code")
        # Servers put the HTTP status into ``code``. An error without one is a server error.
        has_status = isinstance(self.code, int) and self.code >= 400
        self.status_code = self.code if has_status else 500
        message = self.body.get("message") or self.body
        super().__init__(str(message))


def lines_in_time(pieces: Iterable[bytes], seconds: float) -> Iterator[str]:
    """Yield the lines of a body. Lines end at line feeds only, because JSON may contain other
    separators.

    Raises OverdueError when nothing but white space has arrived for ``seconds``.
    """
    until = time.monotonic() + seconds
    has_begun = False
    rest = b""
    for piece in pieces:
        has_begun = has_begun or bool(piece.strip())
        if not has_begun and time.monotonic() > until:
            raise OverdueError
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    yield rest.decode("utf-8", "replace")


def read_events(
    lines: Iterator[str], whole: Callable[[Mapping[str, Any]], Chunk]
) -> Iterator[Chunk]:
    """Yield the chunks of a streamed answer of the OpenAI protocol.

    An endpoint that cannot stream sends one JSON object instead, which ``whole`` converts to a
    chunk. Raises StreamedError for an error that is sent as an event, and ValueError for an event
    that is no JSON object.
    """
    is_reason_stated = False
    for line in lines:
        event = line.strip()
        # No line of an event stream begins like this.
        if event.startswith("{"):
            yield whole(json_object("\n".join([event, *lines])))
            return
        if not event.startswith(DATA):
            continue
        data = event.removeprefix(DATA).strip()
        if data == END_MARK:
            if not is_reason_stated:
                yield Chunk(finish_reason=UNSTATED)
            return
        chunk = _read_chunk(json_object(data))
        is_reason_stated = is_reason_stated or bool(chunk.finish_reason)
        yield chunk


def json_object(data: str) -> dict[str, Any]:
    """Return the object in a JSON text.

    Raises StreamedError if the object is an error, and ValueError if the text is no object.
    """
    event = json.loads(data)
    if not isinstance(event, dict):
        raise ValueError("the answer is no JSON object")
    if event.get("error"):
        raise StreamedError(event["error"])
    return event


def usage_of(event: Mapping[str, Any]) -> Any:
    """Return the token counts of an event or an answer, or None if it has none."""
    from openai.types import CompletionUsage

    usage = event.get("usage")
    return CompletionUsage.construct(**usage) if isinstance(usage, dict) else None


def _read_chunk(event: Mapping[str, Any]) -> Chunk:
    """Return the chunk in one event of a stream."""
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    text = plain_text(delta.get("content"))
    return Chunk(text, choices[0].get("finish_reason"), usage_of(event), written_text(delta))
