"""The log of requests."""

import logging
import time
from dataclasses import dataclass
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("graphmill.serve")


@dataclass(frozen=True)
class RequestLog:
    """An ASGI application around another that logs each request.

    A line has the method, path, status and the milliseconds until the answer's end. It ends with
    "hung up" if the client disconnected before.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, status, whole = time.perf_counter(), 0, False

        async def noted(message: Message) -> None:
            nonlocal status, whole
            status = message.get("status", status)
            await send(message)
            whole = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self.app(scope, receive, noted)
        finally:
            milliseconds = (time.perf_counter() - began) * 1000
            path = quote(scope["path"])  # A path may hold a line break.
            end = "" if whole else " hung up"
            LOG.info("%s %s %d %.0f ms%s", scope["method"], path, status, milliseconds, end)
