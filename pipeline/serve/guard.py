"""Check every request before it is read: its host, its key, its size and how long it takes to
arrive. Also set the security headers of answers, and log requests."""

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.errors import NotAllowedError
from pipeline.pages.environment import texts
from pipeline.serve.access import Access, AccessList
from pipeline.serve.failures import refusal
from pipeline.serve.navigation import login_address, of_another_page, wants_page
from pipeline.serve.tries import Tries, sender_of
from pipeline.serve.user_headers import is_trusted, named_in
from pipeline.settings.schema import UsersSettings

if TYPE_CHECKING:
    # It needs itsdangerous, which the extra for assistants' tools does not install.
    from pipeline.serve.sessions import Sessions

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
DOCUMENTS = "/v1/documents"
"""The address of documents over HTTP; those of single documents are below it."""
LARGEST_OPEN = 16 * 1024
"""The bytes of a body that needs no access, such as a typed key. To read a form of a megabyte takes
the event loop half a second, and anybody may send one."""
_IN_WORKSPACE = re.compile("/w/([a-z0-9_-]{1,63})(/.*)", re.DOTALL)


class _Refusal(Exception):  # noqa: N818 - it is an answer, not a fault of the program
    """The end of a request that is not permitted, with the answer to it."""

    def __init__(self, answer: ASGIApp) -> None:
        super().__init__()
        self.answer = answer


class _BodyLimit(NamedTuple):
    """The most bytes of a body, and the setting that says so; "" stands for `LARGEST_OPEN`."""

    most: int
    setting: str

    @property
    def message(self) -> str:
        """The text for whoever sends a larger body."""
        kb = self.most // 1024
        if not self.setting:
            return texts()["failures"]["too_large_open"].format(kb=kb)
        return texts()["failures"]["too_large"].format(kb=kb, setting=self.setting)


@dataclass(frozen=True)
class Guard:
    """An ASGI application around another that lets only permitted requests through.

    It sets ``scope["access"]`` to the caller's access, or None. Without access only ``open_paths``
    are answered, and everything below those that end with "/". A path below /w/NAME stands for the
    same path in that workspace.

    If callers without a key have access, or the person at this machine, requests must address this
    machine by one of its own names, unless ``any_host``. Otherwise a web page whose host name is
    made to point here could ask (DNS rebinding). Nor may another server's page ask without a key,
    unless its origin is one of ``origins``.

    ``sessions`` are those of people who have signed in on a page; with them, a browser without
    access is led to the login. ``body_seconds`` is the time that a body may take to arrive.
    ``tries`` counts wrong keys; after too many, each is answered with a delay. ``users`` says who
    may name the user of a request, and in which headers. ``max_documents`` is the size of a body
    with documents, which only a writer may send.
    """

    app: ASGIApp
    access_list: AccessList
    max_body: int
    body_seconds: float
    open_paths: Collection[str] = ()
    any_host: bool = False
    sessions: "Sessions | None" = None
    origins: Collection[str] = ()
    tries: Tries = field(default_factory=Tries)
    users: UsersSettings = field(default_factory=UsersSettings)
    max_documents: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            scope, limit = await self._admit(scope)
        except _Refusal as refused:
            return await refused.answer(scope, receive, send)
        await self.app(scope, self._limited(receive, limit), send)

    async def _admit(self, scope: Scope) -> tuple[Scope, _BodyLimit]:
        """Return the scope of a permitted request, with its access, and the limit of its body.

        Raises _Refusal for any other request.
        """
        headers = Headers(scope=scope)
        if not self._is_for_us(headers):
            raise _Refusal(refusal(421, texts()["failures"]["wrong_host"]))
        given = _keys_in(headers)
        access = await self._identify(scope, headers, given)
        scope, access = _enter_workspace(scope, access)
        scope["access"] = access
        if access is None and not self._is_open(scope["path"]):
            raise _Refusal(self._answer_without_access(scope, given))
        limit = self._limit_body(scope["path"], access)
        _check_size(headers, limit)
        return scope, limit

    async def _identify(
        self, scope: Scope, headers: Headers, given: Sequence[bytes]
    ) -> Access | None:
        """Return the access of a request, or None.

        Raises _Refusal for a user who may not ask, and after too many wrong keys.
        """
        try:
            access = self._find_access(scope, headers, given)
        except NotAllowedError as error:
            # A person reads this in a browser, a program as JSON.
            if wants_page(scope):
                raise _Refusal(PlainTextResponse(str(error), 403)) from error
            raise _Refusal(refusal(403, str(error))) from error
        if access is None and any(given):
            seconds = await self.tries.count(sender_of(scope))
            if seconds:
                too_many = texts()["failures"]["too_many_wrong_keys"].format(seconds=seconds)
                raise _Refusal(refusal(429, too_many, {"Retry-After": str(seconds)}))
        return access

    def _limit_body(self, path: str, access: Access | None) -> _BodyLimit:
        """Return how many bytes the body of a request may have, and by which setting."""
        is_of_documents = path == DOCUMENTS or path.startswith(f"{DOCUMENTS}/")
        if is_of_documents and access is not None and access.may_write:
            if self.max_documents > self.max_body:
                return _BodyLimit(self.max_documents, "documents.max_request_mb")
        elif self._is_open(path) and self.max_body > LARGEST_OPEN:
            return _BodyLimit(LARGEST_OPEN, "")
        return _BodyLimit(self.max_body, "max_body_kb")

    def _answer_without_access(self, scope: Scope, given: Sequence[bytes]) -> ASGIApp:
        """Return the answer to a request without access: the login for a browser, else an error."""
        if self.sessions and wants_page(scope):
            return RedirectResponse(login_address(scope), 303)
        if self.access_list.open is not None:
            # Where no key is needed, only another server's page is refused.
            return refusal(403, texts()["failures"]["other_page"])
        message = texts()["failures"]["wrong_key"]
        from_proxy = is_trusted(scope.get("peer", ""), self.users)
        if from_proxy and not any(given) and not of_another_page(scope):
            # Most often the proxy uses another header than the settings name.
            header = self.users.user_header
            message = texts()["failures"]["unnamed"].format(header=header)
        elif self.access_list.person_here is not None:
            message = texts()["failures"]["not_signed_in"]
        return refusal(401, message, {"WWW-Authenticate": "Bearer"})

    def _find_access(self, scope: Scope, headers: Headers, given: Sequence[bytes]) -> Access | None:
        """Return the access of a request: by its key, else by a trusted proxy, else by a session.

        Raises NotAllowedError for a user who may not ask, and for a key that may not name a user.
        """
        access = self.access_list.opened_by(given)
        if access is not None and access.key:
            return self._of_user(access, headers)
        if access is not None:
            # Nobody needs a key here, but another server's page may not ask without one.
            return None if of_another_page(scope, self.origins) else access
        if any(given):
            # With a wrong key neither the proxy nor the session counts.
            return None
        by_proxy = self._of_proxy(scope, headers)
        if by_proxy is not None or self.sessions is None:
            return by_proxy
        return self.sessions.access(scope)

    def _of_user(self, by_key: Access, headers: Headers) -> Access:
        """Return the access of the user for whom a front end asks; with any other key, that of the
        key itself."""
        if not self.access_list.any_for_users:
            return by_key
        named = named_in(headers, self.users)
        header = self.users.user_header
        messages = texts()["failures"]
        if not by_key.acts_for_users:
            if named:
                raise NotAllowedError(messages["acts_for_nobody"].format(header=header))
            return by_key
        if named is None:
            raise NotAllowedError(messages["names_nobody"].format(header=header))
        access = self.access_list.users.access(named.user, named.groups, by_key)
        if access is None:
            raise NotAllowedError(messages["no_group"])
        return access

    def _of_proxy(self, scope: Scope, headers: Headers) -> Access | None:
        """Return the access of the user whom a proxy names, unless another server's page asks.

        A browser sends the proxy's cookie with requests of any page. Therefore pages of ``origins``
        have no access in this way either: they need a key. Raises NotAllowedError if the user may
        not ask.
        """
        if not is_trusted(scope.get("peer", ""), self.users) or of_another_page(scope):
            return None
        named = named_in(headers, self.users)
        if named is None:
            return None
        access = self.access_list.users.access(named.user, named.groups)
        if access is None:
            raise NotAllowedError(texts()["failures"]["no_group"])
        return access

    def _is_open(self, path: str) -> bool:
        folders = tuple(one for one in self.open_paths if one.endswith("/"))
        return path in self.open_paths or path.startswith(folders)

    def _limited(self, receive: Receive, limit: _BodyLimit) -> Receive:
        """Return a function that receives the body, with limits on its size and its time.

        They are checked here for a body whose size was not announced, or that arrives too slowly.
        """
        received, whole = 0, False
        deadline = asyncio.get_running_loop().time() + self.body_seconds

        async def receive_within_limits() -> Message:
            nonlocal received, whole
            if whole:
                # The next message says that the client has disconnected; it may come at any time.
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, self._slow, {"Connection": "close"}) from None
            received += len(message.get("body", b""))
            if received > limit.most:
                raise HTTPException(413, limit.message, {"Connection": "close"})
            whole = not message.get("more_body", False)
            return message

        return receive_within_limits

    @property
    def _slow(self) -> str:
        return texts()["failures"]["slow_request"].format(seconds=self.body_seconds)

    def _is_for_us(self, headers: Headers) -> bool:
        """Return whether the request addresses this server by a name that it accepts."""
        host = headers.get("host", "").lower()
        # An address in brackets is IPv6 without a port.
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        needs_key = self.access_list.open is None and self.access_list.person_here is None
        return needs_key or self.any_host or name in LOOPBACK_NAMES


def _enter_workspace(scope: Scope, access: Access | None) -> tuple[Scope, Access | None]:
    """Return scope and access of a request in the workspace that its path begins with, if any.

    The path is then that behind /w/NAME. Raises _Refusal if the caller may not ask the workspace.
    """
    inside = _IN_WORKSPACE.fullmatch(scope["path"])
    if not inside:
        return scope, access
    workspace, path = inside.groups()
    scope = {**scope, "path": path, "raw_path": quote(path).encode()}
    if access is None:
        return scope, None
    access_there = access.at(workspace)
    if access_there is None:
        raise _Refusal(refusal(404, texts()["failures"]["no_workspace"]))
    return scope, access_there


def _check_size(headers: Headers, limit: _BodyLimit) -> None:
    """Raise _Refusal if the request announces a body over the limit."""
    announced = headers.get("content-length", "")
    # No limit has 20 digits, so those are enough, and Python refuses to read thousands.
    if announced.isdecimal() and int(announced[:20]) > limit.most:
        raise _Refusal(refusal(413, limit.message, {"Connection": "close"}))


def _keys_in(headers: Headers) -> list[bytes]:
    """Return the keys of X-API-Key and of Authorization: Bearer; each may be empty."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return [one.encode("latin-1") for one in (headers.get("x-api-key", ""), bearer)]
