"""A Dask cluster of processes on this machine: a scheduler and workers of graphmill, which see one folder of snapshots.

Which folder that is may change between runs: what their environment names is a link.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pipeline.runs.worker import SNAPSHOTS
from tests.projects import ProjectFolder

QUIET = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False",
}
PATIENCE = 120.0
"""Seconds that a process has to start in, on a machine that is busy."""


@dataclass
class DaskCluster:
    """``environment``: of its processes; ``tls``: options of Dask's commands that name files of keys."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    tls: Sequence[str] = ()
    stack: ExitStack = field(default_factory=ExitStack)
    address: str = ""
    scheduler: subprocess.Popen[bytes] | None = None

    def start_scheduler(self) -> None:
        found = self.folder / "scheduler.json"
        found.unlink(missing_ok=True)
        protocol = ["--protocol", "tls"] if self.tls else []
        self.scheduler = self._started(
            "scheduler", "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
            "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(found), *protocol, *self.tls,
        )  # fmt: skip
        self.address = str(_awaited(lambda: json.loads(found.read_text())["address"]))

    def start_workers(self, number: int, *options: str) -> subprocess.Popen[bytes]:
        return self._started("workers", "-m", "pipeline", "worker", self.address, "--workers", str(number), *options)

    def _started(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **QUIET, **self.environment, SNAPSHOTS: str(self.link)}
        log = self.stack.enter_context((self.folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(
            [sys.executable, *arguments], env=environment, stdout=log, stderr=log, cwd=self.folder
        )
        self.stack.callback(_end, process)
        return process

    @property
    def link(self) -> Path:
        return self.folder / "snapshots"

    @property
    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def see(self, folder: ProjectFolder, **engine: Any) -> None:
        """From now on the workers see the snapshots of this project, which works with them."""
        there = folder.root / "data" / "snapshots"
        there.mkdir(parents=True, exist_ok=True)
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(there)
        folder.edit_settings(engine={"kind": "dask", "address": self.address, "workers": 2, **engine})


def processes_below(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Of workers those that do the tasks, not those that look after them."""
    found = psutil.Process(process.pid).children(recursive=True)
    return [one for one in found if "spawn_main" in " ".join(one.cmdline())]


def _end(process: subprocess.Popen[bytes]) -> None:
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    for one in below:
        one.kill()
    process.kill()
    process.wait()


def _awaited(look: Any) -> object:
    for _ in range(int(PATIENCE / 0.05)):
        try:
            return look()
        except (OSError, ValueError, KeyError):
            time.sleep(0.05)
    raise TimeoutError("no scheduler")


@contextmanager
def dask_cluster(folder: Path, workers: int = 2, **given: Any) -> Iterator[DaskCluster]:
    """With as many workers, which are started again when they are killed."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = DaskCluster(folder, stack=stack, **given)
        cluster.start_scheduler()
        if workers:
            cluster.start_workers(workers)
        yield cluster
