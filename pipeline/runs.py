"""Runs of a project: one at a time, each with a report that is kept."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.engine.report import RunReport
from pipeline.errors import LockedError


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
        from pipeline.snapshots import publish_file, temporary_file  # brings pandas, which last() does without

        with temporary_file(self.folder) as temporary:
            temporary.write_text(json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            publish_file(temporary, self.folder / f"{report.run_id}.json")

    def last(self) -> dict[str, Any] | None:
        """The report of the last run as JSON; None before the first."""
        reports = sorted(self.folder.glob("*.json"))
        return json.loads(reports[-1].read_text(encoding="utf-8")) if reports else None

    def ids(self, workflow: str) -> list[str]:
        """Ids of the workflow's runs, whatever became of them, oldest first."""
        reports = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("*.json")}
        return sorted(run_id for run_id, report in reports.items() if report["workflow"] == workflow)

    def forget_before(self, run_id: str) -> None:
        """Delete the reports of all runs before this one: their messages may quote documents."""
        for path in self.folder.glob("*.json"):
            if path.stem < run_id:
                path.unlink()

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
            owner = holder.read_text(encoding="utf-8") if holder.exists() else "unknown"
            raise LockedError(
                f"{self.folder.parent}: another run holds this project (process {owner}); wait for it to end"
            ) from error
        with held:
            with suppress(OSError):  # a full disk must not keep gc from making space
                holder.write_text(f"{os.getpid()} on {os.uname().nodename}", encoding="utf-8")
            yield
