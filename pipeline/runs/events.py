"""The events of a run, as dicts of JSON values for programs that follow it.

run_started     run, workflow
step_started    step, position, steps
step_advanced   step, done, expected: rows of work; at most one a second, and when all is done
step_finished   the fields of StepReport
told            message: a fact to know meanwhile, such as the address of a cluster's
                dashboard, or which worker is refused and why
load_started
load_waits      message: another client holds the workspace, which one, and since when
load_advanced   store, part (a table or an index), done, expected, rows_per_second: at most
                one a second, and at its end (of an index, pages of its table instead of rows)
load_finished   load (LoadCounts), seconds
heartbeat       step, done, expected, seconds since it started: no other event for long
run_ended       outcome, exit_code, message, and the totals of the report: always the last event
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.engine.run_report import LoadCounts, Progress, RunReport, StepReport

HEARTBEAT_SECONDS = 20
LOAD = "load"

OnEvent = Callable[[dict[str, Any]], None]


@dataclass
class Pulse:
    """The step that is under way, how far it is, and when the last event was sent.

    Times are in seconds on the monotonic clock.
    """

    step: str = ""
    done: int = 0
    expected: int = 0
    started: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)

    def part(self, name: str, done: int, expected: int) -> None:
        """Note how far a part of the step is; the time of a part starts with its first event."""
        if name != self.step:
            self.step = name
            self.started = time.monotonic()
        self.done = done
        self.expected = expected

    def is_worth_telling(self, done: int, expected: int) -> bool:
        """Return whether progress is sent: at most once a second, and when all is done."""
        seconds_since_last_event = time.monotonic() - self.said
        return seconds_since_last_event >= 1 or done == expected

    @property
    def rate(self) -> int:
        """The number of rows, or pages, done per second."""
        return round(self.done / max(self.seconds, 1e-3))

    @property
    def due(self) -> bool:
        """Work is under way, and the last event was HEARTBEAT_SECONDS ago or more."""
        return bool(self.step) and time.monotonic() - self.said >= HEARTBEAT_SECONDS

    @property
    def seconds(self) -> float:
        """Seconds since the step, or its present part, started."""
        return time.monotonic() - self.started


@dataclass
class Events(Progress):
    """The progress of a run that passes every event to ``tell``.

    If ``tell`` raises an error, the run ends. An OSError is the exception: its output is gone or
    full, which is no fault of the run, and ``tell`` is not called again.

    The caller calls ``beat`` about every second for heartbeats; ``tell`` is then called from two
    threads.
    """

    tell: OnEvent
    pulse: Pulse = field(default_factory=Pulse)
    unheard: bool = False

    def run_started(self, run_id: str, workflow: str) -> None:
        self._say({"event": "run_started", "run": run_id, "workflow": workflow})

    def run_ended(self, report: RunReport) -> None:
        # Nothing is under way any more, so no heartbeat may follow.
        self.pulse = Pulse()
        end = {"outcome": report.outcome, "exit_code": report.exit_code, "message": report.message}
        self._say({"event": "run_ended", **end, **report.totals})

    def told(self, fact: str) -> None:
        self._say({"event": "told", "message": fact})

    def step_started(self, step: str, position: int, steps: int) -> None:
        self.pulse = Pulse(step)
        self._say({"event": "step_started", "step": step, "position": position, "steps": steps})

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        self.pulse.done, self.pulse.expected = done, expected
        if self.pulse.is_worth_telling(done, expected):
            self._say({"event": "step_advanced", "step": step, "done": done, "expected": expected})

    def step_finished(self, report: StepReport) -> None:
        self._say({"event": "step_finished", **asdict(report)})

    def load_started(self) -> None:
        self.pulse = Pulse(LOAD)
        self._say({"event": "load_started"})

    def load_waits(self, fact: str) -> None:
        self._say({"event": "load_waits", "message": fact})

    def load_advanced(self, store: str, part: str, done: int, expected: int) -> None:
        self.pulse.part(f"{LOAD} {store} {part}", done, expected)
        if self.pulse.is_worth_telling(done, expected):
            count = {"done": done, "expected": expected, "rows_per_second": self.pulse.rate}
            self._say({"event": "load_advanced", "store": store, "part": part, **count})

    def load_finished(self, counts: LoadCounts, seconds: float) -> None:
        self._say({"event": "load_finished", "load": counts, "seconds": seconds})

    def beat(self) -> None:
        """Send a heartbeat if one is due."""
        pulse = self.pulse
        if pulse.due:
            where = {"step": pulse.step, "done": pulse.done, "expected": pulse.expected}
            self._say({"event": "heartbeat", **where, "seconds": round(pulse.seconds, 1)})

    def _say(self, event: dict[str, Any]) -> None:
        """Send an event, unless the output of an earlier one was gone."""
        self.pulse.said = time.monotonic()
        if self.unheard:
            return
        try:
            self.tell(event)
        except OSError:
            self.unheard = True
