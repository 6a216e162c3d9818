"""Who has signed in on a page: a cookie that names a key and is signed with it, and holds nothing
of it.

Any worker knows a session without a list of them, and a changed or removed key ends those that it
began. Only sessions that a person has ended are remembered, in files that all workers look at.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from itsdangerous import BadSignature, TimestampSigner, URLSafeTimedSerializer
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from pipeline.files import secret_in, write_text
from pipeline.project import Project
from pipeline.serve.doors import Door, Doors
from pipeline.serve.named import Named
from pipeline.serve.navigation import of_our_own_page
from pipeline.text.ids import digest

ENDED_FOLDER = "data/serve/ended-sessions"
SIGNING_FILE = "data/serve/session-signature"
"""Signs the sessions of users, who have no key. Without it they sign in again."""
FLOW_SECONDS = 600
"""That a person may take to sign in at an OpenID Connect provider."""

_ID = re.compile("[0-9a-f]{32}")
"""An id of a session, as ``_new_id`` makes it."""


@dataclass(frozen=True)
class EndedSessions:
    """An empty file for each session that was ended by signing out, for as long as its cookie could
    be used."""

    folder: Path
    seconds: int

    def add(self, session_id: str) -> None:
        """Raises DiskFullError where that cannot be written down."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._forget_old_ones()
        write_text(self.folder / session_id, "")

    def has(self, session_id: str) -> bool:
        return (self.folder / session_id).exists()

    def _forget_old_ones(self) -> None:
        for file in self.folder.iterdir():
            with suppress(FileNotFoundError):  # another worker was faster
                if file.stat().st_mtime < time.time() - self.seconds:
                    file.unlink()


@dataclass
class OneTimeToken:
    """A secret in an address that signs in the person at this machine, once; then another takes its
    place.

    ``renewed`` is called with each new one, to show it where only that person reads it.
    """

    renewed: Callable[[str], None]
    value: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def take(self, given: str) -> bool:
        """Return whether it is this one, which then is so no more."""
        if not secrets.compare_digest(given.encode(errors="replace"), self.value.encode()):
            return False
        self.value = secrets.token_urlsafe(24)
        self.renewed(self.value)
        return True


@dataclass(frozen=True)
class Sessions:
    """``cookie``: its name, another one for each project, since browsers give a machine's cookies
    to all its ports. ``token``: of ``graphmill ui``, which signs in by it. ``secret``: signs
    sessions of users whom an OpenID Connect provider has signed in; empty where there is none."""

    doors: Doors
    cookie: str
    seconds: int
    ended: EndedSessions
    token: OneTimeToken | None = None
    secret: str = field(default="", repr=False)

    def door(self, scope: Scope) -> Door | None:
        """Return that of whoever has signed in; None where another server's page asks."""
        if not of_our_own_page(scope):
            return None
        session = self._session(scope)
        return replace(session[0], signed_in=True) if session else None

    def opened_by(self, typed: str) -> Door | None:
        """Return the door for a key, or a token, that a person has typed or followed; None for a
        wrong one.

        No session may begin with the door of a key that acts for users: its holder asks for nobody
        by themselves.
        """
        if self.token and self.doors.here and self.token.take(typed):
            return self.doors.here
        return self.doors.opened_by([typed.encode(errors="replace")])

    def begin(self, response: Response, door: Door, https: bool) -> None:
        named = f"{door.asker.name}.{_new_id()}"
        self._set(response, _signer(door).sign(named).decode(), https)

    def begin_for_user(self, response: Response, named: Named, https: bool) -> None:
        """The cookie names those groups alone that settings know: there may be hundreds of
        others."""
        groups = self.doors.users.known(named.groups)
        self._set(
            response,
            self.signed({"user": named.user, "groups": groups, "id": _new_id()}, "session"),
            https,
        )

    def signed(self, content: Mapping[str, Any], purpose: str) -> str:
        """Return the content as a text that anybody can read and only this project can make."""
        return self._serializer(purpose).dumps(content)

    def unsigned(self, text: str, purpose: str, seconds: int) -> dict[str, Any]:
        """Return what was ``signed`` for the same purpose within so many seconds; empty for
        anything else."""
        try:
            return self._serializer(purpose).loads(text, max_age=seconds) if self.secret else {}
        except BadSignature:
            return {}

    def _serializer(self, purpose: str) -> URLSafeTimedSerializer:
        strong = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
        return URLSafeTimedSerializer(self.secret, f"graphmill {purpose}", signer_kwargs=strong)

    def _set(self, response: Response, value: str, https: bool) -> None:
        response.set_cookie(
            self.cookie,
            value,
            max_age=self.seconds,
            path="/",
            secure=https,
            httponly=True,
            samesite="strict",
        )

    def end(self, scope: Scope, response: Response, https: bool) -> None:
        """End the session of the request for good, also in a copy of its cookie. Raises
        DiskFullError."""
        if session := self._session(scope):
            self.ended.add(session[1])
        response.delete_cookie(
            self.cookie, path="/", secure=https, httponly=True, samesite="strict"
        )

    def _session(self, scope: Scope) -> tuple[Door, str] | None:
        """The door and the session's id, of a cookie that is signed and neither too old nor
        ended."""
        sent = next((value for name, value in scope["headers"] if name == b"cookie"), b"").decode(
            "latin-1"
        )
        value = cookie_parser(sent).get(self.cookie, "")
        # A key that acts for users asks for none but them, and a session names none.
        own_doors = [door for door in self.doors.keyed if not door.acts_for_users]
        for door in own_doors if value else ():
            session_id = self._id_of(value, door)
            if session_id and not self.ended.has(session_id):
                return door, session_id
        content = self.unsigned(value, "session", self.seconds)
        if content.get("user") and not self.ended.has(content["id"]):
            door = self.doors.users.door(
                content["user"], content["groups"]
            )  # as settings have the groups now
            return (door, content["id"]) if door else None
        return None

    def _id_of(self, value: str, door: Door) -> str:
        """Empty for a cookie that is not this door's."""
        try:
            named = _signer(door).unsign(value, max_age=self.seconds).decode()
        except BadSignature:
            return ""
        name, _, session_id = named.rpartition(".")
        # Whoever has the key can sign any text with it, and the id becomes the name of a file.
        return session_id if name == door.asker.name and _ID.fullmatch(session_id) else ""


def sessions_of(project: Project, doors: Doors, token: OneTimeToken | None = None) -> Sessions:
    seconds = round(3600 * project.settings.serve.session_hours)
    ended = EndedSessions(project.root / ENDED_FOLDER, seconds)
    secret = (
        secret_in(project.root / SIGNING_FILE) if project.settings.serve.users.oidc.issuer else ""
    )
    return Sessions(
        doors, f"graphmill-{digest(str(project.root))[:8]}", seconds, ended, token, secret
    )


def _new_id() -> str:
    return secrets.token_hex(16)


def _signer(door: Door) -> TimestampSigner:
    return TimestampSigner(
        door.key, "graphmill session", key_derivation="hmac", digest_method=hashlib.sha256
    )
