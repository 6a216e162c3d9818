"""A full build: CPU by step, wall time, peak memory and bytes written, of a corpus of synthetic
documents.

``index`` asks the tests' endpoint, without latency; its own CPU is what goes beyond the same calls
made with the client in a loop. ``python benchmarks/build.py --units 1900``
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from harness import endpoint, measure, measure_bare, new_project, print_table

from pipeline.errors import counted


def build(workflow: str, units: int, passages: int, workers: int) -> dict[str, Any]:
    """Measure one build from nothing.

    ``own_ms`` is the CPU for each text unit beyond the bare calls, in milliseconds.
    """
    if workflow == "fast":
        with new_project(units, passages, workers) as root:
            return _with_own(measure(root, workflow), workflow, 0.0) | {"workers": workers}
    with (
        tempfile.TemporaryDirectory(prefix="graphmill-bench-") as folder,
        new_project(units, passages, workers) as root,
    ):
        requests = Path(folder) / "requests.jsonl"
        with endpoint(requests_file=requests) as server:
            measured = measure(root, workflow, env=server.env)
        with endpoint() as server:
            bare = measure_bare(requests, server.env)
    return _with_own(measured, workflow, bare["cpu_ms_a_call"]) | {"workers": workers}


def _with_own(measured: dict[str, Any], workflow: str, bare: float) -> dict[str, Any]:
    bare_cpu = bare * measured["calls"] / 1000
    own_ms = 1000 * (measured["cpu"] - bare_cpu) / measured["units"]
    written = measured["written"] / measured["snapshots"]
    return {
        "workflow": workflow,
        **measured,
        "bare_ms": bare,
        "own_ms": own_ms,
        "written_ratio": written,
    }


def summary(result: dict[str, Any]) -> dict[str, Any]:
    names = {
        "workflow": "workflow", "units": "units", "workers": "workers", "calls": "calls",
        "cpu": "CPU s",
        "wall": "wall s",
        "bare_ms": "bare ms a call", "own_ms": "own ms a unit", "peak_mb": "peak MB",
        "written_ratio": "written / snapshots", "startup": "start-up s",
    }  # fmt: skip
    return {shown: result[name] for name, shown in names.items()}


def by_step(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "step": name,
            "CPU s": taken["cpu"],
            "ms a unit": 1000 * taken["cpu"] / result["units"],
            "wall s": taken["wall"],
        }
        for name, taken in result["steps"].items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[300, 1_900])
    parser.add_argument(
        "--passages", type=int, default=1, help="passages, each a text unit, in a document"
    )
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1], help="engine.workers; several: in turn"
    )
    parser.add_argument(
        "--workflow", nargs="+", default=["fast", "index"], choices=["fast", "index"]
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results = []
    for workflow in options.workflow:
        for units in options.units:
            for workers in options.workers:
                results.append(build(workflow, units, options.passages, workers))
                if not options.json:
                    print(f"\n{workflow}, {units:,} text units, {counted(workers, 'worker')}")
                    print_table(by_step(results[-1]))
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print()
        print_table([summary(result) for result in results])


if __name__ == "__main__":
    main()
