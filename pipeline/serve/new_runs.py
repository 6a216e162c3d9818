"""Runs over HTTP: request one, and look how far it is. A thread begins those that wait."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from filelock import FileLock, Timeout
from starlette.exceptions import HTTPException

from pipeline.engine.resources import Model
from pipeline.engine.usage.run_budget import refuse_unpriced
from pipeline.errors import UsageError
from pipeline.pages.environment import texts
from pipeline.project import Project
from pipeline.runs.reports import HELD
from pipeline.runs.requested import (
    BEGUN,
    REFUSED,
    START_SECONDS,
    STARTING,
    WAITING,
    Ceilings,
    RequestedRun,
    RequestedRuns,
)
from pipeline.serve.access import Access
from pipeline.serve.once import IdempotencyKey, once
from pipeline.serve.posted_bodies import RunAsked, RunState
from pipeline.serve.queries import Queries
from pipeline.serve.responses import answered, json_bytes
from pipeline.serve.ui.beginning import begin
from pipeline.serve.ui.view import access_of, note_edit, writer

LOG = logging.getLogger("graphmill.serve")
ACCEPTED = 202
IDLE_SECONDS = 1.0
"""The time between two looks whether another process of this server was asked for a run."""
BUSY_SECONDS = 0.2
"""The time between two looks whether the run under way has ended."""


@dataclass
class Starter:
    """A thread that begins requested runs, one after another. Of several processes one does."""

    project: Project
    asked: threading.Event = field(default_factory=threading.Event)
    ended: bool = False
    thread: threading.Thread | None = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._work, name="runs", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """End the thread after its present look; a run that has begun goes on."""
        self.ended = True
        self.asked.set()

    def look(self, at_start: bool = False) -> None:
        """Begin the run that waits longest, unless a run holds the project.

        ``at_start``: this is the first look of the process.
        """
        requested = RequestedRuns.of(self.project.root)
        if not requested.waits():
            return
        if at_start:
            requested.refuse_deletes()
        with self._alone(requested) as is_alone:
            if not is_alone:
                return
            requested.settle()
            taken = None if self.project.runs.holder() else requested.take()
            if taken is not None:
                self._begin(requested, taken)

    @contextmanager
    def _alone(self, requested: RequestedRuns) -> Iterator[bool]:
        """Tell whether this is the only process that begins runs while the block runs."""
        try:
            with FileLock(requested.folder / "starter.lock").acquire(timeout=0):
                yield True
        except Timeout:
            yield False

    def _begin(self, requested: RequestedRuns, taken: RequestedRun) -> None:
        """Begin a run and write its new state. It waits again if another command came first.

        After another error it stays taken, and the next look finds out whether it has begun.
        """
        command = ("run", taken.workflow, *taken.options)

        def note(pid: int) -> None:
            requested.put(replace(taken, pid=pid))

        try:
            run = begin(self.project, *command, patience=START_SECONDS, when_started=note)
        except HTTPException as error:
            why = str(error.detail)
            if HELD in why or why == texts()["runs"]["begin_under_way"]:
                requested.put(replace(taken, state=WAITING))
            else:
                requested.put(replace(taken, state=REFUSED, message=why))
            return
        requested.put(replace(taken, state=BEGUN, run=run))

    def _work(self) -> None:
        at_start = True
        while not self.ended:
            try:
                is_waiting = RequestedRuns.of(self.project.root).waits()
                if not at_start:
                    self.asked.wait(BUSY_SECONDS if is_waiting else IDLE_SECONDS)
                    self.asked.clear()
                if not self.ended:
                    self.look(at_start)
                    at_start = False
            except Exception as error:  # noqa: BLE001 - without the thread no run would begin
                LOG.error("a requested run could not be begun: %s; it is tried again", error)
                self.asked.wait(IDLE_SECONDS)


def add_runs(
    app: FastAPI,
    queries: Queries,
    starter: Starter,
    responses: dict[int | str, Any],
    keys: Sequence[Any],
) -> None:
    """Add the routes of runs; ``responses`` and ``keys`` are as for the routes of queries."""
    routes = APIRouter(tags=["runs"], dependencies=[*keys, Depends(writer)], responses=responses)

    async def within_turn(
        http: Request, status: int, look: Callable[[Access], dict[str, Any]]
    ) -> Response:
        access = access_of(http)

        def work() -> Response:
            return Response(json_bytes(look(access)), status, media_type="application/json")

        return await answered(http, queries.run(work, access.claim(chat=False)))

    @routes.post("/v1/runs", summary="Request a run", status_code=ACCEPTED, response_model=RunState)
    async def request(
        http: Request, body: RunAsked, idempotency_key: IdempotencyKey = ""
    ) -> Response:
        """Request a run of a workflow. Requests while a run is under way become one run after
        it."""
        limits = f"max_cost={body.max_cost} allow_deletes={body.allow_deletes}"
        note_edit(http, " ".join(["run", *filter(None, [body.workflow]), limits]))

        def look(access: Access) -> dict[str, Any]:
            asked = [body.model_dump_json()]
            made = once(
                access, "runs", idempotency_key, asked, lambda: _request(access, body).__dict__
            )
            starter.asked.set()
            return _state(access.served, RequestedRun(**made))

        return await within_turn(http, ACCEPTED, look)

    @routes.get("/v1/runs/{id}", summary="Look at a run", response_model=RunState)
    async def one(http: Request, id: str) -> Response:
        """Return how far a requested run is, and how it has ended."""

        def look(access: Access) -> dict[str, Any]:
            found = RequestedRuns.of(access.served.root).find(id)
            if found is None:
                raise HTTPException(404, "no such run was requested here; POST /v1/runs gives ids")
            return _state(access.served, found)

        return await within_turn(http, 200, look)

    app.include_router(routes)


def _request(access: Access, body: RunAsked) -> RequestedRun:
    """Request a run. Raises UsageError for an unknown workflow, a run without a ceiling and a model
    without a price, BudgetError where what may be spent in a day is spent."""
    project = access.served
    name = body.workflow or project.settings.workflow
    if not (project.root / "workflows" / f"{name}.yaml").is_file():
        raise UsageError(f"workflow: there is no '{name}'; name one of the folder workflows")
    limits = project.settings.serve.runs
    allowed = limits.workflows or (project.settings.workflow,)
    if name not in allowed:
        raise UsageError(
            f"workflow: '{name}' cannot be requested, only {', '.join(allowed)}; have it added to"
            " serve.runs.workflows"
        )
    given = [one for one in (body.max_cost, limits.cost_per_run) if one is not None]
    ceilings = Ceilings(min(given, default=None), limits.cost_per_day, access.run_cost_per_day)
    paid = _paid_models(project, name)
    for model in paid:
        # The run has a limit of costs, so it would be refused before its first step.
        refuse_unpriced(model, "max_cost", "ask whoever runs this server to set it")
    return RequestedRuns.of(project.root).add(
        name, access.caller.name, bool(paid), ceilings, body.allow_deletes
    )


def _paid_models(project: Project, workflow: str) -> list[Model]:
    """Return the models of the workflow's steps whose calls may cost something."""
    models = [
        model
        for step in project.workflow(workflow).steps
        for model in project.resources.models_of(step).values()
    ]
    return [model for model in models if hasattr(model, "cost")]


def _state(project: Project, requested: RequestedRun) -> dict[str, Any]:
    """Return a requested run as the answer shows it."""
    shown: dict[str, Any] = {
        "id": requested.id, "workflow": requested.workflow, "state": requested.state,
        "max_cost": requested.max_cost, "run": requested.run, "outcome": "", "exit_code": None,
        "message": requested.message, "cost": None, "documents": {},
    }  # fmt: skip
    if requested.state == STARTING:
        return {**shown, "state": WAITING}
    if requested.state != BEGUN:
        return shown
    report = project.runs.report(requested.run)
    if report is None:
        going = project.runs.under_way()
        is_going = going is not None and going.run_id == requested.run
        # A run writes its report, and then it releases the project.
        report = None if is_going else project.runs.report(requested.run)
        if report is None:
            return {**shown, "state": "running" if is_going else "killed"}
    return {
        **shown, "state": "ended", "outcome": report["outcome"], "exit_code": report["exit_code"],
        "message": report["message"], "cost": report["totals"]["cost"],
        "documents": report.get("documents", {}),
    }  # fmt: skip
