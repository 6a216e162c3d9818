"""Who has signed in on a page: a cookie that names a key and is signed with it, and holds nothing of it.

No list of sessions is kept: any worker knows one, and a changed or removed key ends those that it began.
"""

import hashlib
from dataclasses import dataclass

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope

from pipeline.project import Project
from pipeline.serve.doors import Door, Doors
from pipeline.serve.navigation import of_our_own_page
from pipeline.text.ids import digest


@dataclass(frozen=True)
class Sessions:
    """``cookie``: its name, another one for each project, since browsers give a machine's cookies to all its ports."""

    doors: Doors
    cookie: str
    seconds: int

    def door(self, scope: Scope) -> Door | None:
        """Of whoever has signed in; None where another server's page asks."""
        sent = next((value for name, value in scope["headers"] if name == b"cookie"), b"").decode("latin-1")
        value = cookie_parser(sent).get(self.cookie, "")
        if not value or not of_our_own_page(scope):
            return None
        return next((door for door in self.doors.keyed if self._names(value, door)), None)

    def begin(self, response: Response, door: Door, https: bool) -> None:
        value = _signer(door).sign(door.asker.name).decode()
        response.set_cookie(
            self.cookie, value, max_age=self.seconds, path="/", secure=https, httponly=True, samesite="strict"
        )

    def end(self, response: Response, https: bool) -> None:
        response.delete_cookie(self.cookie, path="/", secure=https, httponly=True, samesite="strict")

    def _names(self, value: str, door: Door) -> bool:
        try:
            return _signer(door).unsign(value, max_age=self.seconds).decode() == door.asker.name
        except BadSignature:
            return False


def sessions_of(project: Project, doors: Doors) -> Sessions:
    return Sessions(
        doors, f"graphmill-{digest(str(project.root))[:8]}", round(3600 * project.settings.serve.session_hours)
    )


def _signer(door: Door) -> TimestampSigner:
    return TimestampSigner(door.key, "graphmill session", key_derivation="hmac", digest_method=hashlib.sha256)
