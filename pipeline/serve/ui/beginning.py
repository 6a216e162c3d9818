"""Begin the next run or a retry for an editor, by the command in a process of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryFile
from threading import Thread
from typing import IO

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from pipeline.errors import SettingsError
from pipeline.files import settings_file
from pipeline.pages.environment import texts
from pipeline.project import Project
from pipeline.runs.project_lock import process_of
from pipeline.serve.access import Access
from pipeline.serve.ui.pins import Name
from pipeline.serve.ui.view import Ui, editor
from pipeline.settings.file import HANDED_ON

PATIENCE = 60.0
"""The seconds in which a command usually has begun its run."""
LOOK_SECONDS = 0.1


class Run(BaseModel):
    """A request for a run. ``max_cost`` is the cost at which it stops; None stands for no limit."""

    model_config = ConfigDict(extra="forbid")
    max_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def options(self) -> list[str]:
        return [] if self.max_cost is None else ["--max-cost", str(self.max_cost)]


class Retry(Run):
    workflow: Name


def route_new_runs(ui: Ui) -> APIRouter:
    """Return the routes that begin a run and a retry.

    Each answers ``{"run": id}``; the id is "" if the run has not begun within ``PATIENCE``.
    """
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(editor)])

    @routes.post("/ui/run")
    async def run(http: Request, body: Run) -> Response:
        def work(access: Access) -> dict[str, str]:
            return {"run": begin(access.served, "run", *body.options)}

        return await ui.data(http, work)

    @routes.post("/ui/retry")
    async def retry(http: Request, body: Retry) -> Response:
        def work(access: Access) -> dict[str, str]:
            project = access.served
            if body.workflow not in project.snapshots.workflows():
                raise HTTPException(404, texts()["runs"]["no_such"])
            return {"run": begin(project, "retry", body.workflow, *body.options)}

        return await ui.data(http, work)

    return routes


def begin(
    project: Project,
    *command: str,
    patience: float = PATIENCE,
    when_started: Callable[[int], object] = lambda pid: None,
) -> str:
    """Begin a run by the command, and return its id; "" if it has not begun after ``patience``
    seconds. ``when_started`` gets the number of the command's process.

    The run goes on if this process ends. The project's lock makes it the only one: of two that are
    begun at once, the second is refused by it.
    """
    _check_that_a_run_can_begin(project)
    known = set(project.runs.known_ids())
    line = [sys.executable, "-P", "-m", "pipeline", "-C", str(project.root), *command, "--json"]
    environment = {**os.environ, HANDED_ON: json.dumps(project.overrides)}
    with TemporaryFile() as out, TemporaryFile() as aside:
        process = subprocess.Popen(  # noqa: S603 - this package's own command
            line,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=aside,
            start_new_session=True,
        )
        # Without a wait the ended process would stay in the list of processes.
        Thread(target=process.wait, daemon=True).start()
        when_started(process.pid)
        until = time.monotonic() + patience
        while time.monotonic() < until:
            code = process.poll()
            of_process = process_of(process.pid)
            for begun in project.runs.unreported():
                if begun.process == of_process and begun.run_id not in known:
                    return begun.run_id
            if code is not None:
                return _read_ended(out, aside, code)
            time.sleep(LOOK_SECONDS)
    return ""


def _check_that_a_run_can_begin(project: Project) -> None:
    """Raise HTTPException if another command holds the project, or its folder is not usable."""
    words = texts()["runs"]
    if project.runs.holder():
        raise HTTPException(409, words["begin_under_way"])
    data = project.root / "data"
    try:
        settings_file(project.root)
    except SettingsError as error:
        raise HTTPException(409, words["begin_no_folder"].format(why=error)) from None
    if not os.access(data if data.exists() else project.root, os.W_OK):
        why = words["begin_read_only"].format(folder=data)
        raise HTTPException(409, words["begin_no_folder"].format(why=why))


def _read_ended(out: IO[bytes], aside: IO[bytes], code: int) -> str:
    """Return the id of a run whose command has ended already.

    ``out`` and ``aside`` are the command's stdout and stderr. Raises HTTPException with the
    command's message if it made no run.
    """
    out.seek(0)
    aside.seek(0)
    words, lines = texts()["runs"], aside.read().decode(errors="replace").split("\n")
    try:
        report = json.loads(out.read())
    except ValueError:
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        report = {"run_id": "", "message": last_line}
    if not report["run_id"]:
        why = report["message"] or words["begin_ended"].format(code=code)
        raise HTTPException(409, words["begin_refused"].format(why=why))
    return report["run_id"]
