"""gc, purge, stores stop: what keeps a project in order."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.console import print_collected
from pipeline.cli.options import Folder, Json, Overrides, Yes, ask, open_project, print_json
from pipeline.cli.progress import counting
from pipeline.errors import counted

if TYPE_CHECKING:
    from pipeline.project import Project


def gc(
    context: typer.Context,
    keep: Annotated[int, typer.Option(metavar="N", help="Nights of each workflow to keep.")],
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete; without it, only say what would go.")] = False,
) -> None:  # fmt: skip
    """Delete the snapshots that only older nights need."""
    with open_project(context, folder, overrides, as_json) as project, counting("gc") as advanced:
        report = project.gc(keep, dry_run=not delete, advanced=advanced)
    if as_json:
        print_json(report.to_json())
    else:
        print_collected(report)


def purge(
    context: typer.Context,
    document: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Below the input folder, also a former one; or a record, people.csv#42."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="What only earlier nights hold, of any document.")] = False,
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    yes: Yes = False,
) -> None:  # fmt: skip
    """Remove a document and every trace of it, with all earlier nights; or the earlier nights alone."""
    if (document is not None) == history:
        raise typer.BadParameter("name --document PATH or --history, one of them")
    with open_project(context, folder, overrides, as_json) as project:
        if document is None:
            _purge_history(project, yes, as_json)
            return
        if not yes:
            _show_and_ask([*project.survey(document).lines(), f"Delete {document} and all that was made of it?"])
        report = project.purge(document)
    if as_json:
        print_json(report.to_json())
    else:
        print(*report.lines(), sep="\n")
    for place, why in report.unreached.items():
        print(f"graphmill: purge: {place} may hold {report.document} still: {why}", file=sys.stderr)
    for note in report.notes:
        print(f"graphmill: {note}", file=sys.stderr)
    _tell_unowned(report.unowned)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _purge_history(project: "Project", yes: bool, as_json: bool) -> None:
    if not yes:
        _show_and_ask(
            [
                *project.purge_history(dry_run=True).lines(),
                "Delete that? Documents, tables and stores stay as they are.",
            ]
        )
    report = project.purge_history(dry_run=False)
    if as_json:
        print_json(report.to_json())
    else:
        *nights, total = report.lines()
        print(*nights, f"deleted: {total}", sep="\n")
    _tell_unowned(report.unowned)


def _show_and_ask(lines: Sequence[str]) -> None:
    """The last line is the question."""
    *before, question = lines
    print(*before, sep="\n", file=sys.stderr)
    ask(question)


def _tell_unowned(replies: int) -> None:
    if replies:
        print(
            f"graphmill: cache: {counted(replies, 'reply', 'replies')} of an older version, of nobody known, left; "
            "delete those where owner is '' once no other project needs them",
            file=sys.stderr,
        )


def stop(context: typer.Context, folder: Folder = None, overrides: Overrides = None) -> None:
    """Stop the embedded PostgreSQL, whoever uses it."""
    with open_project(context, folder, overrides) as project:
        from pipeline.adapters import EMBEDDED_FOLDER
        from pipeline.stores.embedded import stop_embedded

        stopped = stop_embedded(project.root / EMBEDDED_FOLDER)
    print("stopped" if stopped else "not running")
