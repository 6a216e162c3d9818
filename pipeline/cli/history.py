"""The commands status, runs and documents."""

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
    find_root,
    open_project,
    print_json,
    report_errors,
)
from pipeline.engine.run_report import StepReport
from pipeline.errors import counted
from pipeline.files import settings_file
from pipeline.pages.words import moment, span
from pipeline.runs.reports import RunEntry, Runs, UnfinishedRun, began

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.runs.run_details import RunDetails

NO_RUN = "no run yet; 'graphmill run' makes one"
NOT_BEGUN = "did not begin"
"""The outcome of a run that failed before its first step, for people."""
Part = Annotated[
    str | None,
    typer.Argument(metavar="PART", help="Only those with this in their source or title."),
]


def status(context: typer.Context, folder: Folder = None, as_json: Json = False) -> None:
    """Show the last run that began, one that was refused since, and what is running now."""
    root = find_root(context, folder)
    with report_errors(root, as_json):
        settings_file(root)
        runs = Runs.of(root)
        report, going, holder = runs.status(), runs.under_way(), runs.holder()
        last, refused = runs.last_and_refused()
        # A load alone says nothing about the steps, so the last run with steps is shown as well.
        before = None
        if report is not None and not report["steps"]:
            before = next((earlier for earlier in runs.reports() if earlier["steps"]), None)
        # A killed run counts as continued once a later run has done steps.
        done = before or report
        since = done["run_id"] if done and done["steps"] else ""
        killed = [begun for begun in runs.unreported() if begun != going and begun.run_id > since]
        # Reports that are newer than the last readable one cannot be read.
        last_id = max((one["run_id"] for one in (last, refused) if one), default="")
        damaged = [run_id for run_id in runs.reported_ids() if run_id > last_id]
    if as_json:
        beside = {"under_way": _facts(going), "cut_off": _facts(killed[0] if killed else None)}
        none = "no run yet" if not damaged else "no report of a run can be read"
        nothing = {"outcome": None, "message": none, "refused": None}
        print_json({**(report or nothing), **beside})
        return
    if going:
        title = _run_title(going.run_id, going.workflow)
        print(f"{title}: under way for {_ago(going)}, process {going.process}")
        print(f"    {_how_far(going)}, noted {span(time.time() - going.noted)} ago")
    elif holder:
        print(f"another command holds the project: process {holder}")
    for begun in killed:
        title = _run_title(begun.run_id, begun.workflow)
        print(f"{title}: killed, or the machine went down; began {_ago(begun)} ago")
        print(f"    {_how_far(begun)}; run it again: it goes on from there")
    for run_id in reversed(damaged):
        began_at = moment(began(run_id))
        print(
            f"{_run_title(run_id, '')}: began {began_at}; its report is damaged: how it ended is"
            " not known"
        )
    for one in (refused, last):
        if one:
            _print_run(one)
    if before:
        _print_run(before)
    if not (report or going or killed or damaged):
        print(NO_RUN)


def runs(
    context: typer.Context,
    folder: Folder = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """List all runs, the newest first."""
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
    """List the documents: since when each is in, what it gave, and what was left out of it."""
    if changed and left_out:
        raise typer.BadParameter("not with --changed", param_hint="--left-out")
    with open_project(context, folder, overrides, as_json) as project:
        found = project.changed_documents(name) if changed else project.list_documents(name)
    if part is not None:
        in_source = found["source"].str.contains(part, case=False, regex=False)
        in_title = found["title"].str.contains(part, case=False, regex=False)
        found = found[in_source | in_title]
    if left_out:
        found = found[found["left_out"].str.len() > 0]
    if as_json:
        print_json(found.to_dict("records"))
    elif found.empty and part is not None:
        condition = ", of which something was left out" if left_out else ""
        print(f"no document with '{part}' in its source or title{condition}")
    elif found.empty and left_out:
        print("nothing was left out of any document")
    elif changed:
        _print_changes(found)
    else:
        _print_documents(found)


def _print_run(report: Mapping[str, Any]) -> None:
    """Print when a run was, a line for each step and store, and the sums."""
    entry = RunEntry.of(report)
    took = f", took {span(entry.seconds)}" if entry.seconds is not None else ""
    ended = f", ended {span(_since(entry.ended))} ago" if entry.ended else ""
    title = _run_title(entry.run_id, entry.workflow)
    if entry.did_not_begin:
        print(f"{title}: tried {moment(entry.began)}; {NOT_BEGUN}: {entry.message}")
        return
    print(f"{title}: began {moment(entry.began)}{took}{ended}")
    # A report of another version may have further fields.
    known = {field.name for field in fields(StepReport)}
    for step in report["steps"]:
        values = {name: value for name, value in step.items() if name in known}
        print(describe(StepReport(**values)))
    if report["load"]:
        print(describe_load(report["load"], report.get("load_seconds", 0.0)))
    print_report(dict(report))


def print_run_details(details: "RunDetails") -> None:
    """Print any run in the form in which ``status`` shows the last one."""
    if details.report is not None:
        _print_run(details.report)
        return
    entry = details.entry
    how_far = f"; {_how_far(details.going)}" if details.going else ""
    outcome = entry.outcome.replace("_", " ")
    title = _run_title(entry.run_id, entry.workflow)
    print(f"{title}: began {moment(entry.began)}; {outcome}{how_far}")


def _print_entries(entries: Sequence[RunEntry]) -> None:
    """Print a line for each run."""
    if not entries:
        print(NO_RUN)
        return
    print(
        f"{'run':<29} {'began (UTC)':<16} {'workflow':<14} {'outcome':<22} {'took':>8} {'calls':>7}"
        f" {'cost':>10} {'rejects':>7} {'decided':>7}  tables"
    )
    for entry in entries:
        took = "" if entry.seconds is None or entry.did_not_begin else span(entry.seconds)
        cost = "no price" if entry.cost is None else f"{entry.cost:.4f}"
        outcome = NOT_BEGUN if entry.did_not_begin else entry.outcome.replace("_", " ")
        if entry.manifest == entry.run_id:
            tables = "new"
        else:
            tables = f"of {entry.manifest}" if entry.manifest else "-"
        print(
            f"{entry.run_id:<29} {moment(entry.began)[:16]:<16} {entry.workflow or 'unknown':<14}"
            f" {outcome:<22} {took:>8} {entry.calls:>7,} {cost:>10} {entry.rejects:>7,}"
            f" {entry.decided:>7,}  {tables}"
        )


def _print_documents(found: "pd.DataFrame") -> None:
    """Print a line for each document, below it what was left out of it, and the sums."""
    print(
        f"{'since':<16} {'units':>7} {'entities':>8} {'relations':>9} {'left out':>8}  source "
        " title"
    )
    for row in found.to_dict("records"):
        since = "-"
        if row["since"]:
            # The day and the minute, without seconds and time zone.
            since = moment(began(row["since"]))[:16]
        counts = (
            f"{row['text_units']:>7,} {row['entities']:>8,} {row['relationships']:>9,}"
            f" {len(row['left_out']):>8,}"
        )
        print(f"{since:<16} {counts}  {row['source']}  {row['title']}".rstrip())
        for reject in row["left_out"]:
            print(f"{'':<18}{reject['step']}: {reject['reason']}: {reject['message']}")
    # Sources without a document have no id.
    documents = found[found["id"] != ""]
    units = counted(int(documents["text_units"].sum()), "text unit")
    has_rejects = found["left_out"].str.len() > 0
    number = int(has_rejects.sum())
    left_out = f"something was left out of {number:,}" if number else "nothing was left out"
    print(f"{counted(len(documents), 'document')}, {units}; {left_out}")


def _print_changes(found: "pd.DataFrame") -> None:
    """Print a line for each changed document, and below them the numbers of each change."""
    for change, source, title in found[["change", "source", "title"]].itertuples(index=False):
        print(f"{change:<7} {source}  {title}".rstrip())
    number_of = found["change"].value_counts()
    counts = [f"{number_of.get(change, 0):,} {change}" for change in ("new", "edited", "gone")]
    print(", ".join(counts))


def _facts(begun: UnfinishedRun | None) -> dict[str, Any] | None:
    return {**asdict(begun), "began": begun.start} if begun else None


def _run_title(run_id: str, workflow: str) -> str:
    return f"run {run_id}, workflow {workflow or 'unknown'}"


def _how_far(begun: UnfinishedRun) -> str:
    """Return the step that a run is at, such as "at merge (step 3 of 9): 5 of 20"."""
    if not begun.step:
        return "before its first step"
    position = f" (step {begun.position} of {begun.steps})" if begun.steps else ""
    done = f": {begun.done:,} of {begun.expected:,}" if begun.expected else ""
    return f"at {begun.step}{position}{done}"


def _ago(begun: UnfinishedRun) -> str:
    return span(_since(begun.start))


def _since(iso: str) -> float:
    """Return the seconds since a time in ISO 8601; 0 for an empty text."""
    return (datetime.now(UTC) - datetime.fromisoformat(iso)).total_seconds() if iso else 0.0
