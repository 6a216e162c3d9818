"""The command export writes the newest tables for other tools."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import Folder, Json, Overrides, ShownToo, open_project, print_json
from pipeline.cli.progress import counting
from pipeline.errors import counted

if TYPE_CHECKING:
    from pipeline.export.source import ExportReport

Kind = Annotated[str, typer.Argument(metavar="KIND", help="graphml, csv, neo4j-admin or parquet.")]
Target = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that is empty or not there yet.")
]
Force = Annotated[bool, typer.Option("--force", help="Write over an earlier export's files.")]


def export(
    context: typer.Context, kind: Kind, target: Target, name: ShownToo = None,
    folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False, force: Force = False,
) -> None:  # fmt: skip
    """Write the newest tables as files: GraphML, CSV, CSV for neo4j-admin, Parquet as GraphRAG has
    it."""
    with (
        open_project(context, folder, overrides, as_json) as project,
        counting("export") as advanced,
    ):
        exported = project.export(kind, target.resolve(), name, force, advanced)
    if as_json:
        print_json(
            {
                "kind": kind,
                "folder": str(exported.folder),
                "files": exported.files,
                "command": exported.command,
            }
        )
    else:
        _print_exported(exported)


def _print_exported(exported: "ExportReport") -> None:
    for name, rows in exported.files.items():
        number = f"  {counted(rows, 'row')}" if rows else ""
        print(f"{exported.folder / name}{number}")
    if exported.command:
        print(f"Import it (the database must not run, or not exist yet):\n{exported.command}")
