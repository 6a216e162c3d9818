"""Sessions of people who have signed in on a page.

A session is a cookie that names a key. It is signed with the key and a secret of this project, and
does not hold the key. Without the secret in the signature, keys could be guessed by cookies, which
nothing slows down. Every worker can check a session without a list of sessions, and a changed or
removed key ends its sessions. Only sessions that a person has ended are remembered, in files that
all workers read.
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

from pipeline.errors import SettingsError, in_words
from pipeline.files import secret_in, write_text
from pipeline.project import Project
from pipeline.serve.access import Access, AccessList
from pipeline.serve.navigation import of_our_own_page
from pipeline.serve.user_headers import Named
from pipeline.text.ids import digest

ENDED_FOLDER = "data/serve/ended-sessions"
SIGNING_FILE = "data/serve/session-signature"
"""The file with the secret that signs sessions. If it is lost, all people sign in again."""
FLOW_SECONDS = 600
"""The seconds that a person may take to sign in at an OpenID Connect provider."""

SWEEP_SECONDS = 600
"""The seconds between two searches for ended sessions that need not be remembered any more."""
MOST_ENDED = 1000
"""The ended sessions of a key or user that are remembered one by one. The holder of a key could
otherwise fill the disk by signing in and out."""
ALL_BEFORE = "all-before"
"""The file whose time ends all sessions that began before."""

_ID = re.compile("[0-9a-f]{32}")
"""An id of a session, as ``_new_id`` makes it."""


@dataclass
class EndedSessions:
    """The sessions that were ended by signing out: an empty file for each, kept for as long as its
    cookie would be valid.

    Each key and each user has a folder. When it has ``MOST_ENDED`` files, they are replaced by one
    that ends all its sessions until then.
    """

    folder: Path
    seconds: int
    sweep_at: float = 0.0

    def add(self, session: "Session") -> None:
        """Remember that a session has ended. Raises DiskFullError if that cannot be written."""
        folder = self._folder_of(session)
        folder.mkdir(parents=True, exist_ok=True)
        if time.monotonic() >= self.sweep_at:
            self.sweep_at = time.monotonic() + SWEEP_SECONDS
            self._forget_old_ones()
        ended = [file for file in folder.iterdir() if file.name != ALL_BEFORE]
        if len(ended) < MOST_ENDED:
            write_text(folder / session.id, "")
            return
        write_text(folder / ALL_BEFORE, "")
        for file in ended:
            file.unlink(missing_ok=True)

    def has(self, session: "Session") -> bool:
        folder = self._folder_of(session)
        if (folder / session.id).exists():
            return True
        with suppress(FileNotFoundError):
            return session.began <= (folder / ALL_BEFORE).stat().st_mtime
        return False

    def _folder_of(self, session: "Session") -> Path:
        return self.folder / digest(session.access.caller.name)

    def _forget_old_ones(self) -> None:
        for file in self.folder.glob("*/*"):
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
class Session:
    """A session of a cookie: the access that it gives, its id, and when it began, as Unix time."""

    access: Access
    id: str
    began: float


@dataclass(frozen=True)
class Sessions:
    """The sessions of a project's page.

    ``cookie`` is the cookie's name. It differs between projects, because a browser sends a
    machine's cookies to all ports. ``secret`` signs them; it is empty where nobody needs to sign
    in. ``token`` is that of ``graphmill ui``.
    """

    access_list: AccessList
    cookie: str
    seconds: int
    ended: EndedSessions
    secret: str = field(repr=False)
    token: OneTimeToken | None = None

    def access(self, scope: Scope) -> Access | None:
        """Return the access of the person who has signed in; None if another server's page asks."""
        if not of_our_own_page(scope):
            return None
        session = self._session(scope)
        return replace(session.access, signed_in=True) if session else None

    def opened_by(self, typed: str) -> Access | None:
        """Return the access of a typed key, or of the token of a followed link; None if it is
        wrong.

        No session may begin with a key that acts for users, because its requests must name a user.
        """
        if self.token and self.access_list.person_here and self.token.take(typed):
            return self.access_list.person_here
        return self.access_list.opened_by([typed.encode(errors="replace")])

    def begin(self, response: Response, access: Access, https: bool) -> None:
        """Set the cookie of a new session that a key has begun."""
        named = f"{access.caller.name}.{_new_id()}"
        self._set(response, self._signer(access).sign(named).decode(), https)

    def begin_for_user(self, response: Response, named: Named, https: bool) -> None:
        """Set the cookie of a new session of a user.

        It names only those of the user's groups that the settings have, as there may be hundreds of
        others.
        """
        groups = self.access_list.users.known(named.groups)
        content = {"user": named.user, "groups": groups, "id": _new_id(), "began": time.time()}
        self._set(response, self.signed(content, "session"), https)

    def signed(self, content: Mapping[str, Any], purpose: str) -> str:
        """Return the content as a text that anybody can read and only this project can make."""
        return self._serializer(purpose).dumps(content)

    def unsigned(self, text: str, purpose: str, seconds: int) -> dict[str, Any]:
        """Return the content of a text that ``signed`` made for the same purpose.

        Return {} for any other text, and for one that is older than so many seconds.
        """
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
            self.ended.add(session)
        response.delete_cookie(
            self.cookie, path="/", secure=https, httponly=True, samesite="strict"
        )

    def _session(self, scope: Scope) -> Session | None:
        """Return the request's session.

        None if it has no cookie that is signed, young enough, and not ended.
        """
        cookies = (value for name, value in scope["headers"] if name == b"cookie")
        sent = next(cookies, b"").decode("latin-1")
        value = cookie_parser(sent).get(self.cookie, "")
        if not value or not self.secret:
            return None
        session = self._session_of_user(value)
        for access in self.access_list.keyed:
            # A key that acts for users must name one, which a session does not.
            if session is None and not access.acts_for_users:
                session = self._session_of_key(value, access)
        return None if session is None or self.ended.has(session) else session

    def _session_of_key(self, value: str, access: Access) -> Session | None:
        """Return the session that a key has begun; None for a cookie of another key."""
        try:
            signed, began = self._signer(access).unsign(value, self.seconds, return_timestamp=True)
        except BadSignature:
            return None
        name, _, session_id = signed.decode().rpartition(".")
        # The id becomes the name of a file.
        if name != access.caller.name or not _ID.fullmatch(session_id):
            return None
        return Session(access, session_id, began.timestamp())

    def _session_of_user(self, value: str) -> Session | None:
        """Return the session of a user, with the rights that settings now give to the groups."""
        content = self.unsigned(value, "session", self.seconds)
        if not content:
            return None
        access = self.access_list.users.access(content["user"], content["groups"])
        # Earlier versions did not write when a session began.
        return Session(access, content["id"], content.get("began", 0.0)) if access else None

    def _signer(self, access: Access) -> TimestampSigner:
        return TimestampSigner(
            f"{self.secret} {access.key}",
            "graphmill session",
            key_derivation="hmac",
            digest_method=hashlib.sha256,
        )


def sessions_of(
    project: Project, access_list: AccessList, token: OneTimeToken | None = None
) -> Sessions:
    """Return the sessions of a project. Raises SettingsError if their secret cannot be read."""
    seconds = round(3600 * project.settings.serve.session_hours)
    ended = EndedSessions(project.root / ENDED_FOLDER, seconds)
    file = project.root / SIGNING_FILE
    try:
        secret = "" if access_list.open else secret_in(file)
    except OSError as error:
        raise SettingsError(
            f"{file}: {in_words(error)}; let this user read and write it, or set serve.page to"
            " false"
        ) from None
    cookie = f"graphmill-{digest(str(project.root))[:8]}"
    return Sessions(access_list, cookie, seconds, ended, secret, token)


def _new_id() -> str:
    return secrets.token_hex(16)
