"""Make the pages and the data of the views, in a thread and within the limits of a query."""

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
from pipeline.serve.access import Access
from pipeline.serve.failures import Failure, respond
from pipeline.serve.navigation import root_of, wants_page
from pipeline.serve.queries import Queries
from pipeline.serve.responses import answered, json_bytes
from pipeline.serve.ui.assets import Assets
from pipeline.serve.ui.shell import locked, shell_of
from pipeline.text.ids import clean

Look = Callable[[Access], Mapping[str, Any]]
"""A function that returns the values of a page's template, or the data of an answer, for a caller's
access. It may block, and may raise errors of graphmill, which become an answer."""


def _cleaned(given: Any) -> Any:
    return clean(given) if isinstance(given, str) else given


CLEANED = BeforeValidator(_cleaned)
"""The validator of a text in a request, which removes characters that no store takes."""


def nothing(access: Access) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Ui:
    queries: Queries
    assets: Assets
    templates: Environment = field(
        default_factory=lambda: environment(Path(__file__).parent / "templates")
    )

    async def page(self, http: Request, template: str, look: Look = nothing) -> Response:
        """Return an HTML page: the template with the values that ``look`` returns."""
        access = access_of(http)

        def work() -> Response:
            return HTMLResponse(self.render(http, template, **look(access)))

        made = self.queries.run(work, access.claim(chat=False))
        return await answered(http, made, partial(self.failed, http))

    async def data(self, http: Request, look: Callable[[Access], Any]) -> Response:
        """Return what ``look`` returns, as JSON."""
        access = access_of(http)

        def work() -> Response:
            return Response(json_bytes(look(access)), media_type="application/json")

        return await answered(http, self.queries.run(work, access.claim(chat=False)))

    def render(self, http: Request, template: str, **values: Any) -> str:
        """Return the template with these values.

        Every template also knows ``root`` (the relative address of the server's root), ``assets``
        (the folder of style and scripts), ``shell`` (the caller and the workspace) and ``texts``.
        """
        root = root_of(http.scope)
        shell = shell_of(http.scope["access"])
        return self.templates.get_template(template).render(
            root=root, assets=root + self.assets.folder, shell=shell, **values
        )

    def failed(
        self, http: Request, failure: Failure, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the answer to a failure: a page if a browser asks for one, else JSON."""
        if not wants_page(http.scope):
            return respond(failure, headers)
        page = self.render(http, "failed.html.j2", failure=failure)
        return HTMLResponse(page, failure.status, {**failure.headers, **(headers or {})})


def access_of(http: Request) -> Access:
    return http.scope["access"]


def signer_of(access: Access) -> str:
    """Return the name with which the caller signs a decision.

    It is "" for the person at this machine, whose account signs.
    """
    return "" if access.person_here else access.user or access.caller.name


def wide_access(http: Request) -> Access:
    """Return the access of a caller who sees all documents; a dependency of routes.

    Raises NotAllowedError for other callers.
    """
    access = access_of(http)
    if access.caller.where:
        raise NotAllowedError(texts()["shell"]["whole_graph_only"])
    return access


def home_access(http: Request) -> Access:
    """Return the access of a caller who sees all documents of the project's own workspace; a
    dependency of routes.

    Raises NotAllowedError for other callers and workspaces.
    """
    access = wide_access(http)
    if not access.at_home:
        raise NotAllowedError(texts()["shell"]["own_runs_only"])
    return access


def editor(http: Request) -> Access:
    """Return the access of a caller who may make changes; a dependency of routes that make some.

    Raises NotAllowedError for other callers, with the reason.
    """
    access = access_of(http)
    # The audit log gets a line about the request, whether it is refused or not.
    if "edit" in http.scope:
        http.scope["edit"]["path"] = http.scope["path"]
    if not access.may_change:
        raise NotAllowedError(locked(access))
    return access


def writer(http: Request) -> Access:
    """Return the access of a caller who may send documents and request runs; a dependency of their
    routes.

    Raises NotAllowedError for other callers, with the reason.
    """
    access = access_of(http)
    # The audit log gets a line about the request, whether it is refused or not. A look is no edit.
    if "edit" in http.scope and http.method != "GET":
        http.scope["edit"]["path"] = http.scope["path"]
    if access.may_write:
        return access
    words = texts()["shell"]["no_writer"]
    if not access.writer:
        raise NotAllowedError(words["key"])
    raise NotAllowedError(words["settings" if access.at_home else "elsewhere"])


def note_edit(http: Request, text: str) -> None:
    """Leave a text for the audit log's line about the request."""
    if "edit" in http.scope:
        http.scope["edit"]["text"] = text
