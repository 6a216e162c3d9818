"""What an editor says of two names: pinned for the next run."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, StringConstraints

from pipeline.errors import SettingsError, UsageError
from pipeline.pages.environment import texts
from pipeline.serve.ui.view import CLEANED, Ui, editor

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), CLEANED
]


class Pinned(BaseModel):
    """``decision``: undo takes back a pin, or parts what the last run merged."""

    model_config = ConfigDict(extra="forbid")
    decision: Literal["same", "different", "undo"]
    a: Name
    b: Name


def router(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(editor)])

    @routes.post("/ui/pin")
    async def pin(http: Request, body: Pinned) -> Response:
        """``{"done", "unknown", "then"}``: what became of it, names that no entity of the last run
        has, and when it holds."""

        if "edit" in http.scope:
            http.scope["edit"]["text"] = f"{body.decision}: {body.a} | {body.b}"

        def work() -> dict[str, object]:
            project = editor(http).project
            try:
                if body.decision == "undo":
                    report = project.undo_resolution(body.a, body.b)
                else:
                    report = project.pin(body.decision, body.a, body.b)
            except SettingsError as error:  # what other pins say: an editor may know and mend it
                raise UsageError(str(error)) from None
            return {
                "done": report.done,
                "unknown": report.unknown,
                "then": texts()["shell"]["pinned"],
            }

        return await ui.data(http, lambda _: work())

    return routes
