"""rejects, usage, doctor: what was left out, what it cost, and whether all is well."""

from dataclasses import asdict
from typing import Annotated

import typer

from pipeline.cli.console import print_findings, print_rejects, print_usage
from pipeline.cli.options import Folder, Json, Overrides, Shown, open_project, print_json
from pipeline.errors import FAILED
from pipeline.reasons import REASONS


def rejects(
    context: typer.Context, name: Shown = None, folder: Folder = None, overrides: Overrides = None,
    as_json: Json = False,
    reason: Annotated[str | None, typer.Option(help=f"Only those with this reason: {', '.join(REASONS)}.")] = None,
) -> None:  # fmt: skip
    """The rows that the last run left out, or answered by halves or by repair, and why."""
    if reason and reason not in REASONS:
        raise typer.BadParameter(f"{reason}; have: {', '.join(REASONS)}", param_hint="--reason")
    with open_project(context, folder, overrides, as_json) as project:
        workflow = name or project.shown_workflow()
        found = project.table("rejects", workflow)
    chosen = found[found["reason"] == reason] if reason else found
    if as_json:
        print_json(chosen.to_dict("records"))
    else:
        print_rejects(chosen, workflow)


def usage(
    context: typer.Context, folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    by: Annotated[str, typer.Option(help="run, step, document, model or outcome.")] = "run",
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Of this run only.")] = None,
) -> None:  # fmt: skip
    """What the models were asked, and what it cost: calls, tokens, price."""
    with open_project(context, folder, overrides, as_json) as project:
        from pipeline.engine.usage import sums

        found = project.usage()
        table = sums(found[found["run_id"].str.startswith(run)] if run else found, by)
    if as_json:
        print_json(table.astype(object).where(table.notna(), None).to_dict("records"))
    else:
        print_usage(table, by)


def doctor(
    context: typer.Context, folder: Folder = None, overrides: Overrides = None, as_json: Json = False,
    long: Annotated[bool, typer.Option("--long", help="Also try the longest prompt that may be sent.")] = False,
) -> None:  # fmt: skip
    """Check settings, endpoints, stores and space, and say what to do."""
    with open_project(context, folder, overrides, as_json) as project:
        findings = project.doctor(long)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    raise typer.Exit(FAILED if any(finding.verdict == "failed" for finding in findings) else 0)
