"""The view Corrections, and editors' corrections in all views: list them, add one, take one back,
apply them, and decide on suspects."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, StringConstraints

from pipeline.corrections.decisions import LONGEST_DESCRIPTION, LONGEST_NAME, LONGEST_VALUE
from pipeline.errors import SettingsError, UsageError
from pipeline.pages.environment import texts
from pipeline.project import Project
from pipeline.runs.suspects import USUAL
from pipeline.serve.access import Access
from pipeline.serve.ui.beginning import begin
from pipeline.serve.ui.view import CLEANED, Ui, editor, note_edit, signer_of

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
Value = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_VALUE),
    CLEANED,
]

Asked = Annotated[str, StringConstraints(max_length=LONGEST_NAME), CLEANED]
Limit = Annotated[int, Query(ge=1, le=1000)]


class Corrected(BaseModel):
    """A correction as the page sends it; the fields of its kind are those of corrections.jsonl."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal[
        "rename", "delete_entity", "set_type", "describe_entity", "set_property",
        "delete_property", "add_statement", "delete_statement", "turn_statement",
        "retype_statement", "describe_statement", "keep",
    ]  # fmt: skip
    entity: Name | None = None
    to: Name | None = None
    other: Name | None = None
    source: Name | None = None
    target: Name | None = None
    type: Name | None = None
    description: Text | None = None
    property: Name | None = None
    value: Value | None = None
    document: Name | None = None
    quote: Name | None = None
    why: Text | None = None


class Undone(BaseModel):
    """The correction to take back, by its id."""

    model_config = ConfigDict(extra="forbid")
    id: Name


class Applied(BaseModel):
    """A request to apply the corrections; it has no options."""

    model_config = ConfigDict(extra="forbid")


def route_corrections(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(editor)])

    @routes.get("/corrections")
    async def page(http: Request) -> Response:
        return await ui.page(http, "corrections.html.j2")

    @routes.get("/ui/corrections")
    async def listed(http: Request) -> Response:
        """Return all corrections, each with what it changed in the last run and whether it is
        pending, those that were taken back, and the last run or the one under way."""
        return await ui.data(http, lambda _: _list_corrections(http))

    @routes.get("/ui/corrections/suspects")
    async def suspects(http: Request, limit: Limit = USUAL) -> Response:
        """Return entities of the last run that may be mistakes."""
        return await ui.data(http, lambda _: editor(http).project.suspects(limit=limit).to_json())

    @routes.get("/ui/corrections/said")
    async def said(http: Request, entity: Name, target: Asked = "") -> Response:
        """Return what the model said of an entity, or of two, before any correction."""

        def look(_: Access) -> dict[str, Any]:
            return editor(http).project.what_was_said(entity, target).to_json()

        return await ui.data(http, look)

    @routes.post("/ui/corrections/apply")
    async def apply(http: Request, body: Applied) -> Response:
        """Begin a run that applies the corrections at once; answer ``{"run": id}`` as a run."""
        note_edit(http, "apply corrections")

        def work(_: Access) -> dict[str, str]:
            return {"run": begin(editor(http).served, "corrections", "apply")}

        return await ui.data(http, work)

    @routes.post("/ui/correct")
    async def correct(http: Request, body: Corrected) -> Response:
        """Add a correction, and return what it changes in the last run's extractions."""
        fields = body.model_dump(exclude_none=True)
        note_edit(http, ", ".join(f"{key}: {value}" for key, value in fields.items()))
        return await ui.data(http, lambda _: _add_correction(http, fields))

    @routes.post("/ui/correct/undo")
    async def undo(http: Request, body: Undone) -> Response:
        """Take a correction back."""
        note_edit(http, f"undo correction {body.id}")
        return await ui.data(http, lambda _: _undo_correction(http, body.id))

    return routes


def _list_corrections(http: Request) -> dict[str, Any]:
    project = editor(http).project
    listed = [effect.to_json() for effect in project.corrections()]
    undone = project.undone_corrections()
    under_way = project.runs.under_way()
    return {
        "corrections": listed,
        "undone": undone,
        "pending": sum(one["pending"] for one in listed) + len(undone),
        "under_way": under_way.run_id if under_way else "",
        "last": _describe_last_run(project),
    }


def _describe_last_run(project: Project) -> dict[str, Any] | None:
    """Return the outcome of the newest run, and how many requests wait for the next one by step."""
    report = next(iter(project.runs.reports()), None)
    if report is None:
        return None
    # A report of an earlier version does not count what waits, for nothing did.
    waiting = {step["step"]: step.get("waiting", 0) for step in report["steps"]}
    return {
        "run": report["run_id"],
        "outcome": report["outcome"],
        "exit_code": report["exit_code"],
        "message": report["message"],
        "waiting": {step: count for step, count in waiting.items() if count},
    }


def _add_correction(http: Request, fields: dict[str, Any]) -> dict[str, Any]:
    """Add a correction that the caller signs. Raises UsageError if it cannot be followed."""
    access = editor(http)
    name = signer_of(access)
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
