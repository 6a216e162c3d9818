"""Send a browser to the OpenID Connect provider, and begin a session when it comes back."""

import asyncio

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from pipeline.pages.environment import texts
from pipeline.serve.navigation import below_root
from pipeline.serve.oidc import Provider, SignInError
from pipeline.serve.sessions import FLOW_SECONDS, Sessions
from pipeline.serve.tries import sender_of
from pipeline.serve.ui.login import SEE_OTHER, KeyForm
from pipeline.serve.ui.view import Ui

MOST_ASKS = 4
"""Browsers that come back for which the provider is asked at the same time."""


def route_oidc(ui: Ui, sessions: Sessions, form: KeyForm, provider: Provider) -> APIRouter:
    routes, said = APIRouter(include_in_schema=False), texts()["shell"]
    https = provider.settings.public_url.startswith("https:")
    asks = asyncio.Semaphore(MOST_ASKS)
    flow_cookie = f"{sessions.cookie}-oidc"

    @routes.get("/oidc/login")
    async def leave(http: Request, next: str = "") -> Response:
        flow = {"next": below_root(next)}
        try:
            address = await provider.leave(http, flow)
        except SignInError:
            return form.shown(http, next, said["provider_failed"], 502)
        answer = RedirectResponse(address, SEE_OTHER)
        kept = sessions.signed(flow, "flow")
        # Lax: the provider's page leads back here, and a Strict cookie would not be sent.
        answer.set_cookie(
            flow_cookie, kept, FLOW_SECONDS, path="/", secure=https, httponly=True, samesite="lax"
        )
        return answer

    @routes.get("/oidc/callback")
    async def arrive(http: Request) -> Response:
        flow = sessions.unsigned(http.cookies.get(flow_cookie, ""), "flow", FLOW_SECONDS)
        back = flow.get("next", "")
        # Anybody can request this address, and each request asks the provider. After too many
        # failures of an address it is asked later, and the audit log gets no line for them, as with
        # wrong keys.
        sender = sender_of(http.scope)
        await form.tries.wait(sender)
        try:
            async with asks:
                named = await provider.arrive(http, flow)
        except SignInError:
            if not await form.tries.count(sender):
                await form.audit.signed_in("oidc", "refused", sender)
            answer = form.shown(http, back, said["provider_refused"], 401)
        else:
            access = sessions.access_list.users.access(named.user, named.groups)
            await form.audit.signed_in(
                "oidc", "ok" if access else "refused", sender, access, named.user
            )
            if access is None:
                answer = form.shown(http, back, said["no_group"].format(user=named.user), 403)
            else:
                # A page, and no redirection, for the same reason as with a token (login.py).
                answer = HTMLResponse(ui.render(http, "signed_in.html.j2", back=below_root(back)))
                sessions.begin_for_user(answer, named, https)
        answer.delete_cookie(flow_cookie, path="/", secure=https, httponly=True, samesite="lax")
        return answer

    return routes
