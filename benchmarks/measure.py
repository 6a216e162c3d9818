"""One run of a workflow in this process, measured; prints JSON.

CPU and wall seconds and peak memory by step, start-up apart: a run over one document goes first,
and what that takes (imports, ranks, weights) is told as ``startup``. ``stores``: of the load of
each what it took, with the CPU of its server, and the rows it wrote. Memory is the process's peak,
start-up included. CPU and memory of its workers (``engine.workers``) are in it, as if all had their
peaks at once. ``written``: bytes that this process wrote to files; ``snapshots``: the size of all
that are kept, ``live``: of those of the newest tables.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import active_children
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from benchmarks.corpus import write_corpus
from benchmarks.server_time import postgres_cpu, sibling_cpu
from pipeline.engine.bill.forecast import totals
from pipeline.engine.run_report import Progress, RunReport, StepReport
from pipeline.load import loader
from pipeline.project import Project
from pipeline.settings.init import FIRST_WORKFLOW, init_project, shipped
from pipeline.stores.base import Store

PLAN, LOAD = "plan", "load"
FORGET_PEAK = "5"
"""The text that makes Linux forget the peak of a process (proc(5), clear_refs)."""
_seen: dict[int, float] = {}


@dataclass(frozen=True)
class Clock:
    cpu: float
    wall: float

    @classmethod
    def now(cls) -> "Clock":
        return cls(time.process_time() + workers_cpu(), time.perf_counter())

    def since(self) -> dict[str, float]:
        now = Clock.now()
        return {"cpu": now.cpu - self.cpu, "wall": now.wall - self.wall}


@dataclass
class Steps(Progress):
    """Progress that takes the time of each step; what comes before the first is the plan."""

    started: Clock = field(default_factory=Clock.now)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def step_started(self, step: str, position: int, steps: int) -> None:
        if position == 1:
            self._note(PLAN)

    def step_finished(self, report: StepReport) -> None:
        self.rows[report.step] = sum(report.rows.values())
        self._note(report.step)

    def load_started(self) -> None:
        self.started = Clock.now()

    def load_finished(self, counts: object, seconds: float) -> None:
        self._note(LOAD)

    def _note(self, name: str) -> None:
        self.seconds[name] = {**self.started.since(), "peak_mb": peak_since_last() / 2**20}
        self.started = Clock.now()


@dataclass
class Stores:
    """Takes the time of the load of each store. PostgreSQL is the project's own, Neo4j the
    starter's."""

    root: Path
    taken: dict[str, dict[str, float]] = field(default_factory=dict)

    def watch(self) -> None:
        load_store = loader.load_store

        def timed(store: Store, *arguments: Any) -> Any:
            begun, server = Clock.now(), self._server(store.name)
            counts = load_store(store, *arguments)
            written = sum(
                count[kind]
                for count in counts.values()
                for kind in ("inserted", "updated", "deleted")
            )
            taken = {
                **begun.since(),
                "server": self._server(store.name) - server,
                "written": written,
            }
            self.taken[store.name] = taken
            return counts

        loader.load_store = timed

    def _server(self, store: str) -> float:
        return sibling_cpu() if store == "neo4j" else postgres_cpu(self.root / "data" / "postgres")


def main() -> None:
    root, workflow, stage = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    _warm_up(workflow if (shipped() / f"workflows/{workflow}.yaml").exists() else FIRST_WORKFLOW)
    startup, startup_mb = time.process_time(), peak() / 2**20
    if stage == PLAN:
        print(
            json.dumps({**_planned(root, workflow), "startup": startup, "startup_mb": startup_mb})
        )
        return
    written, stores = _written(), Stores(root)
    stores.watch()
    with Project.open(root) as project:
        peak_since_last()
        begun, steps = Clock.now(), Steps()
        stages: dict[str, Callable[..., RunReport]] = {
            "index": project.index,
            "run": project.run,
            "load": project.load,
        }
        report = stages[stage](workflow, steps)
        whole = begun.since()
        snapshots = sum(path.stat().st_size for path in project.snapshots.root.rglob("*.parquet"))
        live = {
            path
            for table in project.snapshots.manifest(workflow).tables.values()
            for path in table.paths
        }
        live_size = sum((project.snapshots.root / path).stat().st_size for path in live)
    rows = {table: rows for step in report.steps for table, rows in step.rows.items()}
    result = {
        "units": rows.get("text_units", 0),
        "entities": rows.get("entities", 0),
        "relationships": rows.get("relationships", 0),
        "calls": sum(step.calls for step in report.steps),
        "asked": {
            step.step: {
                "calls": step.calls,
                "tokens in": step.input_tokens,
                "tokens out": step.output_tokens,
            }
            for step in report.steps
            if step.calls
        },
        "outcome": report.outcome,
        "startup": startup,
        "cpu": whole["cpu"],
        "wall": whole["wall"],
        "steps": steps.seconds,
        "step_rows": steps.rows,
        "stores": stores.taken,
        "peak_mb": max(step["peak_mb"] for step in steps.seconds.values()),
        "written": _written() - written,
        "snapshots": snapshots,
        "live": live_size,
        "live_files": len(live),
    }
    print(json.dumps(result))


def _planned(root: Path, workflow: str) -> dict[str, Any]:
    with Project.open(root) as project:
        begun = Clock.now()
        sums = totals(project.forecast(workflow))
        whole = begun.since()
    return {
        **whole,
        "peak_mb": peak() / 2**20,
        "expected": sums["expected"]["calls"],
        "most": sums["calls"][1],
    }


def _warm_up(workflow: str) -> None:
    with tempfile.TemporaryDirectory(prefix="graphmill-bench-") as name:
        root = Path(name)
        init_project(root)
        write_corpus(root / "data" / "input", 1)
        with Project.open(root) as project:
            project.index(workflow)
            project.forecast(workflow)


def workers_cpu() -> float:
    """Return the CPU seconds of the processes in which this one has steps done.

    A process that has ended counts with its last known value.
    """
    for worker in active_children():
        with suppress(psutil.Error):
            _seen[worker.pid or 0] = sum(psutil.Process(worker.pid).cpu_times()[:2])
    return sum(_seen.values())


def peak_since_last() -> int:
    """Return the peak memory of this process and its workers since the last call, in bytes.

    On systems that do not forget peaks it is the peak since the start.
    """
    peaks = peak()
    for process in ("self", *(str(worker.pid) for worker in active_children())):
        with suppress(OSError, StopIteration):  # it ends now
            peaks += peak(process) if process != "self" else 0
            Path(f"/proc/{process}/clear_refs").write_text(FORGET_PEAK)
    return peaks


def peak(process: str = "self") -> int:
    """Return the peak memory of a process in bytes.

    The value of getrusage would be wrong: a child process inherits it.
    """
    status = Path(f"/proc/{process}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _written() -> int:
    """Return the bytes that this process has written, or 0 if the system does not count them."""
    process = psutil.Process()
    return process.io_counters().write_chars if hasattr(process, "io_counters") else 0


if __name__ == "__main__":
    main()
