"""A key typed into a page becomes a session of this browser: the key itself is in no address, cookie or log."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from pipeline.pages.environment import texts
from pipeline.pages.words import span
from pipeline.serve.navigation import below_root, of_our_own_page, root_of
from pipeline.serve.sessions import Sessions
from pipeline.serve.ui.view import Ui

SEE_OTHER = 303
TRIES, TRIES_OF_ALL, TRY_SECONDS = 10, 200, 300
"""Wrong keys that may be typed in so many seconds, from one address and from all of them."""
ADDRESSES = 1000
"""That are remembered; the one whose wrong keys will be forgiven first is forgotten for another."""
EVERYBODY = ""


@dataclass
class Tries:
    """Wrong keys that were typed of late, as the moment at which none will count any more; of one process."""

    clock: Callable[[], float] = time.monotonic
    clear_at: dict[str, float] = field(default_factory=dict)

    def seconds_to_wait(self, address: str) -> int:
        """Until another key may be typed there; 0 for now."""
        too_many = (self._clear_at(who) + TRY_SECONDS / most - TRY_SECONDS for who, most in _limits(address))
        return max(0, math.ceil(max(too_many) - self.clock()))

    def add(self, address: str) -> None:
        if address not in self.clear_at and len(self.clear_at) > ADDRESSES:
            del self.clear_at[min(self.clear_at.keys() - {EVERYBODY}, key=self.clear_at.__getitem__)]
        for who, most in _limits(address):
            self.clear_at[who] = self._clear_at(who) + TRY_SECONDS / most

    def _clear_at(self, who: str) -> float:
        return max(self.clear_at.get(who, 0), self.clock())


def _limits(address: str) -> list[tuple[str, int]]:
    return [(address, TRIES), (EVERYBODY, TRIES_OF_ALL)]


def whose(host: str) -> str:
    """Whose tries they are: of IPv6 the network, all of whose addresses one machine may have."""
    try:
        address = ip_address(host)
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(ip_network((address, 64), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)


def router(ui: Ui, sessions: Sessions) -> APIRouter:
    routes, tries, said = APIRouter(include_in_schema=False), Tries(), texts()["shell"]

    def form(
        http: Request, back: str, refused: str = "", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        page = ui.render(http, "login.html.j2", back=back, refused=refused, hours=f"{sessions.seconds / 3600:g}")
        return HTMLResponse(page, status, headers)

    @routes.get("/login")
    async def ask_for_key(http: Request, next: str = "") -> Response:
        if http.scope["door"] is not None:
            return _back(http, next)
        return form(http, below_root(next))

    @routes.post("/login")
    async def sign_in(http: Request) -> Response:
        _refuse_others(http)
        typed = parse_qs((await http.body()).decode(errors="replace"))
        key, back = (typed.get(name, [""])[0] for name in ("key", "next"))
        address = whose(http.client.host if http.client else "")
        if seconds := tries.seconds_to_wait(address):
            refused = said["too_many_tries"].format(wait=span(seconds))
            return form(http, below_root(back), refused, 429, {"Retry-After": str(seconds)})
        door = sessions.doors.opened_by([key.strip().encode()])
        if door is None:
            tries.add(address)
            return form(http, below_root(back), said["wrong_key"], 401)
        answer = _back(http, back)
        if door.key:
            sessions.begin(answer, door, https=_is_https(http))
        return answer

    @routes.get("/session")
    async def session(http: Request) -> dict[str, bool]:
        return {"signed_in": http.scope["door"] is not None}

    @routes.post("/logout")
    async def sign_out(http: Request) -> Response:
        _refuse_others(http)
        answer = RedirectResponse(f"{root_of(http.scope)}login", SEE_OTHER)
        sessions.end(answer, https=_is_https(http))
        return answer

    return routes


def _back(http: Request, next: str) -> Response:
    return RedirectResponse(root_of(http.scope) + below_root(next), SEE_OTHER)


def _refuse_others(http: Request) -> None:
    if not of_our_own_page(http.scope):
        raise HTTPException(403, texts()["failures"]["other_page"])


def _is_https(http: Request) -> bool:
    """As a proxy on this machine has it, too (X-Forwarded-Proto)."""
    return http.url.scheme == "https"
