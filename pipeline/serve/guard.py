"""What every request passes before it is read (its host, its key, its size, how long it takes to
come), what every answer tells a browser, and a line in the log."""

import asyncio
import logging
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.errors import NotAllowedError
from pipeline.pages.environment import texts
from pipeline.serve.doors import Door, Doors
from pipeline.serve.failures import refusal
from pipeline.serve.named import is_trusted, named_in
from pipeline.serve.navigation import login_address, of_another_page, wants_page
from pipeline.serve.tries import Tries, sender_of
from pipeline.settings.schema import UsersSettings

if TYPE_CHECKING:
    from pipeline.serve.sessions import (
        Sessions,
    )  # by itsdangerous, which tools for assistants do without

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_IN_WORKSPACE = re.compile("/w/([a-z0-9_-]{1,63})(/.*)", re.DOTALL)


@dataclass(frozen=True)
class Guard:
    """An ASGI application around another.

    Where a door is open, or is for the person at this machine, and unless ``any_host``, only those
    who ask this machine by one of its own names are answered: a web page whose name is made to
    point here cannot ask. Through an open door no other server's page may ask, unless its origin is
    one of ``origins``. ``open_paths`` want no key, nor does what is below those that end with /;
    ``scope["door"]`` says to the application whom theirs has let in, None where there was none. A
    path below /w/NAME asks for the same of that workspace. ``sessions``: of those who have signed
    in on a page; where there are such, whoever asks for a page without a key is led to the login.
    ``patience``: seconds that a body may take to come. ``tries``: wrong keys of late; after too
    many each is answered late. ``users``: who may name the user of a request, and in which headers.
    """

    app: ASGIApp
    doors: Doors
    max_body: int
    patience: float
    open_paths: Collection[str] = ()
    any_host: bool = False
    sessions: "Sessions | None" = None
    origins: Collection[str] = ()
    tries: Tries = field(default_factory=Tries)
    users: UsersSettings = field(default_factory=UsersSettings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        if not self._is_for_us(headers):
            return await refusal(421, texts()["failures"]["wrong_host"])(scope, receive, send)
        given = _keys_in(headers)
        try:
            door = self._opened(scope, headers, given)
        except NotAllowedError as error:
            plain = PlainTextResponse(str(error), 403) if wants_page(scope) else None
            return await (plain or refusal(403, str(error)))(scope, receive, send)
        if door is None and any(given) and (seconds := await self.tries.count(sender_of(scope))):
            too_many = texts()["failures"]["too_many_wrong_keys"].format(seconds=seconds)
            return await refusal(429, too_many, {"Retry-After": str(seconds)})(scope, receive, send)
        if inside := _IN_WORKSPACE.fullmatch(scope["path"]):
            workspace, path = inside.groups()
            scope = {**scope, "path": path, "raw_path": quote(path).encode()}
            if door is not None and (door := door.at(workspace)) is None:
                return await refusal(404, texts()["failures"]["no_workspace"])(scope, receive, send)
        scope["door"] = door
        if door is None and not self._is_open(scope["path"]):
            if self.sessions and wants_page(scope):
                return await RedirectResponse(login_address(scope), 303)(scope, receive, send)
            if self.doors.open is not None:
                return await refusal(403, texts()["failures"]["other_page"])(scope, receive, send)
            wrong_key = texts()["failures"]["wrong_key"]
            return await refusal(401, wrong_key, {"WWW-Authenticate": "Bearer"})(
                scope, receive, send
            )
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self.max_body:
            return await refusal(413, self._limit, {"Connection": "close"})(scope, receive, send)
        await self.app(scope, self._limited(receive), send)

    def _opened(self, scope: Scope, headers: Headers, given: Sequence[bytes]) -> Door | None:
        """By a key, else by what a trusted proxy says, else by a session; a wrong key is none of
        the others.

        Raises NotAllowedError where a user is named who may not ask, or by a key that may not name
        one.
        """
        door = self.doors.opened_by(given)
        if door is not None and door.key:
            return self._of_user(door, headers)
        if door is None and not any(given):
            return self._of_proxy(scope, headers) or (
                self.sessions.door(scope) if self.sessions else None
            )
        if door is not None and door is self.doors.open and of_another_page(scope, self.origins):
            return None
        return door

    def _of_user(self, by_key: Door, headers: Headers) -> Door:
        """The door of the user for whom a front end asks; by any other key that of the key
        itself."""
        if not self.doors.any_for_users:
            return by_key
        named, words = named_in(headers, self.users), texts()["failures"]
        if not by_key.acts_for_users:
            if named:
                raise NotAllowedError(
                    words["acts_for_nobody"].format(header=self.users.user_header)
                )
            return by_key
        if named is None:
            raise NotAllowedError(words["names_nobody"].format(header=self.users.user_header))
        door = self.doors.users.door(named.user, named.groups, by_key)
        if door is None:
            raise NotAllowedError(words["no_group"])
        return door

    def _of_proxy(self, scope: Scope, headers: Headers) -> Door | None:
        """Return the door of the user whom a proxy names, unless a page of another server asks.

        The browser sends along what the proxy knows it by, as it does with a session. So this holds
        for pages of ``origins`` too: they ask with a key. Raises NotAllowedError where the user may
        not ask.
        """
        if not is_trusted(scope.get("peer", ""), self.users) or of_another_page(scope):
            return None
        named = named_in(headers, self.users)
        if named is None:
            return None
        door = self.doors.users.door(named.user, named.groups)
        if door is None:
            raise NotAllowedError(texts()["failures"]["no_group"])
        return door

    def _is_open(self, path: str) -> bool:
        return any(
            path.startswith(one) if one.endswith("/") else path == one for one in self.open_paths
        )

    def _limited(self, receive: Receive) -> Receive:
        """For a body whose size was not announced, or that does not come."""
        received, whole, deadline = 0, False, asyncio.get_running_loop().time() + self.patience

        async def limited() -> Message:
            nonlocal received, whole
            if whole:  # what comes now is that the client has hung up, whenever that is
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, self._slow, {"Connection": "close"}) from None
            received += len(message.get("body", b""))
            if received > self.max_body:
                raise HTTPException(413, self._limit, {"Connection": "close"})
            whole = not message.get("more_body", False)
            return message

        return limited

    @property
    def _limit(self) -> str:
        return texts()["failures"]["too_large"].format(kb=self.max_body // 1024)

    @property
    def _slow(self) -> str:
        return texts()["failures"]["slow_request"].format(seconds=self.patience)

    def _is_for_us(self, headers: Headers) -> bool:
        host = headers.get("host", "").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        keys_alone = self.doors.open is None and self.doors.here is None
        return keys_alone or self.any_host or name in LOOPBACK_NAMES


def _keys_in(headers: Headers) -> list[bytes]:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    given = [headers.get("x-api-key", ""), token.strip() if scheme.lower() == "bearer" else ""]
    return [one.encode("latin-1") for one in given]


TOLD_BROWSERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
        " 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that a form says it is of nobody's page (Origin: null)
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Nothing is loaded from, sent to or framed by another host, whatever a document or a model has
written."""


@dataclass(frozen=True)
class Told:
    """An ASGI application around another, whose every answer has these headers, unless it has its
    own."""

    app: ASGIApp
    headers: Mapping[str, str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, told)


LOG = logging.getLogger("graphmill.serve")


@dataclass(frozen=True)
class RequestLog:
    """An ASGI application around another. Method, path, status, milliseconds until the answer's
    end; "hung up" where that was not reached."""

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
            LOG.info(
                "%s %s %d %.0f ms%s",
                scope["method"],
                path,
                status,
                milliseconds,
                "" if whole else " hung up",
            )
