"""init, plan, index, load, run: a project, and its tables and stores."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.console import print_plan, print_report
from pipeline.cli.options import FAILED, Folder, Json, Log, Name, Overrides, open_project, print_json
from pipeline.cli.progress import run_progress
from pipeline.engine.report import RunReport, StepReport
from pipeline.init import init_project


def init(context: typer.Context, folder: Annotated[Path | None, typer.Argument(metavar="DIR")] = None) -> None:
    """Make a project: settings, workflows, prompts, data/input. Existing files are kept."""
    root = folder or context.obj or Path()
    try:
        written, kept = init_project(root)
    except OSError as error:
        print(f"graphmill: {error.filename}: {error.strerror}; choose a folder you may write to", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    print(f"{root}: {len(written)} files written, {len(kept)} kept")
    print(f"Next: put documents into {root / 'data/input'}, then run: graphmill -C {root} run fast")


def plan(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Say per step whether it would be reused or run, and why. No model is called."""
    with open_project(context, folder, overrides, as_json) as project:
        workflow = project.workflow(name).name
        planned = project.plan(name)
    if not as_json:
        return print_plan(planned)
    steps = tuple(StepReport(entry.step.id, entry.step.verb.name, entry.action, entry.reason) for entry in planned)
    print_json(RunReport("", workflow, "completed", 0, steps).to_json())


def index(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto",
) -> None:  # fmt: skip
    """Bring the snapshots up to date with the documents."""
    _run("index", context, name, folder, overrides, as_json, log)


def load(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto",
) -> None:  # fmt: skip
    """Bring the stores up to date with the snapshots."""
    _run("load", context, name, folder, overrides, as_json, log)


def run(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto",
) -> None:  # fmt: skip
    """Index, then load."""
    _run("run", context, name, folder, overrides, as_json, log)


def _run(
    stage: str, context: typer.Context, name: str | None, folder: Path | None, overrides: list[str] | None,
    as_json: bool, log: str,
) -> None:  # fmt: skip
    if log not in ("auto", "json"):
        raise typer.BadParameter("auto or json", param_hint="--log")
    with open_project(context, folder, overrides, as_json) as project, run_progress(log) as progress:
        report = getattr(project, stage)(name, progress).to_json()
        rejects = project.table("rejects", report["workflow"]) if report["totals"]["rejects"] else None
    if as_json:
        print_json(report)
    else:
        print_report(report, rejects)
    raise typer.Exit(report["exit_code"])
