"""Whom a request names as its user, in two headers, and from where that is believed."""

import os
from dataclasses import dataclass
from ipaddress import ip_network

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from pipeline.errors import NotAllowedError
from pipeline.pages.environment import texts
from pipeline.serve.tries import address_of
from pipeline.settings.schema import ServeSettings, UsersSettings

THIS_MACHINE = ("127.0.0.1", "::1")
"""From here X-Forwarded-For and X-Forwarded-Proto are believed without a setting."""
LONGEST_NAME = 200


@dataclass(frozen=True)
class Named:
    """Hold the user that a request names, and their groups."""

    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class WithPeer:
    """An ASGI application around another, which learns by ``scope["peer"]`` who has really sent a
    request: from then on ``scope["client"]`` is what a proxy says."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            client = scope.get("client")
            scope = {**scope, "peer": client[0] if client else ""}
        await self.app(scope, receive, send)


def with_peer(app: ASGIApp, settings: ServeSettings) -> WithPeer:
    """Return the application, which believes X-Forwarded-For and X-Forwarded-Proto of this machine,
    of the proxies of the settings, and of the addresses in the environment variable that uvicorn
    reads."""
    more = [part.strip() for part in os.environ.get("FORWARDED_ALLOW_IPS", "").split(",")]
    trusted = [*THIS_MACHINE, *settings.users.proxies, *filter(None, more)]
    return WithPeer(ProxyHeadersMiddleware(app, trusted))  # pyright: ignore[reportArgumentType]


def is_trusted(peer: str, settings: UsersSettings) -> bool:
    """Return whether a request from this address may name its user without a key."""
    address = address_of(peer)
    if address is None:
        return False
    return any(address in ip_network(proxy) for proxy in settings.proxies)


def named_in(headers: Headers, settings: UsersSettings) -> Named | None:
    """Return the user whom the headers name; None where they name nobody.

    Raises NotAllowedError for two names: one of them would be the client's own, which a proxy has
    passed on.
    """
    users = headers.getlist(settings.user_header)
    groups = headers.getlist(settings.groups_header)
    if len(users) > 1 or len(groups) > 1:
        raise NotAllowedError(texts()["failures"]["named_twice"])
    user = _decoded(users[0]).strip() if users else ""
    if not user:
        return None
    if len(user) > LONGEST_NAME or not user.isprintable():
        raise NotAllowedError(texts()["failures"]["no_name"])
    parts = [part.strip() for part in _decoded(groups[0]).split(",")] if groups else []
    return Named(user, tuple(filter(None, parts)))


def _decoded(value: str) -> str:
    """A header is Latin-1 for the library, and UTF-8 for whoever sends names."""
    return value.encode("latin-1").decode(errors="replace")
