"""What each view is made with: its page, rendered, and its data, both in a query's thread and with
its limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from jinja2 import Environment
from pydantic import BeforeValidator
from starlette.responses import HTMLResponse

from pipeline.errors import NotAllowedError
from pipeline.pages.environment import environment, texts
from pipeline.serve.doors import Door
from pipeline.serve.failures import Failure, respond
from pipeline.serve.navigation import root_of, wants_page
from pipeline.serve.queries import Queries
from pipeline.serve.responses import answered, json_bytes
from pipeline.serve.ui.assets import Assets
from pipeline.serve.ui.shell import locked, shell_of
from pipeline.text.ids import clean

Look = Callable[[Door], Mapping[str, Any]]
"""What a page shows, or the data of an answer, for whom the door has let in. It may block, and may
raise errors of graphmill: they become an answer that says so."""


def _cleaned(given: Any) -> Any:
    return clean(given) if isinstance(given, str) else given


CLEANED = BeforeValidator(_cleaned)
"""Of a text in a request: without what no store takes."""


def nothing(door: Door) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Ui:
    queries: Queries
    assets: Assets
    templates: Environment = field(
        default_factory=lambda: environment(Path(__file__).parent / "templates")
    )

    async def page(self, http: Request, template: str, look: Look = nothing) -> Response:
        """An HTML page: the template, with what ``look`` finds."""

        def work() -> Response:
            door = door_of(http)
            return HTMLResponse(self.render(http, template, **look(door)))

        return await answered(
            http,
            self.queries.run(work, door_of(http).claim(chat=False)),
            partial(self.failed, http),
        )

    async def data(self, http: Request, look: Callable[[Door], Any]) -> Response:
        """JSON: what ``look`` finds."""

        def work() -> Response:
            return Response(json_bytes(look(door_of(http))), media_type="application/json")

        return await answered(http, self.queries.run(work, door_of(http).claim(chat=False)))

    def render(self, http: Request, template: str, **values: Any) -> str:
        """The template by itself. It knows ``root`` (to this server's own root, from this address),
        ``assets`` (the folder of style and scripts), ``shell`` (who asks, of what) and
        ``texts``."""
        root = root_of(http.scope)
        shell = shell_of(http.scope["door"])
        return self.templates.get_template(template).render(
            root=root, assets=root + self.assets.folder, shell=shell, **values
        )

    def failed(
        self, http: Request, failure: Failure, headers: Mapping[str, str] | None = None
    ) -> Response:
        """As a page where one was asked for, else as JSON."""
        if not wants_page(http.scope):
            return respond(failure, headers)
        page = self.render(http, "failed.html.j2", failure=failure)
        return HTMLResponse(page, failure.status, {**failure.headers, **(headers or {})})


def door_of(http: Request) -> Door:
    return http.scope["door"]


def wide_door(http: Request) -> Door:
    """A dependency: who sees all documents. Raises NotAllowedError for others."""
    door = door_of(http)
    if door.asker.where:
        raise NotAllowedError(texts()["shell"]["whole_graph_only"])
    return door


def home_door(http: Request) -> Door:
    """A dependency: who sees all documents, and asks the workspace that the project's runs fill.
    Raises NotAllowedError for others."""
    door = wide_door(http)
    if not door.at_home:
        raise NotAllowedError(texts()["shell"]["own_runs_only"])
    return door


def editor(http: Request) -> Door:
    """A dependency of whatever changes something: who may. Raises NotAllowedError for others,
    saying why."""
    door = door_of(http)
    if "edit" in http.scope:  # for the audit log, refused or not
        http.scope["edit"]["path"] = http.scope["path"]
    if not door.may_change:
        raise NotAllowedError(locked(door))
    return door
