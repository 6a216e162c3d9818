"""The commands backup and restore."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import (
    Folder,
    Json,
    Overrides,
    find_root,
    open_project,
    print_aside,
    print_json,
    report_errors,
)
from pipeline.cli.progress import counting

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="A new file; a zip.")]
ReadFile = Annotated[Path, typer.Argument(metavar="FILE", help="A file of 'graphmill backup'.")]
NewFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A folder that is empty or not there.")
]
BROKEN_OFF = "stopped; nothing was written: run the same command again"


def backup(
    context: typer.Context, file: BackupFile, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    with_keys: Annotated[bool, typer.Option("--with-keys",
        help="Also .env, secrets in settings.yaml, and the keys of sessions and hashes.")] = False,
) -> None:  # fmt: skip
    """Write the project into one file, also during a run; without keys, and without the
    databases."""
    with (
        open_project(context, folder, overrides, as_json, BROKEN_OFF) as project,
        counting("backup") as advanced,
    ):
        report = project.backup(file, with_keys, advanced)
    if as_json:
        print_json(report.to_json())
    else:
        print(*report.lines(), sep="\n")
    print_aside(*report.notes())


def restore(
    context: typer.Context, file: ReadFile, target: NewFolder, overrides: Overrides = None,
    as_json: Json = False,
    workspace: Annotated[str | None, typer.Option(metavar="NAME",
        help="Make it a copy with a workspace and an owner of its own.")] = None,
    purged: Annotated[Path | None, typer.Option(metavar="PATH",
        help="The present project's folder, or a copy of its data/purged.json.")] = None,
) -> None:  # fmt: skip
    """Write the project of a backup into a folder, and load its stores again; no model is
    asked."""
    with report_errors(find_root(context, None), as_json, BROKEN_OFF):
        from pipeline.project import Project

        with counting("restore") as advanced:
            report = Project.restore(
                file, target, workspace, purged, tuple(overrides or ()), advanced
            )
    if as_json:
        print_json(report.to_json())
    else:
        print(*report.lines(), sep="\n")
    print_aside(*report.notes, *report.problems)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
