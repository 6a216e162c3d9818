"""Measure the CPU that commands over a small project take to start, beside their imports.

    python benchmarks/start.py

Each line is the median of ``--times`` processes, user and system time together. The lines take
turns, so that the load of the machine affects them alike. ``of the imports`` is the ratio to the
first line. The project is the sample corpus, loaded into its embedded PostgreSQL, which is running.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree
from statistics import median

from harness import ROOT, print_table

from pipeline.project import Project
from pipeline.settings.init import init_project

QUESTION = "Who designed the Skarrow Light?"
COMMANDS = {
    "--help": ("--help",),
    "status": ("status",),
    "plan": ("plan",),
    **{
        f"query --mode {mode}": ("query", QUESTION, "--mode", mode)
        for mode in ("naive", "mix", "graph")
    },
}


def cpu_seconds(line: list[str]) -> float:
    """Return the CPU seconds of one process; its database is another process."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    process = subprocess.Popen(line, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(line)}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graphmill-bench-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        init_project(root)
        copytree(ROOT / "data" / "input", root / "data" / "input", dirs_exist_ok=True)
        with Project.open(root) as project:
            project.run("fast")
            graphmill = [sys.executable, "-m", "pipeline", "-C", name]
            lines = {
                "the imports alone": [
                    sys.executable,
                    "-c",
                    "import pandas, sqlalchemy, psycopg, pydantic",
                ]
            }
            lines |= {command: [*graphmill, *arguments] for command, arguments in COMMANDS.items()}
            for line in lines.values():
                cpu_seconds(line)  # leaves the compiled modules
            turns = [
                {command: cpu_seconds(line) for command, line in lines.items()}
                for _ in range(options.times)
            ]
    seconds = {command: median(turn[command] for turn in turns) for command in lines}
    least = seconds["the imports alone"]
    rows = [
        {"command": command, "CPU s": cpu, "of the imports": cpu / least}
        for command, cpu in seconds.items()
    ]
    print(json.dumps(rows, indent=1)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
