"""Pin an editor's decision about two names for the next run."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, StringConstraints

from pipeline.errors import SettingsError, UsageError
from pipeline.pages.environment import texts
from pipeline.serve.ui.view import CLEANED, Ui, editor, signer_of

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), CLEANED
]


class Pinned(BaseModel):
    """A decision about two names. ``undo`` takes back a pin, or separates names that the last run
    merged."""

    model_config = ConfigDict(extra="forbid")
    decision: Literal["same", "different", "undo"]
    a: Name
    b: Name


def route_pins(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(editor)])

    @routes.post("/ui/pin")
    async def pin(http: Request, body: Pinned) -> Response:
        """Record a decision, and return ``{"done", "unknown", "then"}``.

        ``done`` says what was done, ``unknown`` has names that no entity of the last run has, and
        ``then`` says when the decision takes effect.
        """
        if "edit" in http.scope:
            http.scope["edit"]["text"] = f"{body.decision}: {body.a} | {body.b}"

        def work() -> dict[str, object]:
            access = editor(http)
            project, by = access.project, signer_of(access)
            try:
                if body.decision == "undo":
                    report = project.undo_resolution(body.a, body.b, by=by)
                else:
                    report = project.pin(body.decision, body.a, body.b, by=by)
            except SettingsError as error:
                # The fault is in other pins, which an editor may see and repair.
                raise UsageError(str(error)) from None
            return {
                "done": report.done,
                "unknown": report.unknown,
                "then": texts()["shell"]["pinned"],
            }

        return await ui.data(http, lambda _: work())

    return routes
