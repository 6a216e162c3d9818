"""Add the routes of all views to the application."""

from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request, Response

from pipeline.serve.audit import Audit
from pipeline.serve.queries import Queries
from pipeline.serve.sessions import Sessions
from pipeline.serve.tries import Tries
from pipeline.serve.ui.ask import route_questions
from pipeline.serve.ui.assets import read_assets, route_assets
from pipeline.serve.ui.beginning import route_new_runs
from pipeline.serve.ui.corrections import route_corrections
from pipeline.serve.ui.documents import route_documents
from pipeline.serve.ui.graph import route_graph
from pipeline.serve.ui.login import KeyForm, route_login
from pipeline.serve.ui.pins import route_pins
from pipeline.serve.ui.reference import route_reference
from pipeline.serve.ui.runs import route_runs
from pipeline.serve.ui.shell import state_of
from pipeline.serve.ui.view import Ui

if TYPE_CHECKING:
    from pipeline.serve.oidc import Provider

OPEN_PATHS = ("/login", "/logout", "/session", "/assets/", "/oidc/")
"""Addresses that need no key, because they show nothing of the documents."""


def mount(
    app: FastAPI,
    queries: Queries,
    sessions: Sessions,
    tries: Tries,
    provider: "Provider | None",
    audit: Audit,
) -> Ui:
    """Add the page to the application, and return what makes its views."""
    ui = Ui(queries, read_assets())
    form = KeyForm(ui, sessions, tries, audit, provider is not None)
    app.include_router(route_login(form))
    if provider:
        # It needs Authlib, which only the extra ``oidc`` installs.
        from pipeline.serve.ui.oidc import route_oidc

        app.include_router(route_oidc(ui, sessions, form, provider))
    app.include_router(route_assets(ui.assets))
    app.include_router(_route_state(ui))
    app.include_router(route_reference(ui, app))
    app.include_router(route_questions(ui))
    app.include_router(route_graph(ui))
    app.include_router(route_documents(ui))
    app.include_router(route_runs(ui))
    app.include_router(route_pins(ui))
    app.include_router(route_corrections(ui))
    app.include_router(route_new_runs(ui))
    return ui


def _route_state(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/ui/state")
    async def state(http: Request) -> Response:
        return await ui.data(http, state_of)

    return routes
