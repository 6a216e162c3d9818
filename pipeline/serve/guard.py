"""What every request passes before it is read (its host, its key, its size), and its line in the log."""

import logging
import time
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.serve.doors import Doors
from pipeline.serve.failures import refusal

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
WRONG_HOST = "this server is asked by the name localhost or 127.0.0.1, or with a key"
WRONG_KEY = "the API key is missing or wrong; send Authorization: Bearer KEY, or X-API-Key: KEY"


@dataclass(frozen=True)
class Guard:
    """An ASGI application around another.

    Where a door is open, and unless ``any_host``, only those who ask this machine by one of its own names are
    answered: a web page whose name is made to point here cannot ask. ``open_paths`` want no key; ``scope["door"]`` says
    to the application whom theirs has let in, None where there was none.
    """

    app: ASGIApp
    doors: Doors
    max_body: int
    open_paths: frozenset[str] = frozenset()
    any_host: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        scope["door"] = self.doors.opened_by(_keys_in(headers))
        if not self._is_for_us(headers):
            return await refusal(421, WRONG_HOST)(scope, receive, send)
        if scope["door"] is None and scope["path"] not in self.open_paths:
            return await refusal(401, WRONG_KEY, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self.max_body:
            return await refusal(413, self._limit, {"Connection": "close"})(scope, receive, send)
        await self.app(scope, self._limited(receive), send)

    def _limited(self, receive: Receive) -> Receive:
        """For a body whose size was not announced."""
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_body:
                raise HTTPException(413, self._limit, {"Connection": "close"})
            return message

        return limited

    @property
    def _limit(self) -> str:
        return f"the body is larger than {self.max_body // 1024} KB (serve.max_body_kb)"

    def _is_for_us(self, headers: Headers) -> bool:
        host = headers.get("host", "").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        return self.doors.open is None or self.any_host or name in LOOPBACK_NAMES


def _keys_in(headers: Headers) -> list[str]:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return [headers.get("x-api-key", ""), token.strip() if scheme.lower() == "bearer" else ""]


LOG = logging.getLogger("graphmill.serve")


@dataclass(frozen=True)
class RequestLog:
    """An ASGI application around another. Method, path, status, milliseconds until the answer's end; "hung up" where
    that was not reached."""

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
            path = quote(scope["path"])  # it may hold a line break
            LOG.info("%s %s %d %.0f ms%s", scope["method"], path, status, milliseconds, "" if whole else " hung up")
