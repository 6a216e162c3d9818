"""Begin a session of the browser for a key that is typed into the page. The key itself is in no
address, cookie or log."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from pipeline.pages.environment import texts
from pipeline.pages.words import span
from pipeline.serve.audit import Audit
from pipeline.serve.navigation import below_root, of_our_own_page, root_of
from pipeline.serve.sessions import Sessions
from pipeline.serve.tries import Tries, sender_of
from pipeline.serve.ui.view import Ui

SEE_OTHER = 303


@dataclass(frozen=True)
class KeyForm:
    """The page that asks for a key, or for the token of ``graphmill ui``, or leads to an OpenID
    Connect provider."""

    ui: Ui
    sessions: Sessions
    tries: Tries
    audit: Audit
    by_provider: bool = False

    def shown(
        self,
        http: Request,
        back: str,
        refused: str = "",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the page, which leads back to the address ``back``. ``refused`` says why a key was
        refused."""
        about = texts()["shell"]["token_about" if self.sessions.token else "key_about"]
        hours = f"{self.sessions.seconds / 3600:g}"
        page = self.ui.render(
            http,
            "login.html.j2",
            back=below_root(back),
            refused=refused,
            about=about.format(hours=hours),
            by_provider=self.by_provider,
            by_key=bool(self.sessions.access_list.keyed) or not self.by_provider,
        )
        return HTMLResponse(page, status, headers)

    async def refusing(self, http: Request, back: str) -> Response:
        """Count a wrong key or token, and return the page that says so.

        After too many of them no line is written to the audit log. Otherwise any stranger could
        fill the disk with it.
        """
        words = texts()["shell"]
        seconds = await self.tries.count(sender_of(http.scope))
        if seconds:
            too_many = words["too_many_tries"].format(wait=span(seconds))
            return self.shown(http, back, too_many, 429, {"Retry-After": str(seconds)})
        kind = "token" if self.sessions.token else "key"
        await self.audit.signed_in(kind, "refused", sender_of(http.scope))
        return self.shown(http, back, words[f"wrong_{kind}"], 401)


def route_login(form: KeyForm) -> APIRouter:
    routes, ui, sessions = APIRouter(include_in_schema=False), form.ui, form.sessions

    @routes.get("/login")
    async def ask_for_key(http: Request, next: str = "", token: str = "") -> Response:
        if http.scope["access"] is not None:
            return _back(http, next)
        if not token or not sessions.token:
            return form.shown(http, next)
        access = sessions.opened_by(token)
        if access is None:
            return await form.refusing(http, next)
        # A page, and no redirection: a browser takes a redirection as coming from the file or the
        # terminal that led here, and would not send the SameSite=Strict cookie.
        answer = HTMLResponse(ui.render(http, "signed_in.html.j2", back=below_root(next)))
        await form.audit.signed_in("token", "ok", sender_of(http.scope), access)
        sessions.begin(answer, access, https=_is_https(http))
        return answer

    @routes.post("/login")
    async def sign_in(http: Request) -> Response:
        _refuse_others(http)
        typed = parse_qs((await http.body()).decode(errors="replace"))
        key, back = (typed.get(name, [""])[0] for name in ("key", "next"))
        access = sessions.opened_by(key.strip())
        if access is None:
            return await form.refusing(http, back)
        if access.acts_for_users:
            return form.shown(http, back, texts()["shell"]["key_for_users"], 403)
        answer = _back(http, back)
        if access.key:
            await form.audit.signed_in(
                "token" if access.person_here else "key", "ok", sender_of(http.scope), access
            )
            sessions.begin(answer, access, https=_is_https(http))
        return answer

    @routes.get("/session")
    async def session(http: Request) -> dict[str, bool]:
        return {"signed_in": http.scope["access"] is not None}

    @routes.post("/logout")
    async def sign_out(http: Request) -> Response:
        _refuse_others(http)
        answer = RedirectResponse(f"{root_of(http.scope)}login", SEE_OTHER)
        access = http.scope["access"]
        if access is not None:
            await form.audit.signed_in("out", "ok", sender_of(http.scope), access)
        await run_in_threadpool(sessions.end, http.scope, answer, _is_https(http))
        return answer

    return routes


def _back(http: Request, next: str) -> Response:
    return RedirectResponse(root_of(http.scope) + below_root(next), SEE_OTHER)


def _refuse_others(http: Request) -> None:
    if not of_our_own_page(http.scope):
        raise HTTPException(403, texts()["failures"]["other_page"])


def _is_https(http: Request) -> bool:
    """Return whether the browser uses https; a proxy on this machine may say so
    (X-Forwarded-Proto)."""
    return http.url.scheme == "https"
