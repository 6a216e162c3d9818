"""CPU seconds of ``verify``, ``verify --quick`` and ``load --full`` at N text units and at four
times as many, side by side in one run. ``python benchmarks/verify.py --units 5000``

The CPU is the command's own, the least of some tries; PostgreSQL's is not in it. ``start-up`` is
what the same command takes over one document, and ``ratio`` is that of what comes on top of it. No
HNSW index is built: none of the three reads one.
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
    """CPU seconds and the peak in MB."""
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
    """Command -> CPU seconds and the peak in MB over each of the projects, in turn, the least of
    some tries."""
    found = {
        name: [
            [command(root, *line, WORKFLOW, *WITHOUT_INDEX) for root in roots] for _ in range(tries)
        ]
        for name, line in COMMANDS.items()
    }
    return {
        name: [min(each) for each in zip(*rounds, strict=True)] for name, rounds in found.items()
    }


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
