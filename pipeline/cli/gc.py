"""The command gc deletes the tables that only older runs need."""

from typing import Annotated

import typer

from pipeline.cli.console import print_collected
from pipeline.cli.options import Folder, Json, Overrides, open_project, print_json
from pipeline.cli.progress import counting


def gc(
    context: typer.Context,
    keep: Annotated[int, typer.Option(metavar="N", help="Runs of each workflow to keep.")],
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    delete: Annotated[bool, typer.Option("--delete",
        help="Delete; without it, only say what would go.")] = False,
) -> None:  # fmt: skip
    """Delete the tables (snapshots) that only older runs need."""
    with open_project(context, folder, overrides, as_json) as project, counting("gc") as advanced:
        report = project.gc(keep, dry_run=not delete, advanced=advanced)
    if as_json:
        print_json(report.to_json())
    else:
        print_collected(report)
