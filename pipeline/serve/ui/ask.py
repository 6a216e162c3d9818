"""The view Ask."""

from dataclasses import asdict
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

from pipeline.pages.environment import texts
from pipeline.serve.access import Access
from pipeline.serve.ui.view import CLEANED, Ui
from pipeline.settings.query_fields import Mode
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import TextUnit

Id = Annotated[str, Query(min_length=1, max_length=300), CLEANED]
AROUND = 1
"""Text units before and after a passage that are shown with it."""


def route_questions(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def ask(http: Request) -> Response:
        return await ui.page(http, "ask.html.j2", _options)

    @routes.get("/ui/passage")
    async def passage(http: Request, unit: Id) -> Response:
        """Return a text unit, with the units before and after it, as ``units``."""

        def look(access: Access) -> dict[str, Any]:
            def read_units(vectors: VectorReads, graph: GraphReads) -> list[TextUnit]:
                place = vectors.places([unit]).get(unit)
                if place is None:
                    return []
                document, order = place
                first = max(0, order - AROUND)
                return vectors.units_of(document, first, order + AROUND + 1 - first)

            units = access.project.read(read_units, access.caller)
            if not units:
                raise HTTPException(404, texts()["ask"]["gone"])
            return {"units": [asdict(found) for found in units]}

        return await ui.data(http, look)

    return routes


def _options(access: Access) -> dict[str, Any]:
    """Return the modes and models that the caller may choose, and the defaults of all options."""
    settings, caller = access.project.settings, access.caller
    models = [name for name, model in settings.models.chat.items() if model.configured]
    modes = [mode for mode in get_args(Mode) if caller.may_ask(mode)]
    return {
        "modes": [mode for mode in modes if models or mode != "bypass"],
        "models": [name for name in models if caller.models is None or name in caller.models],
        "defaults": {**settings.query.options, "mode": caller.usual_mode(settings.query.mode)},
    }
