"""gc, purge, stores stop: what keeps a project in order."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from pipeline.cli.console import print_collected
from pipeline.cli.options import Folder, Json, Overrides, open_project, print_json


def gc(
    context: typer.Context,
    keep: Annotated[int, typer.Option(metavar="N", help="Nights of each workflow to keep.")],
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete; without it, only say what would go.")] = False,
) -> None:  # fmt: skip
    """Delete the snapshots that only older nights need."""
    with open_project(context, folder, overrides, as_json) as project:
        report = project.gc(keep, dry_run=not delete)
    if as_json:
        print_json(report.to_json())
    else:
        print_collected(report)


def purge(
    context: typer.Context,
    document: Annotated[str, typer.Option("--document", metavar="PATH", help="Below the input folder.")],
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:  # fmt: skip
    """Remove a document and every trace of it, its file and the history of all nights too."""
    if not yes:
        typer.confirm(f"Delete {document}, all that was made of it, and all earlier nights?", abort=True)
    with open_project(context, folder, overrides, as_json) as project:
        report = project.purge(document)
    if as_json:
        print_json({**asdict(report), "runs": [run.to_json() for run in report.runs]})
    else:
        rebuilt = "; the embedded PostgreSQL was made anew" if report.rebuilt else ""
        print(f"{report.document}: gone; {report.forgotten} cached replies, {report.files} snapshot files{rebuilt}")
    if report.unowned:
        print(
            f"graphmill: cache: {report.unowned} replies of an older version belong to nobody known and were left; "
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
