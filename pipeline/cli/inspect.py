"""status: what has been done."""

import typer

from pipeline.cli.console import print_report, print_steps
from pipeline.cli.options import Folder, Json, errors_told, print_json, root_of
from pipeline.folder import settings_file
from pipeline.runs import Runs


def status(context: typer.Context, folder: Folder = None, as_json: Json = False) -> None:
    """The report of the last run."""
    root = root_of(context, folder)
    with errors_told(root, as_json):
        settings_file(root)
        report = Runs.of(root).last()
    if as_json:
        print_json(report or {"outcome": None, "message": "no run yet"})
    elif report is None:
        print("No run yet; start one with: graphmill run")
    else:
        print_steps(report)
        print_report(report)
