"""export and import: a project's tables as files of other tools, and theirs as tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.build import AllowDeletes
from pipeline.cli.console import print_report
from pipeline.cli.options import Folder, Json, Log, Overrides, ShownToo, open_project, print_json
from pipeline.cli.progress import counting, run_progress
from pipeline.errors import counted

if TYPE_CHECKING:
    from pipeline.export.exported import Exported

Kind = Annotated[str, typer.Argument(metavar="KIND", help="graphml, csv, neo4j-admin or parquet.")]
Target = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is empty or not there yet.")]
Theirs = Annotated[Path, typer.Argument(metavar="DIR", help="The folder GraphRAG wrote its tables to.")]
Importing = Annotated[str, typer.Option("--workflow", metavar="NAME", help="One that begins with read_graphrag.")]
Force = Annotated[bool, typer.Option("--force", help="Write over an earlier export's files.")]


def export(
    context: typer.Context, kind: Kind, target: Target, name: ShownToo = None, folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False, force: Force = False,
) -> None:  # fmt: skip
    """Write the newest tables as files: GraphML, CSV, CSV for neo4j-admin, Parquet as GraphRAG has it."""
    with open_project(context, folder, overrides, as_json) as project, counting("export") as advanced:
        exported = project.export(kind, target.resolve(), name, force, advanced)
    if as_json:
        print_json({"kind": kind, "folder": str(exported.folder), "files": exported.files, "command": exported.command})
    else:
        _print_exported(exported)


def import_graphrag(
    context: typer.Context, source: Theirs, name: Importing = "graphrag", folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False, log: Log = "auto", allow_deletes: AllowDeletes = False,
) -> None:  # fmt: skip
    """Index what Microsoft GraphRAG has written: documents, text units, entities, relationships."""
    from pipeline.engine.options import RunOptions

    with open_project(context, folder, overrides, as_json) as project, run_progress(log) as progress:
        options = RunOptions(allow_deletes=allow_deletes)
        report = project.import_graphrag(source, name, progress, options).to_json()
        rejects = project.table("rejects", name) if report["totals"]["rejects"] else None
    if as_json:
        print_json(report)
    else:
        print_report(report, rejects)
        print(f"Next: graphmill load {name}")
    raise typer.Exit(report["exit_code"])


def _print_exported(exported: "Exported") -> None:
    for name, rows in exported.files.items():
        print(f"{exported.folder / name}" + (f"  {counted(rows, 'row')}" if rows else ""))
    if exported.command:
        print(f"Import it (the database must not run, or not exist yet):\n{exported.command}")
