"""The shipped schedule of a project, and its lines as cron runs them."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

JOB = re.compile(r"(?:\S+\s+){5}(.+)")


@dataclass(frozen=True)
class Schedule:
    """A crontab: ``lines`` are its commands, in the order of the file."""

    environment: Mapping[str, str]
    lines: list[str]


def schedule_of(project: Path) -> Schedule:
    """Read nightly/crontab as cron does."""
    environment, lines = {}, []
    for line in (project / "nightly" / "crontab").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        variable = re.fullmatch(r"(\w+)\s*=\s*(.*)", line)
        if variable:
            environment[variable[1]] = variable[2]
            continue
        job = JOB.fullmatch(line)
        assert job is not None, line
        lines.append(job[1].replace(r"\%", "%"))
    return Schedule(environment, lines)


def cron_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment that cron gives a job, and nothing else."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "SHELL": "/bin/sh",
        "LOGNAME": "graphmill",
        **more,
    }


def run_line(line: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of the crontab as cron does: by /bin/sh, in the home folder."""
    return subprocess.run(
        ["/bin/sh", "-c", line], env=dict(environment), cwd=environment.get("HOME", os.curdir),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
