"""The lines that a run writes while it goes on: its log, and how far it is.

data/runs/RUN.log has a line of JSON for each event of the run (runs/events.py). ``--log json``
prints the same lines on stderr. Each of them begins with:

time      in UTC, ISO 8601 with milliseconds
level     info, warning or error; of the last line, that of the run
run, workflow    "" before the run has begun
project   the project's folder
host, version    the machine, and graphmill's version
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pipeline.engine.run_report import LoadCounts, Progress, RunReport, StepReport
from pipeline.errors import WAITING
from pipeline.runs.events import Events
from pipeline.runs.reports import Runs, UnfinishedRun

NOTED_EVERY = 2.0
"""Seconds between two notes of how far a step is."""
LOGGED_EVERY = 60.0
"""Seconds between two lines of a log file on how far a step is. A step may take hours, and its
events come every second."""
ADVANCES = frozenset({"step_advanced", "load_advanced"})
Level = Literal["info", "warning", "error"]


@dataclass
class LogLines:
    """Writes each event of a run as a line of JSON; ``write`` gets the line with its end.

    ``folder`` is the project's.
    """

    folder: Path
    write: Callable[[str], Any]
    run: str = ""
    workflow: str = ""

    def tell(self, event: dict[str, Any]) -> None:
        """Write a line about an event."""
        if event["event"] == "run_started":
            self.run, self.workflow = event["run"], event["workflow"]
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {
            "time": now,
            "level": level_of(event),
            **self._origin,
            "run": self.run,
            "workflow": self.workflow,
            **event,
        }
        text = json.dumps(line, ensure_ascii=False)
        self.write(f"{text}\n")

    def tell_error(self, message: str, exit_code: int) -> None:
        """Write a line about an error outside of a run."""
        self.tell({"event": "error", "exit_code": exit_code, "message": message})

    @cached_property
    def _origin(self) -> dict[str, str]:
        # Imported here, so that commands without such lines start at once.
        from importlib.metadata import version

        return {
            "project": str(self.folder.absolute()),
            "host": os.uname().nodename,
            "version": version("graphmill"),
        }


def level_of(event: dict[str, Any]) -> Level:
    """Return the level of an event.

    A run that has to be started again by hand ends with an error, and one that goes on by itself
    with a warning.
    """
    code = event.get("exit_code", 0)
    if code not in (0, WAITING):
        return "error"
    goes_on_by_itself = code == WAITING
    has_losses = event.get("rejects", 0) > 0
    has_failed = event.get("action") == "failed"
    if goes_on_by_itself or has_losses or has_failed:
        return "warning"
    return "info"


@dataclass
class LogFile:
    """The log of a run in a file, to which each line is appended as it comes.

    A disk that takes no line ends the log, and not the run.
    """

    path: Path
    lines: LogLines = field(init=False)
    advanced: float = 0.0

    def __post_init__(self) -> None:
        # data/runs is in the project's folder.
        self.lines = LogLines(self.path.parents[2], self._write_line)

    def tell(self, event: dict[str, Any]) -> None:
        """Write a line about an event, but not about every advance of a step."""
        if event["event"] in ADVANCES:
            now = time.monotonic()
            if now - self.advanced < LOGGED_EVERY:
                return
            self.advanced = now
        else:
            # A step that has just begun need not say how far it is.
            self.advanced = time.monotonic()
        self.lines.tell(event)

    def _write_line(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(line)


def log_of(runs: Runs, run_id: str) -> Progress:
    """Return the progress that writes the log of a run."""
    return Events(LogFile(runs.log_path(run_id)).tell)


@dataclass
class ProgressNotes(Progress):
    """The progress of a run that is also noted where other processes can read it.

    ``log`` gets all of it too.
    """

    progress: Progress
    runs: Runs
    begun: UnfinishedRun
    log: Progress = field(default_factory=Progress)
    said: float = 0.0

    def run_started(self, run_id: str, workflow: str) -> None:
        self.log.run_started(run_id, workflow)
        self.progress.run_started(run_id, workflow)

    def run_ended(self, report: RunReport) -> None:
        self.log.run_ended(report)
        self.progress.run_ended(report)

    def told(self, fact: str) -> None:
        self.log.told(fact)
        self.progress.told(fact)

    def step_started(self, step: str, position: int, steps: int) -> None:
        self._note(step=step, position=position, steps=steps, done=0, expected=0)
        self.log.step_started(step, position, steps)
        self.progress.step_started(step, position, steps)

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        if self._is_due:
            self._note(done=done, expected=expected)
        self.log.step_advanced(step, done, expected)
        self.progress.step_advanced(step, done, expected)

    def step_finished(self, report: StepReport) -> None:
        self.log.step_finished(report)
        self.progress.step_finished(report)

    def load_started(self) -> None:
        self._note(step="load", position=0, steps=0, done=0, expected=0)
        self.log.load_started()
        self.progress.load_started()

    def load_waits(self, fact: str) -> None:
        self._note(step=f"load, which waits: {fact}")
        self.log.load_waits(fact)
        self.progress.load_waits(fact)

    def load_advanced(self, store: str, part: str, done: int, expected: int) -> None:
        if self._is_due:
            self._note(step=f"load {store} {part}", done=done, expected=expected)
        self.log.load_advanced(store, part, done, expected)
        self.progress.load_advanced(store, part, done, expected)

    def load_finished(self, counts: LoadCounts, seconds: float) -> None:
        self.log.load_finished(counts, seconds)
        self.progress.load_finished(counts, seconds)

    @property
    def _is_due(self) -> bool:
        return time.monotonic() - self.said >= NOTED_EVERY

    def _note(self, **changed: Any) -> None:
        self.said = time.monotonic()
        self.begun = replace(self.begun, **changed, noted=time.time())
        self.runs.note(self.begun)
