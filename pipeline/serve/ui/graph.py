"""The view Graph."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException

from pipeline.errors import GraphmillError
from pipeline.pages.environment import texts
from pipeline.query import drawing
from pipeline.serve.access import Access
from pipeline.serve.ui.view import CLEANED, Ui, wide_access
from pipeline.stores.reads import Listing

Id = Annotated[str, StringConstraints(min_length=1, max_length=300), CLEANED]
Name = Annotated[str, StringConstraints(max_length=300), CLEANED]
Limit = Annotated[int, Query(ge=1, le=2000)]
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500), CLEANED
]
MOST_ENTITIES = 20
"""The most entities around which a neighbourhood is drawn."""


class Wanted(BaseModel):
    """A search for entities, by name or by meaning."""

    model_config = ConfigDict(extra="forbid")
    text: Text
    by: Literal["name", "meaning"] = "name"
    limit: int = Field(default=20, ge=1, le=100)


class WantedDocuments(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: Text
    limit: int = Field(default=10, ge=1, le=100)


def route_graph(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(wide_access)])
    _add_drawing(routes, ui)
    _add_details(routes, ui)
    return routes


def _add_drawing(routes: APIRouter, ui: Ui) -> None:
    @routes.get("/graph")
    async def graph(http: Request) -> Response:
        return await ui.page(http, "graph.html.j2")

    @routes.get("/ui/graph")
    async def drawn(
        http: Request,
        entity: Annotated[list[Id] | None, Query(max_length=MOST_ENTITIES)] = None,
        community: Name = "",
        document: Name = "",
        entities: bool = False,
        limit: Limit = 200,
    ) -> Response:
        """Return the part of the graph that the parameters name. The page's own address has the
        same parameters."""
        named = drawing.Named(entity or (), community, document, entities, limit)
        return await ui.data(
            http, lambda access: access.project.draw(named, access.caller).to_json()
        )

    @routes.post("/ui/graph/find")
    async def find(http: Request, wanted: Wanted) -> Response:
        def look(access: Access) -> dict[str, Any]:
            found = access.project.find_entities(
                wanted.text, wanted.by == "meaning", wanted.limit, access.caller
            )
            return {"entities": [asdict(dot) for dot in found]}

        return await ui.data(http, look)

    @routes.post("/ui/graph/documents")
    async def documents(http: Request, wanted: WantedDocuments) -> Response:
        """Return the documents that have the text in their title, source or id."""

        def look(access: Access) -> dict[str, Any]:
            listing = Listing(wanted.text, limit=wanted.limit)
            found, _ = access.project.read(
                lambda vectors, graph: vectors.listed(listing), access.caller
            )
            documents = [{"id": one.id, "title": one.title or one.source} for one in found]
            return {"documents": documents}

        return await ui.data(http, look)


def _add_details(routes: APIRouter, ui: Ui) -> None:
    @routes.get("/ui/graph/entity")
    async def entity(http: Request, id: Id) -> Response:
        """Return the details of an entity, and as ``names`` its other names and the names kept
        apart from it; null if no step decides about names."""

        def look(access: Access) -> dict[str, Any]:
            details = access.project.read(partial(drawing.entity_details, id), access.caller)
            return {**_json_of(details), "names": _find_names(access, id)}

        return await ui.data(http, look)

    @routes.get("/ui/graph/relationship")
    async def relationship(http: Request, id: Id) -> Response:
        def look(access: Access) -> dict[str, Any]:
            details = access.project.read(partial(drawing.relationship_details, id), access.caller)
            return _json_of(details)

        return await ui.data(http, look)


def _json_of(details: drawing.Details | None) -> dict[str, Any]:
    """Return the details as JSON. Raises HTTPException if there are none."""
    if details is None:
        raise HTTPException(404, texts()["graph"]["gone"])
    return details.to_json()


def _find_names(access: Access, id: str) -> dict[str, Any] | None:
    """Return the other names of an entity. None for another workspace than the project's own, about
    whose names nothing is known."""
    if not access.at_home or access.served.names_workspace:
        return None
    try:
        return asdict(access.project.names_of(id))
    except GraphmillError:
        return None
