"""The view Documents."""

from fastapi import APIRouter, Request, Response

from pipeline.serve.ui.view import Ui


def router(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/documents")
    async def documents(http: Request) -> Response:
        return await ui.page(http, "documents.html.j2")

    return routes
