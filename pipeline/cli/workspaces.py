"""The commands `workspace list` and `workspace drop`."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.console import describe_counts
from pipeline.cli.options import (
    Folder,
    Json,
    Overrides,
    TakeOver,
    Yes,
    ask,
    confirm_take_over,
    open_project,
    print_json,
)

if TYPE_CHECKING:
    from pipeline.project import Project
    from pipeline.stores.base import Live

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
