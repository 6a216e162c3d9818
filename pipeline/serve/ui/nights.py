"""The view Nights: the runs of the project, one of them, how far it is, and what the next would
do."""

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
"""Runs on a page of the list."""


def router(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(home_door)])

    @routes.get("/nights")
    async def nights(
        http: Request, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1
    ) -> Response:
        return await ui.page(http, "nights.html.j2", lambda door: _listed(door, page))

    @routes.get("/nights/plan")
    async def plan(http: Request) -> Response:
        return await ui.page(http, "plan.html.j2", _planned)

    @routes.get("/nights/{run}")
    async def night(http: Request, run: str) -> Response:
        return await ui.page(http, "night_view.html.j2", lambda door: _opened(door, run))

    @routes.get("/ui/nights/{run}")
    async def how_far(http: Request, run: str) -> Response:
        """How far a run under way is; null where it is that no more."""
        return await ui.data(http, lambda door: _how_far(door, run))

    return routes


def _listed(door: Door, page: int) -> dict[str, Any]:
    ids = door.project.runs.known_ids()
    first = PAGE * (page - 1)
    entries = door.project.list_runs(ids[first : first + PAGE])
    calls = "cost" if any(entry.cost for entry in entries) else "calls"
    return {
        "entries": entries,
        "night_charts": charts_of(entries[::-1], ("took", calls, "rows_written")),
        "going": door.project.runs.under_way(),
        "may_begin": door.may_change,
        "first": first + 1, "last": min(first + PAGE, len(ids)), "all": len(ids),
        "newer": page - 1 or None, "older": page + 1 if first + PAGE < len(ids) else None,
    }  # fmt: skip


def _opened(door: Door, run: str) -> dict[str, Any]:
    night = door.project.night(_known(door, run))
    return {
        **shown(night),
        "told": tells_why(door),
        "may_retry": door.may_change and _can_be_retried(door, night),
    }


def _can_be_retried(door: Door, night: Night) -> bool:
    """Whether it has lost rows that a retry asks for: its tables are those that its workflow has
    now."""
    lost = any(each.kind in ASKED_AGAIN and each.loss == "lost" for each in night.left_out or ())
    return (
        lost and night.entry.manifest in door.project.snapshots.history(night.entry.workflow)[-1:]
    )


def tells_why(door: Door) -> bool:
    """Whether they may read messages of runs, which name hosts and folders."""
    return door.asker.all_told or door.editor


def _how_far(door: Door, run: str) -> dict[str, Any] | None:
    run_id, going = _known(door, run), door.project.runs.under_way()
    return asdict(going) if going and going.run_id == run_id else None


def _known(door: Door, run: str) -> str:
    if run not in door.project.runs.known_ids():
        raise HTTPException(404, texts()["nights"]["no_such"])
    return run


def _planned(door: Door) -> dict[str, Any]:
    """``problem``: why there is no plan, as of a folder without documents."""
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
        return {**state, "problem": _in_words(door, error)}


def _in_words(door: Door, error: GraphmillError) -> str:
    return in_words(error) if tells_why(door) else texts()["nights"]["only_operator"]


def _why_refused(door: Door) -> str:
    """Why a run would end before it begins, as where the workspace shows another workflow; empty
    where it would not."""
    try:
        door.project.reach_stores(door.project.workflow(), RunOptions(), indexes=True)
    except GraphmillError as error:
        return _in_words(door, error)
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
