"""Editors' corrections of the graph: list them, add one, take one back."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, StringConstraints

from pipeline.corrections.decisions import LONGEST_DESCRIPTION, LONGEST_NAME
from pipeline.errors import SettingsError, UsageError
from pipeline.pages.environment import texts
from pipeline.serve.ui.view import CLEANED, Ui, editor

Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_NAME),
    CLEANED,
]
Text = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_DESCRIPTION),
    CLEANED,
]


class Corrected(BaseModel):
    """A correction as the page sends it; the fields of its kind are those of corrections.jsonl."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal[
        "rename", "delete_entity", "set_type", "describe_entity", "delete_statement",
        "turn_statement", "retype_statement", "describe_statement",
    ]  # fmt: skip
    entity: Name | None = None
    to: Name | None = None
    source: Name | None = None
    target: Name | None = None
    type: Name | None = None
    description: Text | None = None
    why: Text | None = None


class Undone(BaseModel):
    """The correction to take back, by its id."""

    model_config = ConfigDict(extra="forbid")
    id: Name


def route_corrections(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(editor)])

    @routes.get("/ui/corrections")
    async def listed(http: Request) -> Response:
        """Return all corrections, each with what it changed in the last run."""
        return await ui.data(http, lambda _: _list_corrections(http))

    @routes.post("/ui/correct")
    async def correct(http: Request, body: Corrected) -> Response:
        """Add a correction, and return what it changes in the last run's extractions."""
        fields = body.model_dump(exclude_none=True)
        _note_edit(http, ", ".join(f"{key}: {value}" for key, value in fields.items()))
        return await ui.data(http, lambda _: _add_correction(http, fields))

    @routes.post("/ui/correct/undo")
    async def undo(http: Request, body: Undone) -> Response:
        """Take a correction back."""
        _note_edit(http, f"undo correction {body.id}")
        return await ui.data(http, lambda _: _undo_correction(http, body.id))

    return routes


def _note_edit(http: Request, text: str) -> None:
    """Leave a text for the audit log's line about the request."""
    if "edit" in http.scope:
        http.scope["edit"]["text"] = text


def _list_corrections(http: Request) -> dict[str, Any]:
    project = editor(http).project
    return {"corrections": [effect.to_json() for effect in project.corrections()]}


def _add_correction(http: Request, fields: dict[str, Any]) -> dict[str, Any]:
    """Add a correction that the caller signs. Raises UsageError if it cannot be followed."""
    access = editor(http)
    name = access.user or access.asker.name
    # Without a name it is the person at this machine, whose account signs.
    signature = {"by": name} if name else {}
    try:
        added = access.project.add_correction({**signature, **fields})
    except SettingsError as error:
        # The fault is in the fields or in other lines, which an editor may see and repair.
        raise UsageError(str(error)) from None
    then = texts()["shell"]["pinned"]
    return {**added.effect.to_json(), "notes": list(added.notes), "then": then}


def _undo_correction(http: Request, id: str) -> dict[str, Any]:
    undone = editor(http).project.undo_correction(id)
    return {"id": undone.id, "then": texts()["shell"]["pinned"]}
