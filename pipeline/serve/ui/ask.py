"""The view Ask."""

from fastapi import APIRouter, Request, Response

from pipeline.serve.ui.view import Ui


def router(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def ask(http: Request) -> Response:
        return await ui.page(http, "ask.html.j2")

    return routes
