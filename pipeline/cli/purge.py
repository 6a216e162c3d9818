"""The command purge removes a document and every trace of it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import (
    Folder,
    Json,
    Overrides,
    Yes,
    ask,
    open_project,
    print_aside,
    print_json,
)
from pipeline.cli.run_pages import refuse_unwritable
from pipeline.errors import counted

if TYPE_CHECKING:
    from pipeline.project import Project
    from pipeline.purge.document import PurgeReport


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
