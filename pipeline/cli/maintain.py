"""The commands gc, purge, workspace, export and import, which maintain a project and
exchange its tables with other tools."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.build import WORKFLOW, AllowDeletes, carry_out
from pipeline.cli.console import describe_counts, print_collected
from pipeline.cli.options import (
    Folder,
    Json,
    Log,
    Overrides,
    ShownToo,
    TakeOver,
    Yes,
    ask,
    confirm_take_over,
    open_project,
    print_aside,
    print_json,
)
from pipeline.cli.progress import counting
from pipeline.cli.run_pages import refuse_unwritable
from pipeline.errors import counted

if TYPE_CHECKING:
    from pipeline.engine.run_report import Progress, RunReport
    from pipeline.export.source import ExportReport
    from pipeline.project import Project
    from pipeline.purge.document import PurgeReport
    from pipeline.stores.base import Live


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


def purge(
    context: typer.Context,
    document: Annotated[
        str | None,
        typer.Option(metavar="PATH",
            help="Below the input folder, also a former one; or a record, people.csv#42."),
    ] = None,
    history: Annotated[bool, typer.Option("--history",
        help="What only earlier runs hold, of any document.")] = False,
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    yes: Yes = False,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE",
            help="A new file that says what was removed, when and whence, without any content."),
    ] = None,
) -> None:  # fmt: skip
    """Remove a document and every trace of it, with the tables of all earlier runs; or these
    tables alone."""
    if (document is not None) == history:
        raise typer.BadParameter("name --document PATH or --history, one of them")
    if certificate is not None and (document is None or certificate.exists()):
        raise typer.BadParameter("--certificate names a new file, and goes with --document")
    with open_project(context, folder, overrides, as_json) as project:
        if document is None:
            _purge_history(project, yes, as_json)
            return
        if certificate is not None:
            refuse_unwritable(certificate, "--certificate")
        if not yes:
            found = project.survey(document).lines()
            _show_and_ask(found, f"Delete {document} and all that was made of it?")
        report = project.purge(document)
        # If the certificate fails, the report is all that says what was removed.
        _print_purged(report, as_json)
        if certificate is not None:
            project.certify_purge(report, certificate)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _print_purged(report: "PurgeReport", as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
    else:
        print(*report.lines(), sep="\n")
    for place, why in report.unreached.items():
        print_aside(f"purge: {place} may hold {report.document} still: {why}")
    print_aside(*report.notes)
    _tell_unowned(report.unowned)


def _purge_history(project: "Project", yes: bool, as_json: bool) -> None:
    if not yes:
        found = project.purge_history(dry_run=True).lines()
        _show_and_ask(found, "Delete that? Documents, tables and stores stay as they are.")
    report = project.purge_history(dry_run=False)
    if as_json:
        print_json(report.to_json())
    else:
        *runs, total = report.lines()
        print(*runs, f"deleted: {total}", sep="\n")
    _tell_unowned(report.unowned)


def _show_and_ask(lines: Sequence[str], question: str) -> None:
    """Print the lines on stderr, then ask the question as ``ask`` does."""
    print(*lines, sep="\n", file=sys.stderr)
    ask(question)


def _tell_unowned(replies: int) -> None:
    if replies:
        print_aside(
            f"cache: {counted(replies, 'reply', 'replies')} of an older version, of nobody known,"
            " left; delete those where owner is '' once no other project needs them"
        )


VERSION_SHOWN = 12


def list_workspaces(
    context: typer.Context,
    folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """List the workspaces of the databases, and what each shows."""
    with open_project(context, folder, overrides, as_json) as project:
        found, owner = project.workspaces(), project.known_owner
        none = "" if any(found.values()) else _advise_without_workspaces(project)
    rows = [
        _workspace_row(store, name, live, owner)
        for store, lives in found.items()
        for name, live in lives.items()
    ]
    if as_json:
        print_json(rows)
    else:
        _print_workspaces(rows, none)


def drop_workspace(
    context: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME")],
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    take_over: TakeOver = None, yes: Yes = False,
) -> None:  # fmt: skip
    """Delete a workspace from the databases; snapshots and cached replies stay."""
    with open_project(context, folder, overrides, as_json) as project:
        project.reach_workspace(name, take_over or ())
        confirm_take_over(project, take_over or (), yes, name)
        if not yes:
            ask(f"Delete workspace {name} from the databases?")
        counts = project.drop_workspace(name, take_over or ())
    if as_json:
        print_json(counts)
    else:
        for store, tables in counts.items():
            print(f"{store}: {describe_counts(tables)} deleted")


def _workspace_row(store: str, name: str, live: "Live", owner: str) -> dict[str, Any]:
    return {
        "store": store,
        "workspace": name,
        "owner": live.owner,
        "own": bool(owner) and live.owner == owner,
        "place": live.place,
        "workflow": live.workflow,
        "version": live.version[:VERSION_SHOWN],
        "rows": {table: state.rows for table, state in sorted(live.tables.items())},
        "embedding": dict(live.embedding),
        "dimensions": live.dimensions,
        "schema_version": live.schema_version,
    }


def _advise_without_workspaces(project: "Project") -> str:
    """Return what to do where the databases have no workspace.

    A project that has tables, as after ``workspace drop``, need not read its documents again.
    """
    with_tables = project.snapshots.workflows()
    if not with_tables:
        return "no workspace yet; 'graphmill run' makes one"
    chosen = project.settings.workflow
    load = "graphmill load" if chosen in with_tables else f"graphmill load {with_tables[0]}"
    return (
        f"no workspace; '{load}' makes one of the tables that are there, 'graphmill run' reads the"
        " documents before"
    )


def _print_workspaces(rows: Sequence[Mapping[str, Any]], none: str) -> None:
    """Print a line for each workspace of each store, or ``none`` where there is no workspace."""
    if not rows:
        print(none)
        return
    print(
        f"{'store':<10} {'workspace':<24} {'workflow':<14} {'version':<{VERSION_SHOWN}}"
        f" {'owner':<32}  rows; embedding"
    )
    for row in rows:
        tables = describe_counts(row["rows"]) or "unknown"
        shown = (
            f"{row['store']:<10} {row['workspace']:<24} {row['workflow']:<14}"
            f" {row['version']:<{VERSION_SHOWN}}"
        )
        owner = row["owner"] or "nobody"
        if row["own"]:
            owner += " (this project)"
        embedding = json.dumps(row["embedding"], ensure_ascii=False)
        print(f"{shown} {owner:<32}  {tables}; {embedding}")


Kind = Annotated[str, typer.Argument(metavar="KIND", help="graphml, csv, neo4j-admin or parquet.")]
Target = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that is empty or not there yet.")
]
Theirs = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder GraphRAG wrote its tables to.")
]
Importing = Annotated[
    str,
    typer.Option(
        "--workflow",
        metavar="NAME",
        help="By default graphrag_cache if the index has its replies, otherwise graphrag.",
    ),
]
LightragIndex = Annotated[
    str,
    typer.Argument(
        metavar="DIR|URL",
        help="The working folder of LightRAG 1.5.7, or the address of its PostgreSQL.",
    ),
]
OfWorkspace = Annotated[
    str, typer.Option("--of-workspace", metavar="NAME", help="Of LightRAG, if the URL has several.")
]
ImportingLightrag = Annotated[
    str, typer.Option("--workflow", metavar="NAME", help="One that begins with read_lightrag.")
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


def import_graphrag(
    context: typer.Context, source: Theirs, name: Importing = "", folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False, log: Log = "auto",
    allow_deletes: AllowDeletes = False,
) -> None:  # fmt: skip
    """Index what Microsoft GraphRAG has written: documents, the graph, communities, reports and
    claims."""
    from pipeline.engine.run_options import RunOptions

    options = RunOptions(allow_deletes=allow_deletes)

    def import_tables(project: "Project", progress: "Progress") -> "RunReport":
        return project.import_graphrag(source, name, progress, options)

    then = (
        f"Next: graphmill rejects {WORKFLOW}, which lists all that was not taken,"
        f" and graphmill load {WORKFLOW}\n"
    )
    carry_out(import_tables, context, folder, overrides, as_json, log, then=then)


def import_lightrag(
    context: typer.Context, source: LightragIndex, name: ImportingLightrag = "lightrag",
    folder: Folder = None, of_workspace: OfWorkspace = "",
    overrides: Overrides = None, as_json: Json = False, log: Log = "auto",
    allow_deletes: AllowDeletes = False,
) -> None:  # fmt: skip
    """Index what LightRAG has paid for: documents, passages, and the replies about each of them."""
    from pipeline.engine.run_options import RunOptions

    options = RunOptions(allow_deletes=allow_deletes)

    def import_replies(project: "Project", progress: "Progress") -> "RunReport":
        return project.import_lightrag(source, name, progress, options, of_workspace)

    then = (
        "Vectors of LightRAG are not taken: the steps embed_* make them anew.\n"
        f"Next: graphmill rejects {name}, which lists all that was not taken,"
        f" and graphmill load {name}\n"
    )
    carry_out(import_replies, context, folder, overrides, as_json, log, then=then)


def _print_exported(exported: "ExportReport") -> None:
    for name, rows in exported.files.items():
        number = f"  {counted(rows, 'row')}" if rows else ""
        print(f"{exported.folder / name}{number}")
    if exported.command:
        print(f"Import it (the database must not run, or not exist yet):\n{exported.command}")
