"""The command worker: a process of a cluster that executes tasks of runs on other machines."""

import os
from typing import Annotated

import typer

from pipeline.cli.options import Folder, Overrides, find_root, report_errors
from pipeline.errors import UsageError, WorkerError, in_words, install_extra


def worker(
    context: typer.Context,
    address: Annotated[str | None,
        typer.Argument(metavar="ADDRESS",
            help="The scheduler's; by default engine.address.")] = None,
    workers: Annotated[int, typer.Option(min=1,
        help="Processes, each of which does one task at a time.")] = 1,
    memory: Annotated[str, typer.Option(metavar="SIZE",
        help="Of each, as 4GB; more, and it is ended.")] = "auto",
    folder: Folder = None, overrides: Overrides = None,
) -> None:  # fmt: skip
    """Execute tasks for runs of engine.kind: dask, until it is stopped. The snapshots are those
    that GRAPHMILL_SNAPSHOTS names, else the project's."""
    root = find_root(context, folder)
    with report_errors(root, stopped="stopped; what it was doing others do"):
        try:
            from distributed.cli.dask_worker import main
        except ImportError:
            raise UsageError(f"worker: needs Dask; {install_extra('dask')}") from None
        from pipeline.files import SETTINGS
        from pipeline.runs.worker import SNAPSHOTS
        from pipeline.settings.file import environment_of, read_settings
        from pipeline.settings.schema import Settings
        from pipeline.snapshots.objects import keys_of

        has_project = (root / SETTINGS).is_file()
        settings = read_settings(root, overrides or ()) if has_project or overrides else Settings()
        if not os.environ.get(SNAPSHOTS):
            if not has_project:
                raise UsageError(
                    f"worker: no project here; set {SNAPSHOTS} to where the run keeps its"
                    " snapshots, or use -C"
                )
            there = settings.snapshots
            os.environ[SNAPSHOTS] = there if settings.snapshots_are_remote else str(root / there)
            if settings.snapshots_are_remote:
                # Dask's processes run in folders of their own, and find no .env there.
                os.environ |= keys_of(there, environment_of(root))
        found = address or settings.engine.address
        if not found:
            raise UsageError(
                "worker: no address; give the scheduler's: graphmill worker tcp://host:8786"
            )
        if ":" not in found.rpartition("://")[2]:
            raise UsageError(
                f"worker: {found} names no port; give the scheduler's too: graphmill worker"
                " tcp://host:8786"
            )
        tls = settings.engine.tls
        files = {
            "--tls-ca-file": tls.ca_file,
            "--tls-cert": tls.cert_file,
            "--tls-key": tls.key_file,
        }
        arguments = [found, "--nworkers", str(workers), "--nthreads", "1"]
        arguments += ["--memory-limit", memory, "--no-dashboard"]
        for option, file in files.items():
            if file:
                arguments += [option, str(root / file)]
        arguments += ["--preload", "pipeline.runs.worker"]
        try:
            main(arguments, standalone_mode=False)
        except RuntimeError as error:  # Dask could not start its processes.
            raise WorkerError(
                f"worker: it did not start ({in_words(error.__cause__ or error)}); see that a"
                f" scheduler is at {found} ('dask scheduler' starts one), and that engine.tls is as"
                " its own"
            ) from error
