"""The view Nights."""

from fastapi import APIRouter, Depends, Request, Response

from pipeline.serve.ui.view import Ui, wide_door


def router(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(wide_door)])

    @routes.get("/nights")
    async def nights(http: Request) -> Response:
        return await ui.page(http, "nights.html.j2")

    return routes
