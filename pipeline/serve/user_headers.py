"""Read the user of a request from two headers, and decide from which addresses they are trusted."""

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
"""Addresses whose X-Forwarded-For and X-Forwarded-Proto are trusted without a setting."""
LONGEST_NAME = 200


@dataclass(frozen=True)
class Named:
    """The user that a request names, and the user's groups."""

    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class WithPeer:
    """An ASGI application around another that puts the sender's own address in ``scope["peer"]``.

    The application inside replaces ``scope["client"]`` by the address that a proxy names.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            client = scope.get("client")
            scope = {**scope, "peer": client[0] if client else ""}
        await self.app(scope, receive, send)


def with_peer(app: ASGIApp, settings: ServeSettings) -> WithPeer:
    """Return the application with X-Forwarded-For and X-Forwarded-Proto applied.

    They are trusted from this machine, from the proxies of the settings, and from the addresses in
    FORWARDED_ALLOW_IPS, the environment variable that uvicorn reads.
    """
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
    """Return the user that the headers name; None if they name nobody.

    Raises NotAllowedError for two names: a proxy may have added one to a name that the client sent
    itself.
    """
    users = headers.getlist(settings.user_header)
    groups = headers.getlist(settings.groups_header)
    if len(users) > 1 or len(groups) > 1:
        raise NotAllowedError(texts()["failures"]["named_twice"])
    user = _decoded(users[0]).strip() if users else ""
    if not user:
        return None
    if len(user) > LONGEST_NAME or not user.isprintable():
        raise NotAllowedError(texts()["failures"]["no_name"].format(most=LONGEST_NAME))
    parts = [part.strip() for part in _decoded(groups[0]).split(",")] if groups else []
    return Named(user, tuple(filter(None, parts)))


def _decoded(value: str) -> str:
    """Return a header's value decoded as UTF-8, or as Latin-1 if it is no UTF-8.

    The library has decoded it as Latin-1. With a sign for what cannot be decoded, two users could
    have one name.
    """
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value
