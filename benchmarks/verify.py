"""Measure ``verify``, ``verify --quick`` and ``load --full`` over N and over four times N units.

    python benchmarks/verify.py --units 5000

All take turns in one run. The CPU seconds are those of the command, the least of some tries; those
of PostgreSQL are not counted. ``start-up`` is what the same command takes over one document.
``ratio`` is that of the time beyond it. No HNSW index is built: none of the three reads one.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness import ROOT, new_project, print_compared

WORKFLOW = "fast"
COMMANDS = {
    "verify": ["verify"],
    "verify --quick": ["verify", "--quick"],
    "load --full": ["load", "--full"],
}
TIMES = 4
WITHOUT_INDEX = ["--set", "stores.postgres.exact_below=1000000000"]


def command(root: Path, *arguments: str) -> tuple[float, float]:
    """Run a command and return its CPU seconds and its peak memory in MB."""
    line = [sys.executable, "-m", "pipeline", "-C", str(root), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(line)}: ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(roots: Sequence[Path], tries: int) -> dict[str, list[tuple[float, float]]]:
    """Return CPU seconds and peak in MB of each command over each of the projects.

    The commands take turns, and the least of some tries counts.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for name, line in COMMANDS.items():
        rounds = [
            [command(root, *line, WORKFLOW, *WITHOUT_INDEX) for root in roots] for _ in range(tries)
        ]
        found[name] = [min(of_project) for of_project in zip(*rounds, strict=True)]
    return found


def compare(units: int, tries: int) -> list[dict[str, Any]]:
    sizes = (1, units, TIMES * units)
    with ExitStack() as projects:
        roots = [projects.enter_context(new_project(size)) for size in sizes]
        for root in roots:
            command(root, "run", WORKFLOW, *WITHOUT_INDEX)
        measured = measure(roots, tries)
    return [
        {
            "command": name, "start-up": least, f"CPU s at {units:,}": few,
            f"at {TIMES * units:,}": many,
            "ratio": (many - least) / (few - least), "MB": few_mb,
            f"MB at {TIMES * units:,}": many_mb,
        }
        for name, ((least, _), (few, few_mb), (many, many_mb)) in measured.items()
    ]  # fmt: skip


if __name__ == "__main__":
    print_compared(__doc__, compare)
