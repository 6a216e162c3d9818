"""The view Graph."""

from fastapi import APIRouter, Depends, Request, Response

from pipeline.serve.ui.view import Ui, wide_door


def router(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(wide_door)])

    @routes.get("/graph")
    async def graph(http: Request) -> Response:
        return await ui.page(http, "graph.html.j2")

    return routes
