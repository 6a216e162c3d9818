"""The page's routes, of every view."""

from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request, Response

from pipeline.serve.audit import Audit
from pipeline.serve.queries import Queries
from pipeline.serve.sessions import Sessions
from pipeline.serve.tries import Tries
from pipeline.serve.ui import ask, beginning, documents, graph, login, nights, pins, reference
from pipeline.serve.ui.assets import read_assets
from pipeline.serve.ui.assets import router as assets_router
from pipeline.serve.ui.shell import state_of
from pipeline.serve.ui.view import Ui

if TYPE_CHECKING:
    from pipeline.serve.oidc import Provider

OPEN_PATHS = ("/login", "/logout", "/session", "/assets/", "/oidc/")
"""That want no key: they show nothing of the documents."""


def mount(
    app: FastAPI,
    queries: Queries,
    sessions: Sessions,
    tries: Tries,
    provider: "Provider | None",
    audit: Audit,
) -> Ui:
    ui = Ui(queries, read_assets())
    form = login.KeyForm(ui, sessions, tries, audit, provider is not None)
    app.include_router(login.router(form))
    if provider:
        from pipeline.serve.ui import oidc  # by Authlib, which is an extra's

        app.include_router(oidc.router(ui, sessions, form, provider))
    app.include_router(assets_router(ui.assets))
    app.include_router(_state(ui))
    app.include_router(reference.router(ui, app))
    for view in (ask, graph, documents, nights, pins, beginning):
        app.include_router(view.router(ui))
    return ui


def _state(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/ui/state")
    async def state(http: Request) -> Response:
        return await ui.data(http, state_of)

    return routes
