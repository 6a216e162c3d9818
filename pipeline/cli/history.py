"""status, runs, documents: the last run, all of them, and what is in."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.console import describe, describe_load, print_report
from pipeline.cli.options import (
    Folder,
    Json,
    Overrides,
    ShownToo,
    errors_told,
    open_project,
    print_json,
    root_of,
)
from pipeline.engine.run_report import StepReport
from pipeline.errors import counted
from pipeline.files import settings_file
from pipeline.pages.words import moment, span
from pipeline.runs.reports import RunEntry, Runs, UnfinishedRun, began

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.runs.nights import Night

NO_RUN = "no run yet; graphmill run makes one"
Part = Annotated[
    str | None,
    typer.Argument(metavar="PART", help="Only those with this in their source or title."),
]


def status(context: typer.Context, folder: Folder = None, as_json: Json = False) -> None:
    """The last run, when it was, and what goes on now."""
    root = root_of(context, folder)
    with errors_told(root, as_json):
        settings_file(root)
        runs = Runs.of(root)
        report, going, holder = runs.last(), runs.under_way(), runs.holder()
        before = None if report is None or report["steps"] else _last_with_steps(runs)
        done = (
            before or report
        )  # a run that was refused at once has not gone on with one that was killed
        since = done["run_id"] if done and done["steps"] else ""
        cut_off = [begun for begun in runs.unreported() if begun != going and begun.run_id > since]
        damaged = [
            run_id for run_id in runs.all_ids() if run_id > (report["run_id"] if report else "")
        ]
    if as_json:
        beside = {"under_way": _facts(going), "cut_off": _facts(cut_off[0] if cut_off else None)}
        none = "no run yet" if not damaged else "no report of a run can be read"
        print_json({**(report or {"outcome": None, "message": none}), **beside})
        return
    if going:
        print(
            f"{_named(going.run_id, going.workflow)}: under way for {_ago(going)}, process"
            f" {going.process}"
        )
        print(f"    {_how_far(going)}, noted {span(time.time() - going.noted)} ago")
    elif holder:
        print(f"another command holds the project: process {holder}")
    for begun in cut_off:
        print(
            f"{_named(begun.run_id, begun.workflow)}: killed, or the machine went down; began"
            f" {_ago(begun)} ago"
        )
        print(f"    {_how_far(begun)}; run it again: it goes on from there")
    for run_id in reversed(damaged):
        print(
            f"{_named(run_id, '')}: began {moment(began(run_id))}; its report is damaged: how it"
            " ended is not known"
        )
    for shown in filter(None, (report, before)):
        _print_run(shown)
    if not (report or going or cut_off or damaged):
        print(NO_RUN)


def runs(
    context: typer.Context,
    folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """All runs, the newest first."""
    with open_project(context, folder, overrides, as_json) as project:
        entries = project.list_runs()
    if as_json:
        print_json([{**asdict(entry), "seconds": entry.seconds} for entry in entries])
    else:
        _print_entries(entries)


def documents(
    context: typer.Context, part: Part = None, name: ShownToo = None, folder: Folder = None,
    overrides: Overrides = None, as_json: Json = False,
    changed: Annotated[bool, typer.Option("--changed",
        help="What the next run would find new, edited, gone.")] = False,
    left_out: Annotated[bool, typer.Option("--left-out",
        help="Only those of which something was left out.")] = False,
) -> None:  # fmt: skip
    """What is in, since when, what each gave, and what was left out of it."""
    if changed and left_out:
        raise typer.BadParameter("not with --changed", param_hint="--left-out")
    with open_project(context, folder, overrides, as_json) as project:
        found = project.changed_documents(name) if changed else project.list_documents(name)
    if part is not None:
        within = found["source"].str.contains(part, case=False, regex=False)
        found = found[within | found["title"].str.contains(part, case=False, regex=False)]
    if left_out:
        found = found[found["left_out"].str.len() > 0]
    if as_json:
        print_json(found.to_dict("records"))
    elif found.empty and part is not None:
        print(
            f"no document with '{part}' in its source or"
            f" title{', of which something was left out' * left_out}"
        )
    elif found.empty and left_out:
        print("nothing was left out of any document")
    elif changed:
        _print_changes(found)
    else:
        _print_documents(found)


def _last_with_steps(runs: Runs) -> Mapping[str, Any] | None:
    """A run that failed before its first step says nothing of what is there."""
    return next((report for report in runs.reports() if report["steps"]), None)


def _print_run(report: Mapping[str, Any]) -> None:
    """When it was, a line a step and a store, and the sums."""
    entry = RunEntry.of(report)
    took = f", took {span(entry.seconds)}" if entry.seconds is not None else ""
    ended = f", ended {span(_since(entry.ended))} ago" if entry.ended else ""
    print(f"{_named(entry.run_id, entry.workflow)}: began {moment(entry.began)}{took}{ended}")
    known = {field.name for field in fields(StepReport)}
    for step in report["steps"]:
        print(
            describe(StepReport(**{name: value for name, value in step.items() if name in known}))
        )
    if report["load"]:
        print(describe_load(report["load"], report.get("load_seconds", 0.0)))
    print_report(dict(report))


def print_night(night: "Night") -> None:
    """As ``status`` tells of the last run, of any."""
    if night.report is not None:
        _print_run(night.report)
    else:
        began_at = moment(night.entry.began)
        how_far = f"; {_how_far(night.going)}" if night.going else ""
        outcome = night.entry.outcome.replace("_", " ")
        print(
            f"{_named(night.entry.run_id, night.entry.workflow)}: began {began_at};"
            f" {outcome}{how_far}"
        )


def _print_entries(entries: Sequence[RunEntry]) -> None:
    """A line a run."""
    if not entries:
        print(NO_RUN)
        return
    print(
        f"{'run':<29} {'began (UTC)':<16} {'workflow':<14} {'outcome':<22} {'took':>8} {'calls':>7}"
        f" {'cost':>10} {'rejects':>7} {'decided':>7}  tables"
    )
    for entry in entries:
        took = "" if entry.seconds is None else span(entry.seconds)
        cost = "no price" if entry.cost is None else f"{entry.cost:.4f}"
        outcome = entry.outcome.replace("_", " ")
        tables = (
            "new"
            if entry.manifest == entry.run_id
            else f"of {entry.manifest}"
            if entry.manifest
            else "-"
        )
        print(
            f"{entry.run_id:<29} {moment(entry.began)[:16]:<16} {entry.workflow or 'unknown':<14}"
            f" {outcome:<22} {took:>8} {entry.calls:>7,} {cost:>10} {entry.rejects:>7,}"
            f" {entry.decided:>7,}  {tables}"
        )


def _print_documents(found: "pd.DataFrame") -> None:
    """A line a document, under it what was left out of it, and the sums."""
    print(
        f"{'since':<16} {'units':>7} {'entities':>8} {'relations':>9} {'left out':>8}  source "
        " title"
    )
    for row in found.to_dict("records"):
        since = moment(began(row["since"]))[:16] if row["since"] else "-"
        print(
            f"{since:<16} {row['text_units']:>7,} {row['entities']:>8,} {row['relationships']:>9,} "
            f"{len(row['left_out']):>8,}  {row['source']}  {row['title']}".rstrip()
        )
        for reject in row["left_out"]:
            print(f"{'':<18}{reject['step']}: {reject['reason']}: {reject['message']}")
    there = found[found["id"] != ""]
    units = counted(int(there["text_units"].sum()), "text unit")
    left_out = (found["left_out"].str.len() > 0).sum()
    print(f"{counted(len(there), 'document')}, {units}; something was left out of {left_out:,}")


def _print_changes(found: "pd.DataFrame") -> None:
    for change, source, title in found[["change", "source", "title"]].itertuples(index=False):
        print(f"{change:<7} {source}  {title}".rstrip())
    counts = found["change"].value_counts()
    print(", ".join(f"{counts.get(change, 0):,} {change}" for change in ("new", "edited", "gone")))


def _facts(begun: UnfinishedRun | None) -> dict[str, Any] | None:
    return {**asdict(begun), "began": begun.start} if begun else None


def _named(run_id: str, workflow: str) -> str:
    return f"run {run_id}, workflow {workflow or 'unknown'}"


def _how_far(begun: UnfinishedRun) -> str:
    if not begun.step:
        return "before its first step"
    position = f" (step {begun.position} of {begun.steps})" if begun.steps else ""
    done = f": {begun.done:,} of {begun.expected:,}" if begun.expected else ""
    return f"at {begun.step}{position}{done}"


def _ago(begun: UnfinishedRun) -> str:
    return span(_since(begun.start))


def _since(iso: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(iso)).total_seconds() if iso else 0.0
