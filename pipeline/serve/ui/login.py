"""A key typed into a page becomes a session of this browser: the key itself is in no address, cookie or log."""

from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from pipeline.serve.navigation import below_root, of_our_own_page, root_of
from pipeline.serve.sessions import Sessions
from pipeline.serve.ui.view import Ui

SEE_OTHER = 303


def router(ui: Ui, sessions: Sessions) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    def form(http: Request, back: str, wrong: bool = False) -> Response:
        page = ui.render(http, "login.html.j2", back=back, wrong=wrong, hours=f"{sessions.seconds / 3600:g}")
        return HTMLResponse(page, 401 if wrong else 200)

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
        door = sessions.doors.opened_by([key.strip().encode()])
        if door is None:
            return form(http, below_root(back), wrong=True)
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
        raise HTTPException(403, "this comes from another server's page; sign in on this one's")


def _is_https(http: Request) -> bool:
    """As a proxy on this machine has it, too (X-Forwarded-Proto)."""
    return http.url.scheme == "https"
