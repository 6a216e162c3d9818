"""What an editor begins: the next run, or a retry, each as the command does it, in a process of its
own."""

import json
import os
import subprocess
import sys
import time
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
from pipeline.runs.reports import process_of
from pipeline.serve.ui.pins import Name
from pipeline.serve.ui.view import Ui, editor
from pipeline.settings.file import HANDED_ON

PATIENCE = 60.0
"""Seconds in which a command has begun its run."""
LOOK_SECONDS = 0.1


class Run(BaseModel):
    """``max_cost``: at which it stops; None: never."""

    model_config = ConfigDict(extra="forbid")
    max_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def options(self) -> list[str]:
        return [] if self.max_cost is None else ["--max-cost", str(self.max_cost)]


class Retry(Run):
    workflow: Name


def router(ui: Ui) -> APIRouter:
    """Each answers ``{"run"}``: its id, "" where it has not begun after PATIENCE."""
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(editor)])

    @routes.post("/ui/run")
    async def run(http: Request, body: Run) -> Response:
        return await ui.data(http, lambda door: {"run": _begun(door.served, "run", *body.options)})

    @routes.post("/ui/retry")
    async def retry(http: Request, body: Retry) -> Response:
        def begin(project: Project) -> str:
            if body.workflow not in project.snapshots.workflows():
                raise HTTPException(404, texts()["nights"]["no_such"])
            return _begun(project, "retry", body.workflow, *body.options)

        return await ui.data(http, lambda door: {"run": begin(door.served)})

    return routes


def _begun(project: Project, *command: str) -> str:
    """The id of the run, which goes on whatever becomes of this process. That it is the only one is
    seen to by the project's lock, as for everybody: of two that are begun at once the second is
    refused by it."""
    _refuse_where_none_can_begin(project)
    known = set(project.runs.known_ids())
    line = [sys.executable, "-P", "-m", "pipeline", "-C", str(project.root), *command, "--json"]
    environment = {**os.environ, HANDED_ON: json.dumps(project.overrides)}
    with TemporaryFile() as out, TemporaryFile() as aside:
        process = subprocess.Popen(  # noqa: S603 - this package's own command, of a workflow that has been run
            line,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=aside,
            start_new_session=True,
        )
        Thread(
            target=process.wait, daemon=True
        ).start()  # else it stays in the list of processes when it has ended
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            code = process.poll()
            of_it = (
                one for one in project.runs.unreported() if one.process == process_of(process.pid)
            )
            if run := next((one.run_id for one in of_it if one.run_id not in known), ""):
                return run
            if code is not None:
                return _ended(out, aside, code)
            time.sleep(LOOK_SECONDS)
    return ""


def _refuse_where_none_can_begin(project: Project) -> None:
    words = texts()["nights"]
    if project.runs.holder():
        raise HTTPException(409, words["begin_under_way"])
    data = project.root / "data"
    try:
        settings_file(project.root)
    except SettingsError as error:
        raise HTTPException(409, words["begin_no_folder"].format(why=error)) from None
    if not os.access(data if data.exists() else project.root, os.W_OK):
        raise HTTPException(
            409, words["begin_no_folder"].format(why=words["begin_read_only"].format(folder=data))
        )


def _ended(out: IO[bytes], aside: IO[bytes], code: int) -> str:
    """The id of a run that was over at once. Raises HTTPException where there was none, with what
    the command said."""
    out.seek(0)
    aside.seek(0)
    words, lines = texts()["nights"], aside.read().decode(errors="replace").split("\n")
    try:
        report = json.loads(out.read())
    except ValueError:
        report = {
            "run_id": "",
            "message": next((line for line in reversed(lines) if line.strip()), ""),
        }
    if not report["run_id"]:
        why = report["message"] or words["begin_ended"].format(code=code)
        raise HTTPException(409, words["begin_refused"].format(why=why))
    return report["run_id"]
