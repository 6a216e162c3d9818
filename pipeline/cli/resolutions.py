"""The commands resolutions list, pin and undo: which names are one entity, and what a person
decides about that."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipeline.cli.options import Folder, Json, Overrides, Shown, ShownToo, open_project, print_json

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.runs.resolutions import PinReport

A = Annotated[str, typer.Argument(metavar="A", help="A name, as 'resolutions list' shows it.")]
B = Annotated[str, typer.Argument(metavar="B")]
Decision = Literal["same", "different"]


def list_resolutions(
    context: typer.Context, name: Shown = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    decision: Annotated[Literal["merge", "keep"] | None, typer.Option(help="Only these.")] = None,
) -> None:  # fmt: skip
    """List the pairs of names that the last run decided about."""
    with open_project(context, folder, overrides, as_json) as project:
        found = project.resolutions(name)
    chosen = found[found["decision"] == decision] if decision else found
    if as_json:
        print_json(chosen.to_dict("records"))
    else:
        _print_resolutions(chosen)


def pin(
    context: typer.Context, decision: Annotated[Decision, typer.Argument(metavar="same|different")],
    a: A, b: B,
    folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    workflow: ShownToo = None,
) -> None:  # fmt: skip
    """Take two names for one, or for two, from the next run on."""
    with open_project(context, folder, overrides, as_json) as project:
        pinned = project.pin(decision, a, b, workflow)
    _print_pin(pinned, a, b, as_json)


def undo(
    context: typer.Context, a: A, b: B, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    workflow: ShownToo = None,
) -> None:  # fmt: skip
    """Take back a pin; where there is none, part what was merged."""
    with open_project(context, folder, overrides, as_json) as project:
        pinned = project.undo_resolution(a, b, workflow)
    _print_pin(pinned, a, b, as_json)


def _print_pin(pinned: "PinReport", a: str, b: str, as_json: bool) -> None:
    if as_json:
        print_json({**asdict(pinned), "file": str(pinned.file)})
        return
    print(f"{pinned.done}: {a} | {b}  ({pinned.file}); the next run obeys")
    for name in pinned.unknown:
        print(f"note: the last run had no entity called {name}")


def _print_resolutions(resolutions: "pd.DataFrame") -> None:
    """Print a line for each pair of names, merges first, and how many of each there are."""
    ordered = resolutions.sort_values(["decision", "left", "right"], ascending=[False, True, True])
    print(f"{'decision':<9} {'by':<8} {'rule':<16} {'score':>5}  names")
    for row in ordered.itertuples(index=False):
        print(
            f"{row.decision:<9} {row.by:<8} {row.rule:<16} {row.score:>5.2f}  {row.left} |"
            f" {row.right}"
        )
    counts = resolutions["decision"].value_counts()
    print(f"{counts.get('merge', 0):,} merged, {counts.get('keep', 0):,} kept apart")
