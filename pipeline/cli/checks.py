"""The commands rejects, usage, doctor, verify and check-laws, which show what was left out, what it
cost, and whether everything is in order."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.console import print_findings, print_rejects, print_usage
from pipeline.cli.options import (
    Folder,
    Json,
    Overrides,
    Shown,
    open_project,
    print_aside,
    print_json,
)
from pipeline.cli.progress import counting
from pipeline.contract.reasons import REASONS
from pipeline.errors import FAILED, counted

if TYPE_CHECKING:
    from pipeline.doctor.chat_model import LongCall
    from pipeline.verify.references import NamedRow
    from pipeline.verify.verify import Verification


def rejects(
    context: typer.Context, name: Shown = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    reason: Annotated[str | None,
        typer.Option(help=f"Only those with this reason: {', '.join(REASONS)}.")] = None,
) -> None:  # fmt: skip
    """List the rows that the last run lost, left out by a rule, or answered by halves or by repair,
    and why."""
    with open_project(context, folder, overrides, as_json) as project:
        workflow = name or project.shown_workflow()
        found = project.rejects(workflow)
    given = {*REASONS, *found["reason"]}
    if reason and reason not in given:
        from pipeline.settings.validation import did_you_mean

        raise typer.BadParameter(f"{reason}; {did_you_mean(reason, given)}", param_hint="--reason")
    chosen = found[found["reason"] == reason] if reason else found
    if as_json:
        print_json(chosen.to_dict("records"))
    else:
        print_rejects(chosen, workflow)


def usage(
    context: typer.Context, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    by: Annotated[
        str,
        typer.Option(help="run, step, document, model, outcome, day; question, key, mode, workspace.")  # noqa: E501
    ] = "run",
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN",
            help="Of this run only; questions: of those alone.")
    ] = None,
) -> None:  # fmt: skip
    """Show what the models were asked, and what it cost: calls, tokens, price."""
    with open_project(context, folder, overrides, as_json) as project:
        from pipeline.engine.usage.journal import sums

        found = project.usage()
        if run:
            found = found[found["run_id"].str.startswith(run)]
        table = sums(found, by)
    if as_json:
        # JSON has no NaN: a missing value becomes null.
        with_nulls = table.astype(object).where(table.notna(), None)
        print_json(with_nulls.to_dict("records"))
    else:
        print_usage(table, by)


def doctor(
    context: typer.Context, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    long: Annotated[bool, typer.Option("--long",
        help="Send the longest prompt too, without asking.")] = False,
) -> None:  # fmt: skip
    """Check settings, endpoints, stores and space, and say what to do."""

    def consent(call: "LongCall") -> bool:
        """Return whether the call may be made: by --long, or by a person who says yes.

        Without a terminal, and with --json, nobody can be asked.
        """
        if long:
            print_aside(str(call))
            return True
        if as_json or not sys.stdin.isatty():
            return False
        try:
            return typer.confirm(f"{call}; send it?", err=True)
        except typer.Abort:
            # The doctor makes a finding of every Exception; Ctrl-C is to end the command.
            raise KeyboardInterrupt from None

    with open_project(context, folder, overrides, as_json) as project:
        findings = project.doctor(long, consent)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    raise typer.Exit(FAILED if any(finding.verdict == "failed" for finding in findings) else 0)


def verify(
    context: typer.Context, name: Shown = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick",
        help="Compare counts and checksums, not the rows.")] = False,
) -> None:  # fmt: skip
    """Compare the databases (stores) with the tables that they show, row by row; exit code 1 where
    they differ."""
    with (
        open_project(context, folder, overrides, as_json) as project,
        counting("verify") as advanced,
    ):
        found = project.verify(name, quick, advanced)
    if as_json:
        print_json(found.to_json())
    else:
        _print_verification(found)
    raise typer.Exit(0 if found.agrees else FAILED)


def check_laws(
    context: typer.Context, name: Shown = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    documents: Annotated[int, typer.Option(min=1,
        help="On so many documents, drawn at random.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the first draw.")] = 1,
    draws: Annotated[int, typer.Option(min=1, help="So many times, each with the next seed.")] = 4,
) -> None:  # fmt: skip
    """Check that each verb of a workflow makes the same of changed rows as of all rows; exit code 1
    where one breaks this law."""
    with open_project(context, folder, overrides, as_json) as project:
        found = project.check_laws(name, documents, seed, draws)
    if as_json:
        print_json([asdict(held) for held in found])
    else:
        for held in found:
            print(f"{held.step:<22} {held.verb:<30} {held.verdict}")
            if held.message:
                print(f"    {held.message}")
    raise typer.Exit(FAILED if any(held.verdict == "breaks" for held in found) else 0)


def _print_verification(found: "Verification") -> None:
    """Print a line for each table, below it rows that differ, and the verdict."""
    print(f"{'store':<10} {'table':<14} {'snapshots':>10} {'store':>10}  differences")
    for check in found.tables:
        kinds = [f"{difference.rows:,} {difference.kind}" for difference in check.differences]
        counts = f"{check.expected:>10,} {check.stored:>10,}"
        print(f"{check.store:<10} {check.table:<14} {counts}  {', '.join(kinds) or 'none'}")
        for difference in check.differences:
            _print_rows(difference.kind, difference.rows, difference.examples)
    for dangling in found.dangling:
        column = f"{dangling.where}: {dangling.table}.{dangling.column}"
        print(f"{column}: {counted(dangling.count, 'id')} without a row of {dangling.target}")
        _print_rows("in", dangling.count, dangling.examples)
    for problem in found.problems:
        print(problem)
    if found.agrees:
        print(f"{found.workflow}: all agree{' by counts and checksums' if found.quick else ''}")
    else:
        print(f"{found.workflow}: {found.advice}")


def _print_rows(what: str, rows: int, examples: "tuple[NamedRow, ...]") -> None:
    for row in examples:
        print(f"    {what:<10} {row.name}  {row.id}")
    if rows > len(examples):
        print(f"    ... and {rows - len(examples):,} more")
