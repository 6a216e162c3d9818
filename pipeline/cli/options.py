"""What the commands share: their options, and what becomes of an error."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.engine.report import Outcome, RunReport
from pipeline.errors import FAILED, INTERRUPTED, TERMINATED, GraphmillError, Terminated, UsageError, counted
from pipeline.runs import Runs

if TYPE_CHECKING:
    from pipeline.project import Project

STOPPED = "stopped; everything computed is kept: run the same command again to go on"

Folder = Annotated[Path | None, typer.Option("-C", metavar="DIR", help="The project's folder.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting for this run: a.b.c=value.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, or list, on stdout.")]


def _known_log(log: str) -> str:
    if log not in ("auto", "json"):
        raise typer.BadParameter("auto or json")
    return log


Log = Annotated[str, typer.Option(help="Progress on stderr: auto or json.", callback=_known_log)]
Name = Annotated[str | None, typer.Argument(metavar="WORKFLOW", help="By default the one that settings.yaml names.")]
SHOWN = "By default the one that the workspace shows, else that of settings.yaml."
Shown = Annotated[str | None, typer.Argument(metavar="WORKFLOW", help=SHOWN)]
ShownToo = Annotated[str | None, typer.Option("--workflow", metavar="NAME", help=SHOWN)]
"""Of a command whose arguments are others."""

TakeOver = Annotated[
    list[str] | None,
    typer.Option("--take-over", metavar="OWNER", help="Also where it is this owner's; its rows are deleted."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def root_of(context: typer.Context, folder: Path | None) -> Path:
    """The project's folder: ``-C`` after the command, before it, or where one is."""
    return (folder or context.obj or Path()).resolve()


@contextmanager
def open_project(
    context: typer.Context, folder: Path | None, overrides: list[str] | None, as_json: bool = False
) -> Iterator["Project"]:
    """The project; what goes wrong with it is told as ``errors_told`` does."""
    root = root_of(context, folder)
    with errors_told(root, as_json):
        from pipeline.project import Project

        with Project.open(root, overrides or ()) as project:
            yield project


@contextmanager
def errors_told(root: Path, as_json: bool = False) -> Iterator[None]:
    """What goes wrong inside is one line on stderr, an exit code, and with --json a report."""
    runs = Runs.of(root)
    last = runs.last()
    outcome: Outcome = "failed"
    try:
        yield
        return
    except GraphmillError as error:
        message, code = str(error), error.exit_code
    except Terminated:
        outcome, message, code = "stopped", STOPPED, TERMINATED
    except KeyboardInterrupt:
        outcome, message, code = "stopped", STOPPED, INTERRUPTED
    except OSError as error:
        message, code = f"{error.filename or 'system'}: {error.strerror or error}; nothing computed is lost", FAILED
    print(f"graphmill: {message}", file=sys.stderr)
    if as_json:
        report = runs.last()
        broken_off = RunReport("", "", outcome, code, message=message)
        print_json(report if report and report != last else broken_off.to_json())
    raise typer.Exit(code)


def confirm_take_over(project: "Project", owners: Sequence[str], yes: bool, workspace: str | None = None) -> None:
    """Ask before a workspace of other owners, by default that of the settings, is theirs no more. Nothing is asked
    where none is. Raises UsageError as ``ask`` does."""
    if not owners or yes:
        return
    taken = {store: live for store, live in project.others(workspace).items() if live.owner in owners}
    for store, live in taken.items():
        rows = sum(state.rows for state in live.tables.values())
        what = f"{store}: workspace '{workspace or project.settings.workspace}' of owner {live.owner}"
        print(f"{what}: workflow '{live.workflow}', {counted(rows, 'row')}, loaded from {live.place}", file=sys.stderr)
    if taken:
        ask("These rows are deleted, and their owner is refused from now on. Go on?")


def ask(question: str) -> None:
    """Raises typer.Abort where the answer is not yes, UsageError where nobody is there to be asked, as in a crontab:
    silence is no yes."""
    if not sys.stdin.isatty():
        raise UsageError(f"there is no terminal to ask on ({question}); if this is meant, add --yes")
    typer.confirm(question, abort=True, err=True)


def print_json(content: Any) -> None:
    print(json.dumps(content, ensure_ascii=False, indent=1))
