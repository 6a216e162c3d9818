"""Runs of a project: one at a time, each with a report that is kept."""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from pipeline.engine.report import Outcome, RunReport
from pipeline.errors import DamagedError, LockedError
from pipeline.files import read_json, tell, write_json

SHAPE = {"run_id": str, "workflow": str, "outcome": str, "exit_code": int, "message": str, "steps": list, "load": dict,
         "totals": dict}  # fmt: skip
TOTALS = frozenset({"calls", "cached_calls", "input_tokens", "output_tokens", "rejects", "seconds", "cost"})
STEP = frozenset({"step", "verb", "action", "reason"})
"""What every version's report has."""


@dataclass(frozen=True)
class Runs:
    """``folder`` holds ``<run_id>.json`` for each run, and the lock."""

    folder: Path

    @classmethod
    def of(cls, project: Path) -> "Runs":
        return cls(project / "data" / "runs")

    def new_id(self) -> str:
        """Sorts by time."""
        return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(3)}"

    def save(self, report: RunReport) -> None:
        write_json(self._path(report.run_id), report.to_json())

    def reports(self) -> Iterator[dict[str, Any]]:
        """Of all runs as JSON, the newest first. One that cannot be read, or is none, is told and passed over."""
        for path in sorted(self.folder.glob("*.json"), reverse=True):
            with suppress(FileNotFoundError):  # a purge came between
                try:
                    report = read_json(path)
                    refuse_foreign(report, path)
                except DamagedError as error:
                    tell(f"{path}: {error.fact}; this run's report is passed over: delete the file")
                else:
                    yield report

    def last(self) -> dict[str, Any] | None:
        """The newest report that can be read; None where there is none."""
        return next(self.reports(), None)

    def ids(self, workflow: str) -> list[str]:
        """Ids of the workflow's runs, whatever became of them, oldest first."""
        return sorted(report["run_id"] for report in self.reports() if report["workflow"] == workflow)

    def loaded(self, workflow: str) -> str | None:
        """The newest of the workflow's runs that has brought its tables to the stores."""
        loads = (report["run_id"] for report in self.reports() if report["workflow"] == workflow and report["load"])
        return next(loads, None)

    def all_ids(self) -> list[str]:
        """Ids of the runs whose reports are kept, oldest first."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def forget_before(self, run_id: str) -> int:
        """Delete the reports of all runs before this one: their messages may quote documents. Returns how many."""
        earlier = [id for id in self.all_ids() if id < run_id]
        for id in earlier:
            (self.folder / f"{id}.json").unlink()
        return len(earlier)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the project. The lock is the operating system's: it goes with its holder, however that ends.

        Raises LockedError when another run holds it.
        """
        from filelock import FileLock, Timeout

        self.folder.mkdir(parents=True, exist_ok=True)
        holder = self.folder / "holder"
        try:
            held = FileLock(self.folder / "lock").acquire(timeout=0)
        except Timeout as error:
            owner = _holder(holder)
            raise LockedError(
                f"{self.folder.parent}: another run holds this project (process {owner}); wait for it to end"
            ) from error
        with held:
            with suppress(OSError):  # a full disk must not keep gc from making space
                since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S UTC}"
                holder.write_text(f"{os.getpid()} on {os.uname().nodename}, since {since}", encoding="utf-8")
            yield

    def _path(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.json"


def _holder(path: Path) -> str:
    """As far as the file can be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"


def refuse_foreign(report: Mapping[str, Any], path: Path) -> None:
    """Raises DamagedError for what is no report of the run that the file is named after."""
    shaped = all(isinstance(report.get(name), kind) for name, kind in SHAPE.items())
    whole = (
        shaped
        and report["run_id"] == path.stem
        and report["outcome"] in get_args(Outcome)
        and report["totals"].keys() >= TOTALS
        and all(isinstance(step, dict) and step.keys() >= STEP for step in report["steps"])
    )
    if not whole:
        raise DamagedError(path, "no report of a run")
