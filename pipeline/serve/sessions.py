"""Sessions of people who have signed in on a page.

A session is a cookie that names a key and is signed with it; it does not hold the key. Every worker
can check it without a list of sessions, and a changed or removed key ends its sessions. Only
sessions that a person has ended are remembered, in files that all workers read.
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
from pipeline.serve.access import Access, AccessList
from pipeline.serve.named import Named
from pipeline.serve.navigation import of_our_own_page
from pipeline.text.ids import digest

ENDED_FOLDER = "data/serve/ended-sessions"
SIGNING_FILE = "data/serve/session-signature"
"""The file with the secret that signs sessions of users, who have no key. If it is lost, they sign
in again."""
FLOW_SECONDS = 600
"""The seconds that a person may take to sign in at an OpenID Connect provider."""

SWEEP_SECONDS = 600
"""The seconds between two searches for ended sessions that need not be remembered any more. The
holder of a key can end thousands of sessions, and a search looks at each."""

_ID = re.compile("[0-9a-f]{32}")
"""An id of a session, as ``_new_id`` makes it."""


@dataclass
class EndedSessions:
    """The sessions that were ended by signing out: an empty file for each, kept for as long as its
    cookie would be valid."""

    folder: Path
    seconds: int
    sweep_at: float = 0.0

    def add(self, session_id: str) -> None:
        """Remember that a session has ended. Raises DiskFullError if that cannot be written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if time.monotonic() >= self.sweep_at:
            self.sweep_at = time.monotonic() + SWEEP_SECONDS
            self._forget_old_ones()
        write_text(self.folder / session_id, "")

    def has(self, session_id: str) -> bool:
        return (self.folder / session_id).exists()

    def _forget_old_ones(self) -> None:
        for file in self.folder.iterdir():
            with suppress(FileNotFoundError):  # Another worker has deleted it.
                if file.stat().st_mtime < time.time() - self.seconds:
                    file.unlink()


@dataclass
class OneTimeToken:
    """A secret in an address that signs in the person at this machine once, and is then replaced.

    ``renewed`` is called with each new secret, to show it where only that person can read it.
    """

    renewed: Callable[[str], None]
    value: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def take(self, given: str) -> bool:
        """Return whether the given text is the token. If so, replace the token by a new one."""
        if not secrets.compare_digest(given.encode(errors="replace"), self.value.encode()):
            return False
        self.value = secrets.token_urlsafe(24)
        self.renewed(self.value)
        return True


@dataclass(frozen=True)
class Sessions:
    """The sessions of a project's page.

    ``cookie`` is the cookie's name. It differs between projects, because a browser sends a
    machine's cookies to all ports. ``token`` is that of ``graphmill ui``. ``secret`` signs the
    sessions of users whom an OpenID Connect provider has signed in; it is empty without a provider.
    """

    access_list: AccessList
    cookie: str
    seconds: int
    ended: EndedSessions
    token: OneTimeToken | None = None
    secret: str = field(default="", repr=False)

    def access(self, scope: Scope) -> Access | None:
        """Return the access of the person who has signed in; None if another server's page asks."""
        if not of_our_own_page(scope):
            return None
        session = self._session(scope)
        if session is None:
            return None
        access, _ = session
        return replace(access, signed_in=True)

    def opened_by(self, typed: str) -> Access | None:
        """Return the access of a typed key, or of the token of a followed link; None if it is
        wrong.

        No session may begin with a key that acts for users, because its requests must name a user.
        """
        if self.token and self.access_list.here and self.token.take(typed):
            return self.access_list.here
        return self.access_list.opened_by([typed.encode(errors="replace")])

    def begin(self, response: Response, access: Access, https: bool) -> None:
        """Set the cookie of a new session that a key has begun."""
        named = f"{access.asker.name}.{_new_id()}"
        self._set(response, _signer(access).sign(named).decode(), https)

    def begin_for_user(self, response: Response, named: Named, https: bool) -> None:
        """Set the cookie of a new session of a user.

        It names only those of the user's groups that the settings have, as there may be hundreds of
        others.
        """
        groups = self.access_list.users.known(named.groups)
        content = {"user": named.user, "groups": groups, "id": _new_id()}
        self._set(response, self.signed(content, "session"), https)

    def signed(self, content: Mapping[str, Any], purpose: str) -> str:
        """Return the content as a text that anybody can read and only this project can make."""
        return self._serializer(purpose).dumps(content)

    def unsigned(self, text: str, purpose: str, seconds: int) -> dict[str, Any]:
        """Return the content of a text that ``signed`` made for the same purpose.

        Return {} for any other text, and for one that is older than so many seconds.
        """
        if not self.secret:
            return {}
        try:
            return self._serializer(purpose).loads(text, max_age=seconds)
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
        """End the session of a request, so that no copy of its cookie is valid any more.

        It waits for the disk, so call it in a thread. Raises DiskFullError.
        """
        session = self._session(scope)
        if session is not None:
            _, session_id = session
            self.ended.add(session_id)
        response.delete_cookie(
            self.cookie, path="/", secure=https, httponly=True, samesite="strict"
        )

    def _session(self, scope: Scope) -> tuple[Access, str] | None:
        """Return the access and the id of the request's session.

        None if it has no cookie that is signed, young enough, and not ended.
        """
        cookies = (value for name, value in scope["headers"] if name == b"cookie")
        sent = next(cookies, b"").decode("latin-1")
        value = cookie_parser(sent).get(self.cookie, "")
        if value:
            for access in self.access_list.keyed:
                # A key that acts for users must name one, which a session does not.
                session_id = "" if access.acts_for_users else self._id_of(value, access)
                if session_id and not self.ended.has(session_id):
                    return access, session_id
        content = self.unsigned(value, "session", self.seconds)
        if content.get("user") and not self.ended.has(content["id"]):
            # The rights of the groups are those of the present settings.
            access = self.access_list.users.access(content["user"], content["groups"])
            return (access, content["id"]) if access else None
        return None

    def _id_of(self, value: str, access: Access) -> str:
        """Return the id of the session that a key has begun; "" for a cookie of another key."""
        try:
            named = _signer(access).unsign(value, max_age=self.seconds).decode()
        except BadSignature:
            return ""
        name, _, session_id = named.rpartition(".")
        # The holder of a key can sign any text with it, and the id becomes the name of a file.
        is_valid = name == access.asker.name and _ID.fullmatch(session_id)
        return session_id if is_valid else ""


def sessions_of(
    project: Project, access_list: AccessList, token: OneTimeToken | None = None
) -> Sessions:
    seconds = round(3600 * project.settings.serve.session_hours)
    ended = EndedSessions(project.root / ENDED_FOLDER, seconds)
    signs_users_in = bool(project.settings.serve.users.oidc.issuer)
    secret = secret_in(project.root / SIGNING_FILE) if signs_users_in else ""
    cookie = f"graphmill-{digest(str(project.root))[:8]}"
    return Sessions(access_list, cookie, seconds, ended, token, secret)


def _new_id() -> str:
    return secrets.token_hex(16)


def _signer(access: Access) -> TimestampSigner:
    return TimestampSigner(
        access.key, "graphmill session", key_derivation="hmac", digest_method=hashlib.sha256
    )
