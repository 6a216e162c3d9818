"""Show the progress of a run: bars on a terminal, lines without one, JSON for machines.

Everything here goes to stderr; stdout is for results.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.console import describe, describe_load
from pipeline.cli.options import outlive_terminal, print_whole
from pipeline.engine.run_report import LoadCounts, Progress, StepReport
from pipeline.runs.events import LOAD, Events, Pulse
from pipeline.runs.run_log import LogLines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    from pipeline.stores.base import Advanced


WIDE_ENOUGH = 80


@contextmanager
def run_progress(log: str, folder: Path) -> Iterator[Progress]:
    """Yield the display of a run's progress.

    ``log`` is "auto" (bars on a terminal, else lines) or "json". ``folder`` is the project's. The
    run goes on if the terminal is closed, or if nobody reads the display any more.
    """
    with outlive_terminal(), _choose_display(log, folder) as progress:
        yield progress


@contextmanager
def _choose_display(log: str, folder: Path) -> Iterator[Progress]:
    if log == "json":
        events = Events(LogLines(folder, print_whole).tell)
        with _beating(events.beat):
            yield events
        return
    terminal = _terminal()
    if terminal is None:
        lines = Lines()
        with _beating(lines.beat):
            yield lines
        return
    with _bars(terminal) as bars:
        yield Bars(bars)


def _terminal() -> "Console | None":
    """Return the terminal on stderr for bars, or None. Without one, rich is not imported."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None


@contextmanager
def counting(command: str) -> Iterator["Advanced"]:
    """Yield a function that shows the progress of a command by a bar, if there is a terminal.

    It takes the name of a sub-step, how much of it is done, and how much is expected.
    """
    terminal = _terminal()
    if terminal is None:
        yield lambda part, done, expected: None
        return
    with _bars(terminal) as bars:
        display = Bars(bars, bars.add_task(command, total=None))

        def advance(part: str, done: int, expected: int) -> None:
            display.part(f"{command} {part}", done, expected)

        yield advance


def _bars(console: "Console") -> "RichProgress":
    """Return a display of bars on the terminal.

    In a narrow terminal it has no bar, and long names take two lines: the counts matter most.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.table import Column

    bar = [BarColumn(bar_width=24)] if console.width >= WIDE_ENOUGH else []
    name = TextColumn("{task.description}", table_column=Column())
    columns = (SpinnerColumn(), name, *bar, MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


@dataclass
class Bars(Progress):
    """Shows the step under way by a bar, and finished steps by a line each."""

    bars: "RichProgress"
    task: Any = None
    pulse: Pulse = field(default_factory=Pulse)

    def told(self, fact: str) -> None:
        self.bars.console.print(fact, highlight=False, markup=False)

    def step_started(self, step: str, position: int, steps: int) -> None:
        self.task = self.bars.add_task(f"[{position}/{steps}] {step}", total=None)

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        self.bars.update(self.task, completed=done, total=max(expected, done))

    def step_finished(self, report: StepReport) -> None:
        self._end(describe(report))

    def load_started(self) -> None:
        self.pulse = Pulse(LOAD)
        self.task = self.bars.add_task(LOAD, total=None)

    def load_waits(self, fact: str) -> None:
        self.bars.console.print(f"{LOAD}: {fact}", highlight=False, markup=False)

    def load_advanced(self, store: str, part: str, done: int, expected: int) -> None:
        self.part(f"{LOAD} {store} {part}", done, expected)

    def part(self, name: str, done: int, expected: int) -> None:
        """Show how much of a sub-step is done, with the rate per second."""
        if name != self.pulse.step:
            # A bar that was full once stays finished, and its clock stops: each name has its own.
            self.bars.remove_task(self.task)
            self.task = self.bars.add_task(name, total=None)
        self.pulse.part(name, done, expected)
        rate = f" {self.pulse.rate:,}/s" if done else ""
        self.bars.update(
            self.task, description=f"{name}{rate}", completed=done, total=expected or None
        )

    def load_finished(self, counts: LoadCounts, seconds: float) -> None:
        self._end(describe_load(counts, seconds))

    def _end(self, line: str) -> None:
        self.bars.remove_task(self.task)
        self.bars.console.print(line, highlight=False, markup=False)


@dataclass
class Lines(Progress):
    """Prints a line for each finished step, and now and then one about a long step under way."""

    pulse: Pulse = field(default_factory=Pulse)

    def told(self, fact: str) -> None:
        self._say(fact)

    def step_started(self, step: str, position: int, steps: int) -> None:
        self.pulse = Pulse(step)

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        self.pulse.done, self.pulse.expected = done, expected

    def step_finished(self, report: StepReport) -> None:
        self._say(describe(report))

    def load_started(self) -> None:
        self.pulse = Pulse(LOAD)

    def load_waits(self, fact: str) -> None:
        self._say(f"{LOAD}: {fact}")

    def load_advanced(self, store: str, part: str, done: int, expected: int) -> None:
        self.pulse.part(f"{LOAD} {store} {part}", done, expected)

    def load_finished(self, counts: LoadCounts, seconds: float) -> None:
        self._say(describe_load(counts, seconds))

    def beat(self) -> None:
        """Print a line if nothing was printed for long. It is called every second."""
        pulse = self.pulse
        if pulse.due:
            count = f" {pulse.done:,} of {pulse.expected:,}" if pulse.expected else ""
            self._say(f"{pulse.step:<22}{count} ... {pulse.seconds:.0f} s")

    def _say(self, line: str) -> None:
        self.pulse.said = time.monotonic()
        _print_line(line)


@contextmanager
def _beating(beat: Callable[[], None]) -> Iterator[None]:
    """Call ``beat`` every second in a thread, until the block ends."""
    over = threading.Event()

    def beats() -> None:
        while not over.wait(1):
            beat()

    thread = threading.Thread(target=beats, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _print_line(line: str) -> None:
    print_whole(f"{line}\n")
