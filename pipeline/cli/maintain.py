"""stores stop: what keeps a project in order."""

import typer

from pipeline.cli.options import Folder, Overrides, open_project


def stop(context: typer.Context, folder: Folder = None, overrides: Overrides = None) -> None:
    """Stop the embedded PostgreSQL, whoever uses it."""
    with open_project(context, folder, overrides) as project:
        from pipeline.adapters import EMBEDDED_FOLDER
        from pipeline.stores.embedded import stop_embedded

        stopped = stop_embedded(project.root / EMBEDDED_FOLDER)
    print("stopped" if stopped else "not running")
