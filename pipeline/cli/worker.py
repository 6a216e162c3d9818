"""worker: a process of a cluster that does tasks of runs which other machines began."""

import os
from typing import Annotated

import typer

from pipeline.cli.options import Folder, Overrides, errors_told, root_of
from pipeline.errors import UsageError, WorkerError, in_words, install_extra


def worker(
    context: typer.Context,
    address: Annotated[str | None,
        typer.Argument(help="The scheduler's; by default engine.address.")] = None,
    workers: Annotated[int, typer.Option(min=1,
        help="Processes, each of which does one task at a time.")] = 1,
    memory: Annotated[str, typer.Option(metavar="SIZE",
        help="Of each, as 4GB; more, and it is ended.")] = "auto",
    folder: Folder = None, overrides: Overrides = None,
) -> None:  # fmt: skip
    """Work for runs of engine.kind: dask, until it is stopped. The snapshots are those that
    GRAPHMILL_SNAPSHOTS names, else the project's."""
    root = root_of(context, folder)
    with errors_told(root, stopped="stopped; what it was doing others do"):
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
            if settings.snapshots_are_remote:  # Dask's processes are in folders of their own
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
        given = [
            part for option, file in files.items() if file for part in (option, str(root / file))
        ]
        try:
            main(
                [found, "--nworkers", str(workers), "--nthreads", "1", "--memory-limit", memory,
                    "--no-dashboard",
                 *given, "--preload", "pipeline.runs.worker"],
                standalone_mode=False,
            )  # fmt: skip
        except RuntimeError as error:  # of what Dask could not start
            raise WorkerError(
                f"worker: it did not start ({in_words(error.__cause__ or error)}); see that a"
                f" scheduler is at {found} ('dask scheduler' starts one), and that engine.tls is as"
                " its own"
            ) from error
