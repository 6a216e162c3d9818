"""The view Nights: the runs of the project, one run, its progress, and the plan of the next."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.exceptions import HTTPException

from pipeline.engine.losses import ASKED_AGAIN
from pipeline.engine.plan import RunOptions
from pipeline.errors import GraphmillError, in_words
from pipeline.pages.environment import texts
from pipeline.runs.night_page import charts_of, shown
from pipeline.runs.nights import Night
from pipeline.serve.doors import Door
from pipeline.serve.ui.shell import locked
from pipeline.serve.ui.view import Ui, home_door

PAGE = 25
"""The number of runs on a page of the list."""


def route_runs(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(home_door)])

    @routes.get("/nights")
    async def nights(
        http: Request, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1
    ) -> Response:
        return await ui.page(http, "nights.html.j2", lambda door: _list(door, page))

    @routes.get("/nights/plan")
    async def plan(http: Request) -> Response:
        return await ui.page(http, "plan.html.j2", _show_plan)

    @routes.get("/nights/{run}")
    async def night(http: Request, run: str) -> Response:
        return await ui.page(http, "night_view.html.j2", lambda door: _show_run(door, run))

    @routes.get("/ui/nights/{run}")
    async def how_far(http: Request, run: str) -> Response:
        """Return how far a run is; null if it is no longer running."""
        return await ui.data(http, lambda door: _how_far(door, run))

    return routes


def _list(door: Door, page: int) -> dict[str, Any]:
    """Return the values of the template for a page of the list of runs."""
    ids = door.project.runs.known_ids()
    first, last = PAGE * (page - 1), PAGE * page
    entries = door.project.list_runs(ids[first:last])
    calls = "cost" if any(entry.cost for entry in entries) else "calls"
    oldest_first = entries[::-1]
    return {
        "entries": entries,
        "night_charts": charts_of(oldest_first, ("took", calls, "rows_written")),
        "going": door.project.runs.under_way(),
        "may_begin": door.may_change,
        "first": first + 1,
        "last": min(last, len(ids)),
        "all": len(ids),
        "newer": page - 1 or None,
        "older": page + 1 if last < len(ids) else None,
    }


def _show_run(door: Door, run: str) -> dict[str, Any]:
    """Return the values of the template for one run."""
    _check_run(door, run)
    night = door.project.night(run)
    return {
        **shown(night),
        "told": tells_why(door),
        "may_retry": door.may_change and _can_be_retried(door, night),
    }


def _can_be_retried(door: Door, night: Night) -> bool:
    """Return whether the run lost rows that a retry would ask for again.

    Its tables must be the present ones of its workflow.
    """
    lost = any(each.kind in ASKED_AGAIN and each.loss == "lost" for each in night.left_out or ())
    if not lost:
        return False
    newest = door.project.snapshots.history(night.entry.workflow)[-1:]
    return night.entry.manifest in newest


def tells_why(door: Door) -> bool:
    """Return whether the caller may read messages of runs, which name hosts and folders."""
    return door.asker.all_told or door.editor


def _how_far(door: Door, run: str) -> dict[str, Any] | None:
    _check_run(door, run)
    going = door.project.runs.under_way()
    return asdict(going) if going and going.run_id == run else None


def _check_run(door: Door, run: str) -> None:
    """Raise HTTPException if there is no run of this id."""
    if run not in door.project.runs.known_ids():
        raise HTTPException(404, texts()["nights"]["no_such"])


def _show_plan(door: Door) -> dict[str, Any]:
    """Return the values of the template for the plan of the next run.

    ``problem`` says why there is no plan, for example in a folder without documents.
    """
    runs = door.project.runs
    state = {
        "going": runs.under_way(),
        "held": runs.holder(),
        "may_begin": door.may_change,
        "locked": locked(door),
    }
    try:
        return {**state, "problem": "", **_plan(door)}
    except GraphmillError as error:
        return {**state, "problem": _describe(door, error)}


def _describe(door: Door, error: GraphmillError) -> str:
    """Return the error's message, or for callers who may not read it, whom to ask."""
    return in_words(error) if tells_why(door) else texts()["nights"]["only_operator"]


def _why_refused(door: Door) -> str:
    """Return why a run would be refused at once, or "".

    For example, the workspace may show another workflow.
    """
    try:
        door.project.reach_stores(door.project.workflow(), RunOptions(), indexes=True)
    except GraphmillError as error:
        return _describe(door, error)
    return ""


def _plan(door: Door) -> dict[str, Any]:
    from pipeline.engine.bill.forecast import times_in_words, totals

    workflow = door.project.workflow().name
    forecasts = door.project.forecast(workflow)
    conversions, calls = times_in_words(forecasts, door.project.runs.reports())
    changes = next((entry.documents for entry in forecasts if entry.documents), None)
    return {
        "workflow": workflow,
        "forecasts": forecasts,
        "totals": totals(forecasts),
        "documents": changes.counts if changes else {},
        "to_convert": conversions,
        "time": calls,
        "not_loadable": door.project.why_not_loadable(workflow) or _why_refused(door),
    }
