"""Compare a build and a nightly run by one process, by two more, and by a Dask cluster.

    python benchmarks/engines.py --units 5000

The run follows an edit of 1 % of the documents. The cluster has two workers on this machine; it is
started before the run and has done tasks before. The three take turns, and their tables must be
equal. CPU s is that of all processes together: the run, its workers, the scheduler. ``ms a task``
is the CPU beyond one process, divided by the tasks. MB are peaks of the run's own process, of the
largest worker, and of the scheduler. The first rows have those of processes that have only started.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
from corpus import edit_corpus
from harness import new_project, print_table
from measure import FORGET_PEAK

from pipeline.engine.tasks import InBuckets
from pipeline.project import Project
from tests.projects import ProjectFolder
from tests.servers.dask_cluster import DaskCluster, dask_cluster, processes_below

EDITED = 0.01
LOOK_SECONDS = 0.5
"""A process that ends had its peak noted so long before, at most."""
RUN, WORKER, SCHEDULER = "run MB", "worker MB", "scheduler MB"
ENGINES: Mapping[str, Mapping[str, Any]] = {
    "local, 1": {"workers": 1},
    "local, 2": {"workers": 2},
    "dask, 2": {"kind": "dask"},
}


def index(root: Path) -> dict[str, Any]:
    """Make one run in this process and measure it.

    The processes that it starts are counted when they end.
    """
    given = 0
    outputs = InBuckets.outputs

    def counted(one: InBuckets, *arguments: Any) -> Any:
        do = one.do

        def doing(tasks: Any) -> Any:
            nonlocal given
            given += len(tasks)
            return do(tasks)

        object.__setattr__(one, "do", doing)
        return outputs(one, *arguments)

    began, started = _own_cpu(), time.perf_counter()
    with patch.object(InBuckets, "outputs", counted), Project.open(root) as project:
        project.index("fast")
        tables = {
            name: made.sha256 for name, made in project.snapshots.manifest("fast").tables.items()
        }
    wall = time.perf_counter() - started
    return {"cpu": _own_cpu() - began, "wall": wall, "tasks": given, "tables": tables}


def _own_cpu() -> float:
    return sum(
        sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def _cpu_of(cluster: DaskCluster) -> float:
    started = [process for process in (cluster.scheduler, *cluster.workers) if process]
    found = [psutil.Process(process.pid) for process in started]
    every = [one for process in found for one in (process, *process.children(recursive=True))]
    return sum(sum(one.cpu_times()[:2]) for one in every)


def apart(root: Path, cluster: DaskCluster | None = None) -> dict[str, Any]:
    """Make one run in a process of its own; return its figures and the peaks of all processes."""
    if cluster:
        for _, pid in _processes_of(cluster):
            Path(f"/proc/{pid}/clear_refs").write_text(FORGET_PEAK)
    peaks: dict[str, float] = dict.fromkeys((RUN, WORKER, SCHEDULER), 0.0)
    command = [sys.executable, __file__, "--one", str(root)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while True:
            with suppress(psutil.Error):
                below = psutil.Process(process.pid).children()
                ours = [(RUN, process.pid), *((WORKER, one.pid) for one in below)]
                for role, pid in [*ours, *(_processes_of(cluster) if cluster else ())]:
                    peaks[role] = max(peaks[role], _peak_mb(pid))
            with suppress(subprocess.TimeoutExpired):
                said, complaints = process.communicate(timeout=LOOK_SECONDS)
                break
    if process.returncode:
        raise SystemExit(complaints)
    return {**json.loads(said.splitlines()[-1]), "peaks": peaks}


def _processes_of(cluster: DaskCluster) -> Iterator[tuple[str, int]]:
    """Yield the processes of the cluster that take memory, each with its role."""
    assert cluster.scheduler
    yield SCHEDULER, cluster.scheduler.pid
    for started in cluster.workers:
        for process in processes_below(started):
            yield WORKER, process.pid


def _peak_mb(pid: int) -> float:
    """Return the peak memory of a process in MB, or 0 if it has ended."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
    return 0.0


def measured(units: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name, dask_cluster(Path(name) / "cluster") as cluster:
        with new_project(300) as warm:
            cluster.see(ProjectFolder(warm), task_rows=100)
            cluster.await_workers(2)
            begun = {role: _peak_mb(pid) for role, pid in _processes_of(cluster)}
            print(
                ", ".join(
                    f"{role} that has only begun: {peak:,.0f}" for role, peak in begun.items()
                ),
                flush=True,
            )
            apart(warm)
        for engine, settings in ENGINES.items():
            with new_project(units) as root:
                ProjectFolder(root).edit_settings(engine=dict(settings), max_delete_ratio=1)
                if settings.get("kind"):
                    cluster.see(ProjectFolder(root))
                for night in ("full build", "1 % edited"):
                    if night != "full build":
                        edit_corpus(root / "data" / "input", units, EDITED)
                    before = _cpu_of(cluster)
                    found = apart(root, cluster if settings.get("kind") else None)
                    found["cpu"] += _cpu_of(cluster) - before if settings.get("kind") else 0.0
                    rows.append({"night": night, "engine": engine, **found})
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    alone = {row["night"]: row for row in rows if row["engine"] == "local, 1"}
    return [
        {
            "night": row["night"],
            "engine": row["engine"],
            "CPU s": row["cpu"],
            "wall s": row["wall"],
            "of one process": row["wall"] / alone[row["night"]]["wall"],
            "tasks": row["tasks"],
            "ms a task": 1000 * (row["cpu"] - alone[row["night"]]["cpu"]) / max(row["tasks"], 1),
            **row["peaks"],
            "tables": "equal" if row["tables"] == alone[row["night"]]["tables"] else "DIFFER",
        }
        for row in sorted(rows, key=lambda row: row["night"], reverse=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, default=5_000)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(index(options.one)))
    else:
        print_table(summary(measured(options.units)))


if __name__ == "__main__":
    main()
