"""The view Runs: the runs of the project, one run, its progress, and the plan of the next."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.exceptions import HTTPException

from pipeline.engine.losses import ASKED_AGAIN
from pipeline.engine.run_options import RunOptions
from pipeline.errors import GraphmillError, in_words
from pipeline.pages.environment import texts
from pipeline.runs.run_details import RunDetails
from pipeline.runs.run_page import charts_of, shown
from pipeline.serve.access import Access
from pipeline.serve.ui.shell import locked
from pipeline.serve.ui.view import Ui, home_access

PAGE = 25
"""The number of runs on a page of the list."""


def route_runs(ui: Ui) -> APIRouter:
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(home_access)])

    @routes.get("/runs")
    async def list_of_runs(
        http: Request, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1
    ) -> Response:
        return await ui.page(http, "runs.html.j2", lambda access: _list(access, page))

    @routes.get("/runs/plan")
    async def plan(http: Request) -> Response:
        return await ui.page(http, "plan.html.j2", _show_plan)

    @routes.get("/runs/{run}")
    async def run_details(http: Request, run: str) -> Response:
        return await ui.page(http, "run_view.html.j2", lambda access: _show_run(access, run))

    @routes.get("/ui/runs/{run}")
    async def how_far(http: Request, run: str) -> Response:
        """Return how far a run is; null if it is no longer running."""
        return await ui.data(http, lambda access: _how_far(access, run))

    return routes


def _list(access: Access, page: int) -> dict[str, Any]:
    """Return the values of the template for a page of the list of runs."""
    ids = access.project.runs.known_ids()
    first, last = PAGE * (page - 1), PAGE * page
    entries = access.project.list_runs(ids[first:last])
    calls = "cost" if any(entry.cost for entry in entries) else "calls"
    oldest_first = entries[::-1]
    return {
        "entries": entries,
        "run_charts": charts_of(oldest_first, ("took", calls, "rows_written")),
        "going": access.project.runs.under_way(),
        "may_begin": access.may_change,
        "first": first + 1,
        "last": min(last, len(ids)),
        "all": len(ids),
        "newer": page - 1 or None,
        "older": page + 1 if last < len(ids) else None,
    }


def _show_run(access: Access, run: str) -> dict[str, Any]:
    """Return the values of the template for one run."""
    _check_run(access, run)
    details = access.project.run_details(run)
    return {
        **shown(details),
        "told": tells_why(access),
        "may_retry": access.may_change and _can_be_retried(access, details),
    }


def _can_be_retried(access: Access, details: RunDetails) -> bool:
    """Return whether the run lost rows that a retry would ask for again.

    Its tables must be the present ones of its workflow.
    """
    lost = any(each.kind in ASKED_AGAIN and each.loss == "lost" for each in details.left_out or ())
    if not lost:
        return False
    newest = access.project.snapshots.history(details.entry.workflow)[-1:]
    return details.entry.manifest in newest


def tells_why(access: Access) -> bool:
    """Return whether the caller may read messages of runs, which name hosts and folders."""
    return access.caller.sees_internals or access.editor


def _how_far(access: Access, run: str) -> dict[str, Any] | None:
    _check_run(access, run)
    going = access.project.runs.under_way()
    return asdict(going) if going and going.run_id == run else None


def _check_run(access: Access, run: str) -> None:
    """Raise HTTPException if there is no run of this id."""
    if run not in access.project.runs.known_ids():
        raise HTTPException(404, texts()["runs"]["no_such"])


def _show_plan(access: Access) -> dict[str, Any]:
    """Return the values of the template for the plan of the next run.

    ``problem`` says why there is no plan, for example in a folder without documents.
    """
    runs = access.project.runs
    state = {
        "going": runs.under_way(),
        "held": runs.holder(),
        "may_begin": access.may_change,
        "locked": locked(access),
    }
    try:
        return {**state, "problem": "", **_plan(access)}
    except GraphmillError as error:
        return {**state, "problem": _describe(access, error)}


def _describe(access: Access, error: GraphmillError) -> str:
    """Return the error's message, or for callers who may not read it, whom to ask."""
    return in_words(error) if tells_why(access) else texts()["runs"]["only_operator"]


def _why_refused(access: Access) -> str:
    """Return why a run would be refused at once, or "".

    For example, the workspace may show another workflow.
    """
    try:
        access.project.reach_stores(access.project.workflow(), RunOptions(), indexes=True)
    except GraphmillError as error:
        return _describe(access, error)
    return ""


def _plan(access: Access) -> dict[str, Any]:
    from pipeline.engine.bill.forecast import times_in_words, totals

    workflow = access.project.workflow().name
    forecasts = access.project.forecast(workflow)
    conversions, calls = times_in_words(workflow, forecasts, access.project.runs.reports())
    changes = next((entry.documents for entry in forecasts if entry.documents), None)
    return {
        "workflow": workflow,
        "forecasts": forecasts,
        "totals": totals(forecasts),
        "documents": changes.counts if changes else {},
        "to_convert": conversions,
        "time": calls,
        "not_loadable": access.project.why_not_loadable(workflow) or _why_refused(access),
    }
