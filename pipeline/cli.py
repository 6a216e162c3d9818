"""The graphmill command."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.console import print_plan, print_report, run_progress
from pipeline.engine.report import RunReport, StepReport
from pipeline.errors import GraphmillError
from pipeline.init import init_project
from pipeline.query.answer import Answer
from pipeline.runs import Runs

if TYPE_CHECKING:
    from pipeline.project import Project

app = typer.Typer(
    help="Documents to a knowledge graph every night, and answers over it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
stores_app = typer.Typer(help="The embedded database.", no_args_is_help=True)
app.add_typer(stores_app, name="stores")

FAILED, INTERRUPTED = 1, 130

Folder = Annotated[Path | None, typer.Option("-C", metavar="DIR", help="The project's folder.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting for this run: a.b.c=value.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Log = Annotated[str, typer.Option(help="Progress on stderr: auto or json.")]
AllowDeletes = Annotated[
    bool, typer.Option("--allow-deletes", help="Go on even if more documents are gone than max_delete_ratio.")
]
Name = Annotated[str | None, typer.Argument(metavar="[WORKFLOW]", help="workflows/<name>.yaml")]


@app.callback()
def options(context: typer.Context, folder: Folder = None) -> None:
    context.obj = folder


@app.command()
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


@app.command()
def plan(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Say per step whether it would be reused or run, and why. No model is called."""
    with _project(context, folder, overrides, as_json) as project:
        workflow = project.workflow(name).name
        planned = project.plan(name)
    if not as_json:
        return print_plan(planned)
    steps = tuple(StepReport(entry.step.id, entry.step.verb.name, entry.action, entry.reason) for entry in planned)
    _print_json(RunReport("", workflow, "completed", 0, steps).to_json())


@app.command()
def index(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto", allow_deletes: AllowDeletes = False,
) -> None:  # fmt: skip
    """Bring the snapshots up to date with the documents."""
    _run("index", context, name, folder, overrides, as_json, log, allow_deletes=allow_deletes)


@app.command()
def load(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto",
) -> None:  # fmt: skip
    """Bring the stores up to date with the snapshots."""
    _run("load", context, name, folder, overrides, as_json, log)


@app.command()
def run(
    context: typer.Context, name: Name = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False, log: Log = "auto", allow_deletes: AllowDeletes = False,
) -> None:  # fmt: skip
    """Index, then load."""
    _run("run", context, name, folder, overrides, as_json, log, allow_deletes=allow_deletes)


@app.command()
def status(context: typer.Context, folder: Folder = None, overrides: Overrides = None, as_json: Json = False) -> None:
    """The report of the last run."""
    with _project(context, folder, overrides, as_json) as project:
        report = project.status()
    if as_json:
        _print_json(report or {"outcome": None, "message": "no run yet"})
    elif report is None:
        print("No run yet; start one with: graphmill run")
    else:
        for step in report["steps"]:
            print(f"{step['step']:<22} {step['action']:<7} {step['reason']}")
        print_report(report)


@app.command()
def query(
    context: typer.Context,
    question: Annotated[str, typer.Argument()],
    mode: Annotated[str | None, typer.Option(help="naive, local, global, hybrid, mix or bypass.")] = None,
    only_need_context: Annotated[bool, typer.Option("--only-need-context", help="No answer.")] = False,
    only_need_prompt: Annotated[bool, typer.Option("--only-need-prompt", help="No answer.")] = False,
    response_type: Annotated[str | None, typer.Option(help="The form of the answer, in words.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Entities and relationships to retrieve.")] = None,
    chunk_top_k: Annotated[int | None, typer.Option(help="Text units to retrieve.")] = None,
    hl_keywords: Annotated[str | None, typer.Option(metavar="A,B", help="Themes to search for.")] = None,
    ll_keywords: Annotated[str | None, typer.Option(metavar="A,B", help="Names to search for.")] = None,
    folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Answer a question over the loaded stores, with sources."""
    with _project(context, folder, overrides, as_json) as project:
        found = project.query(
            question,
            mode=mode,
            only_need_context=only_need_context,
            only_need_prompt=only_need_prompt,
            response_type=response_type,
            top_k=top_k,
            chunk_top_k=chunk_top_k,
            hl_keywords=_listed(hl_keywords),
            ll_keywords=_listed(ll_keywords),
        )
    if as_json:
        _print_json(found.to_json())
    else:
        _print_answer(found)


@stores_app.command("stop")
def stores_stop(context: typer.Context, folder: Folder = None, overrides: Overrides = None) -> None:
    """Stop the embedded PostgreSQL, whoever uses it."""
    from pipeline.adapters import EMBEDDED_FOLDER
    from pipeline.stores.embedded import stop_embedded

    with _project(context, folder, overrides) as project:
        stopped = stop_embedded(project.root / EMBEDDED_FOLDER)
    print("stopped" if stopped else "not running")


def main() -> None:
    app()


def _run(
    stage: str, context: typer.Context, name: str | None, folder: Path | None, overrides: list[str] | None,
    as_json: bool, log: str, allow_deletes: bool = False,
) -> None:  # fmt: skip
    if log not in ("auto", "json"):
        raise typer.BadParameter("auto or json", param_hint="--log")
    options = {"allow_deletes": True} if allow_deletes else {}
    with _project(context, folder, overrides, as_json) as project, run_progress(log) as progress:
        report = getattr(project, stage)(name, progress, **options).to_json()
        rejects = project.table("rejects", report["workflow"]) if report["totals"]["rejects"] else None
    if as_json:
        _print_json(report)
    else:
        print_report(report, rejects)
    raise typer.Exit(report["exit_code"])


@contextmanager
def _project(
    context: typer.Context, folder: Path | None, overrides: list[str] | None, as_json: bool = False
) -> Iterator["Project"]:
    """The project; what goes wrong with it is one line on stderr, an exit code, and with --json a report."""
    from pipeline.project import Project

    runs = Runs.of(folder or context.obj or Path())
    last = runs.last()
    try:
        with Project.open(folder or context.obj or Path(), overrides or ()) as project:
            yield project
        return
    except GraphmillError as error:
        message, code = str(error), error.exit_code
    except KeyboardInterrupt:
        message, code = "stopped; everything computed is kept: run the same command again to go on", INTERRUPTED
    except OSError as error:
        message, code = f"{error.filename or 'system'}: {error.strerror or error}; nothing computed is lost", FAILED
    print(f"graphmill: {message}", file=sys.stderr)
    if as_json:
        report = runs.last()
        broken_off = RunReport("", "", "stopped" if code == INTERRUPTED else "failed", code, message=message)
        _print_json(report if report and report != last else broken_off.to_json())
    raise typer.Exit(code)


def _listed(value: str | None) -> tuple[str, ...] | None:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else None


def _print_answer(found: Answer) -> None:
    print(found.text.strip())
    if found.request.only_need_context or found.request.only_need_prompt:
        return
    if found.references:
        print("\nSources:")
        for reference in found.references:
            print(f"  [{reference.id}] {reference.title} ({reference.source})")


def _print_json(content: Any) -> None:
    print(json.dumps(content, ensure_ascii=False, indent=1))
