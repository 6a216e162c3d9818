"""The commands import triples and import cypher: a table of facts becomes part of the project."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.build import show_plan
from pipeline.cli.options import (
    Folder,
    Json,
    Name,
    Overrides,
    open_project,
    print_aside,
    print_json,
)
from pipeline.errors import UsageError, counted

if TYPE_CHECKING:
    from pipeline.documents.own_tables.imported import TableImport
    from pipeline.project import Project


Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="FIELD=COLUMN",
        help="The column that holds a field, if it has another name, as source=Company."),
]  # fmt: skip
Values = Annotated[
    list[str] | None,
    typer.Option("--value", metavar="FIELD=TEXT",
        help="A value for all rows, as type=SUPPLIES."),
]  # fmt: skip
MasterData = Annotated[
    bool,
    typer.Option("--entities",
        help="The table is master data: each row is an entity with id, name and aliases."),
]  # fmt: skip
OnlyPlan = Annotated[
    bool,
    typer.Option("--plan", help="Only say what the next run would do and cost then."),
]


def import_triples(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="FILE",
        help="A table: .csv, .tsv, .json, .jsonl, .parquet or .graphml.")],
    name: Name = None, folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    column: Columns = None, value: Values = None, entities: MasterData = False,
    only_plan: OnlyPlan = False,
) -> None:  # fmt: skip
    """Put a table of facts into the project's folder tables; the next run reads it, without a model
    for its rows."""
    columns, values = _read_pairs("--column", column), _read_pairs("--value", value)
    with open_project(context, folder, overrides, as_json) as project:
        _import_table(project, source, columns, values, entities, name, only_plan, as_json)


def import_cypher(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL",
        help="The address of a Neo4j: bolt://host:7687 or neo4j://host:7687.")],
    query: Annotated[str, typer.Argument(metavar="QUERY",
        help="A query in Cypher that reads and returns source, type and target, or name.")],
    name: Name = None, folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    table: Annotated[str, typer.Option("--table", metavar="NAME",
        help="The name of the table; by default one that the same query always has.")] = "",
    column: Columns = None, value: Values = None, entities: MasterData = False,
    only_plan: OnlyPlan = False,
) -> None:  # fmt: skip
    """Put the rows of a query in a Neo4j into the project's folder tables, as import triples does.
    The same command refreshes them."""
    columns, values = _read_pairs("--column", column), _read_pairs("--value", value)
    with (
        open_project(context, folder, overrides, as_json) as project,
        project.queried_table(url, query, table, columns) as path,
    ):
        _import_table(project, path, columns, values, entities, name, only_plan, as_json)


def _import_table(
    project: "Project",
    source: Path,
    columns: Mapping[str, str],
    values: Mapping[str, str],
    is_master_data: bool,
    workflow: str | None,
    only_plan: bool,
    as_json: bool,
) -> None:
    """Put a table into the project and print what its rows are, or only print the plan."""
    if only_plan:
        from pipeline.engine.run_options import Selection

        with project.with_table(source, columns, values, is_master_data) as (imported, changed):
            _print_import(imported, as_json)
            show_plan(changed, workflow, changed.forecast(workflow), Selection(), as_json)
        return
    imported = project.import_triples(source, columns, values, is_master_data)
    if as_json:
        print_json(
            {
                "table": f"tables/{imported.name}",
                "relationships": imported.relationships,
                "entities": imported.entities,
                "rejects": dict(imported.faults),
                "messages": imported.messages,
            }
        )
        return
    _print_import(imported, as_json)
    print_aside(f"tables/{imported.name}: written; next: graphmill run")


def _print_import(imported: "TableImport", as_json: bool) -> None:
    """Print what the rows of a table are; beside a plan in JSON, as messages."""
    tell = print_aside if as_json else print
    parts = [counted(imported.relationships, "relationship")]
    if imported.entities:
        parts.append(counted(imported.entities, "entity", "entities"))
    line = f"tables/{imported.name}: {', '.join(parts)}"
    if imported.faults:
        reasons = ", ".join(f"{count} {reason}" for reason, count in imported.faults.most_common())
        line += f"; not used: {reasons}"
    tell(line)
    for message in imported.messages:
        tell(message)


def _read_pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Return the fields of an option with their columns or values."""
    pairs: dict[str, str] = {}
    for entry in given or []:
        field, sign, text = entry.partition("=")
        if not sign or not field.strip() or not text.strip():
            raise UsageError(f"{option} {entry}: no FIELD=TEXT; write one such as source=Company")
        pairs[field.strip()] = text.strip()
    return pairs
