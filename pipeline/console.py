"""What a run shows while it goes on: bars for people, lines where there is no terminal, JSON for machines.

Everything here goes to stderr; stdout is for results.
"""

import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pipeline.doctor.finding import Finding
from pipeline.engine.plan import PlannedStep
from pipeline.engine.report import LoadCounts, StepReport
from pipeline.engine.runner import Progress as RunProgress

HEARTBEAT_SECONDS = 20
MOST_REJECTS = 5
SHOWN_OF_A_REJECT = ["step", "row_id", "reason", "message"]


@contextmanager
def run_progress(log: str) -> Iterator[RunProgress]:
    """``log``: "auto" (bars on a terminal, else lines) or "json"."""
    console = Console(stderr=True)
    if log == "json":
        yield JsonLines()
    elif console.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bars:
            yield Bars(bars)
    else:
        with _beating(Lines()) as lines:
            yield lines


def describe(report: StepReport) -> str:
    """A finished step in one line."""
    rows = ", ".join(f"{count:,} {table}" for table, count in report.rows.items())
    calls = f"; {report.calls} calls" if report.calls else ""
    known = f"; {report.cached_calls} known" if report.cached_calls else ""
    reasons = ", ".join(f"{count} {reason}" for reason, count in report.reject_reasons.items())
    rejects = f"; {report.rejects} left out ({reasons})" if reasons else ""
    why = f"reused{' ' * 7}" if report.action == "reused" else f"ran ({report.reason})".ljust(13)
    return f"{report.step:<22} {why} {rows}{calls}{known}{rejects}  {report.seconds:.1f} s"


def describe_load(load: LoadCounts, seconds: float) -> str:
    """One line a store."""
    lines = [f"load {store:<17} {_counts(tables)}" for store, tables in load.items()]
    return "\n".join(lines) + f"  {seconds:.1f} s"


def _counts(tables: Mapping[str, Mapping[str, int]]) -> str:
    return "; ".join(
        f"{table} " + (", ".join(f"{n:,} {what}" for what, n in counts.items() if n) or "empty")
        for table, counts in tables.items()
    )


@dataclass
class Bars:
    bars: Progress
    task: Any = None

    def step_started(self, step: str, position: int, steps: int) -> None:
        self.task = self.bars.add_task(f"[{position}/{steps}] {step}", total=None)

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        self.bars.update(self.task, completed=done, total=max(expected, done))

    def step_finished(self, report: StepReport) -> None:
        self._end(describe(report))

    def load_started(self) -> None:
        self.task = self.bars.add_task("load", total=None)

    def load_finished(self, counts: LoadCounts, seconds: float) -> None:
        self._end(describe_load(counts, seconds))

    def _end(self, line: str) -> None:
        self.bars.remove_task(self.task)
        self.bars.console.print(line, highlight=False, markup=False)


@dataclass
class Lines:
    """One line a finished step, and one now and then inside a long one."""

    last: float = field(default_factory=time.monotonic)
    doing: str = ""
    started: float = field(default_factory=time.monotonic)

    def step_started(self, step: str, position: int, steps: int) -> None:
        self._begin(step)

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        self.doing = f"{step:<22} {done:,} of {expected:,}"

    def step_finished(self, report: StepReport) -> None:
        self._say(describe(report))

    def load_started(self) -> None:
        self._begin("load")

    def load_finished(self, counts: LoadCounts, seconds: float) -> None:
        self._say(describe_load(counts, seconds))

    def beat(self) -> None:
        """Called every second: a line where nothing has been said for long."""
        if self.doing and time.monotonic() - self.last >= HEARTBEAT_SECONDS:
            self._say(f"{self.doing:<22} ... {time.monotonic() - self.started:.0f} s")

    def _begin(self, what: str) -> None:
        self.doing, self.last = what, time.monotonic()
        self.started = self.last

    def _say(self, line: str) -> None:
        self.last = time.monotonic()
        print(line, file=sys.stderr, flush=True)


@contextmanager
def _beating(lines: Lines) -> Iterator[Lines]:
    over = threading.Event()

    def beat() -> None:
        while not over.wait(1):
            lines.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        over.set()
        thread.join()


@dataclass
class JsonLines:
    """One JSON object a line: step_started, step_advanced (at most one a second), step_finished."""

    last: float = 0.0

    def step_started(self, step: str, position: int, steps: int) -> None:
        self._say({"event": "step_started", "step": step, "position": position, "steps": steps})

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        if time.monotonic() - self.last >= 1 or done == expected:
            self._say({"event": "step_advanced", "step": step, "done": done, "expected": expected})

    def step_finished(self, report: StepReport) -> None:
        self._say({"event": "step_finished", **asdict(report)})

    def load_started(self) -> None:
        self._say({"event": "load_started"})

    def load_finished(self, counts: LoadCounts, seconds: float) -> None:
        self._say({"event": "load_finished", "load": counts, "seconds": seconds})

    def _say(self, content: dict[str, Any]) -> None:
        self.last = time.monotonic()
        print(json.dumps(content, ensure_ascii=False), file=sys.stderr, flush=True)


def print_plan(planned: list[PlannedStep]) -> None:
    for entry in planned:
        reason = f": {entry.reason}" if entry.reason else ""
        print(f"{entry.step.id:<22} {entry.action}{reason}")


def print_findings(findings: Iterable[Finding]) -> None:
    """A line a finding, and under it, where there is something to do, what."""
    for finding in findings:
        print(f"{finding.verdict:<8} {finding.area:<9} {finding.what:<22} {finding.fact}")
        if finding.action:
            print(f"{'':<41} -> {finding.action}")


def print_report(report: dict[str, Any], rejects: pd.DataFrame | None = None) -> None:
    """The end of a run, for people; ``report`` is RunReport's JSON."""
    totals = report["totals"]
    if rejects is not None:
        for step, row, reason, message in rejects[SHOWN_OF_A_REJECT].head(MOST_REJECTS).itertuples(index=False):
            print(f"left out by {step}: {row}: {reason}: {message}")
        if len(rejects) > MOST_REJECTS:
            print(f"... and {len(rejects) - MOST_REJECTS} more, in the table 'rejects'")
    cost = "" if totals["cost"] is None else f", cost {totals['cost']:.4f}"
    calls = f"{totals['calls']} model calls ({totals['cached_calls']} known)"
    tokens = f"{totals['input_tokens']:,} + {totals['output_tokens']:,} tokens{cost}"
    print(f"{calls}, {tokens}, {totals['rejects']} rejects, {totals['seconds']:.1f} s")
    print(f"{report['workflow']}: {report['outcome'].replace('_', ' ')}  {report['message']}".rstrip())
