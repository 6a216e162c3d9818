"""workspace list, workspace drop: the corpora that share the databases."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.console import told
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
    from pipeline.stores.base import Live

VERSION_SHOWN = 12


def list_workspaces(
    context: typer.Context, folder: Folder = None, overrides: Overrides = None, as_json: Json = False
) -> None:
    """What each workspace of the databases shows."""
    with open_project(context, folder, overrides, as_json) as project:
        found, owner = project.workspaces(), project.known_owner
    rows = [_row(store, name, live, owner) for store, lives in found.items() for name, live in lives.items()]
    if as_json:
        print_json(rows)
    else:
        _print_workspaces(rows)


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
            print(f"{store}: {told(tables)} deleted")


def _row(store: str, name: str, live: "Live", owner: str) -> dict[str, Any]:
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


def _print_workspaces(rows: Sequence[Mapping[str, Any]]) -> None:
    """A line a workspace of a store."""
    if not rows:
        print("no workspace yet; graphmill run makes one")
        return
    print(
        f"{'store':<10} {'workspace':<24} {'workflow':<14} {'version':<{VERSION_SHOWN}} {'owner':<32}  rows; embedding"
    )
    for row in rows:
        tables = told(row["rows"]) or "unknown"
        shown = f"{row['store']:<10} {row['workspace']:<24} {row['workflow']:<14} {row['version']:<{VERSION_SHOWN}}"
        owner = f"{row['owner'] or 'nobody'}{' (this project)' if row['own'] else ''}"
        print(f"{shown} {owner:<32}  {tables}; {json.dumps(row['embedding'], ensure_ascii=False)}")
