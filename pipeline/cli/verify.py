"""verify: do the stores hold what the snapshots say?"""

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import Folder, Json, Overrides, Shown, open_project, print_json
from pipeline.cli.progress import counting
from pipeline.errors import FAILED, counted

if TYPE_CHECKING:
    from pipeline.load.naming import Named
    from pipeline.load.verify import Verification


def verify(
    context: typer.Context, name: Shown = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Compare the hashes beside the rows, not the rows.")] = False,
) -> None:  # fmt: skip
    """Compare the stores with the snapshots, row by row; exit code 1 where they differ."""
    with open_project(context, folder, overrides, as_json) as project, counting("verify") as advanced:
        found = project.verify(name, quick, advanced)
    if as_json:
        print_json(found.to_json())
    else:
        _print_verification(found)
    raise typer.Exit(0 if found.agrees else FAILED)


def _print_verification(found: "Verification") -> None:
    """A line a table, and under it the rows that differ."""
    print(f"{'store':<10} {'table':<14} {'snapshots':>10} {'store':>10}  differences")
    for check in found.tables:
        kinds = ", ".join(f"{difference.rows:,} {difference.kind}" for difference in check.differences)
        print(f"{check.store:<10} {check.table:<14} {check.expected:>10,} {check.stored:>10,}  {kinds or 'none'}")
        for difference in check.differences:
            _print_rows(difference.kind, difference.rows, difference.examples)
    for dangling in found.dangling:
        column = f"{dangling.where}: {dangling.table}.{dangling.column}"
        print(f"{column}: {counted(dangling.count, 'id')} without a row of {dangling.target}")
        _print_rows("in", dangling.count, dangling.examples)
    for problem in found.problems:
        print(problem)
    if found.agrees:
        print(f"{found.workflow}: all agree")
    else:
        print(f"{found.workflow}: {_action(found)}")


def _print_rows(what: str, rows: int, examples: "tuple[Named, ...]") -> None:
    for row in examples:
        print(f"    {what:<10} {row.name}  {row.id}")
    if rows > len(examples):
        print(f"    ... and {rows - len(examples):,} more")


def _action(found: "Verification") -> str:
    if found.repair:
        return f"repair with: {found.repair}"
    return f"the snapshots disagree; write them anew: graphmill run {found.workflow} --force merge_graphs"
