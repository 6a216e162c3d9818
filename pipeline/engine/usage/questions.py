"""Calls made for questions: one row each, of all processes of a project, in one file a day.

    <folder>/<day>.jsonl      all processes append to it: a line as a call begins, a line as it ends
    <folder>/<day>.parquet    the table that a later run makes of it (journal.py)

Days are those of UTC. No text of a question is in it, and no key.
"""

import fcntl
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipeline.engine.usage.lines import append, as_line, read_lines, row_of
from pipeline.errors import StoreError, in_words
from pipeline.files import full_disk_named
from pipeline.models.base import Usage, margin_of

QUESTIONS = "questions"
"""The folder of questions within that of the runs' journals, and the run id in their rows."""


def day_of(moment: float) -> str:
    """Return the day (of UTC) of a moment in seconds since 1970, as 2024-05-03."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"


def seconds_left() -> int:
    """Return the seconds until the day (of UTC) ends, rounded up."""
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    next_midnight = midnight + timedelta(days=1)
    left = next_midnight - now
    return int(left.total_seconds()) + 1


def new_question_id() -> str:
    """Return a new id of a question; ids sort by the time they were made."""
    return f"q-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


@dataclass
class _Day:
    """The state of a day's file up to ``read`` bytes of it.

    ``spent``: cost by key. ``under_way``: key and expected cost of calls that have not ended.
    """

    name: str
    read: int = 0
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    under_way: dict[str, tuple[str, float]] = field(default_factory=dict)


@dataclass
class QuestionJournal:
    """The journal of questions. Threads may share it, and any number of processes the folder.

    ``counted`` is called with each call that has ended, as for the metrics of a server.

    Raises DiskFullError, or StoreError where the file cannot be written: a call that could not be
    counted is not made.
    """

    folder: Path
    counted: Callable[[Usage], object] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    _day: _Day = field(default_factory=lambda: _Day(""))

    def begun(self, call: str, expected: Usage, kind: str, said: Mapping[str, str]) -> str:
        """Write that a call begins; return its name with the day, which ``ended`` needs.

        ``call``: a name that no other call has. ``said``: whose call it is, by column.
        """
        day = day_of(time.time())
        self._append(day, {"begun": call, **_row_of_question(expected, kind, said)})
        return f"{day}/{call}"

    def ended(self, named: str, usage: Usage, kind: str, said: Mapping[str, str]) -> None:
        if self.counted is not None:
            self.counted(usage)
        day, _, call = named.partition("/")
        self._append(day, {"ended": call, **_row_of_question(usage, kind, said)})

    def spent_today(self) -> Mapping[str, float]:
        """Return by key what the calls of this day count against a limit, those under way as far as
        it is known.

        A call whose tokens are estimated counts ``ESTIMATE_MARGIN`` times its cost; one without a
        price counts 0."""
        with self.lock:
            self._catch_up(day_of(time.time()))
            spent = self._day.spent.copy()
            for key, cost in self._day.under_way.values():
                spent[key] += cost
            return spent

    def _catch_up(self, today: str) -> None:
        """Read what was appended since the last time."""
        if self._day.name != today:
            self._day = _Day(today)
        day = self._day
        path = self._file_of(today)
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(day.read)
            added = file.read()
        # Another process may be writing the last line: it is read next time.
        whole = added[: added.rfind(b"\n") + 1]
        day.read += len(whole)
        for line in read_lines(whole.splitlines(), path):
            key = line.get("key", "")
            # Lines of earlier versions do not say whether they are estimated.
            is_estimated = bool(line.get("estimated"))
            price = line["cost"] or 0.0
            cost = price * margin_of(is_estimated)
            if "begun" in line:
                day.under_way[line["begun"]] = (key, cost)
            else:
                day.under_way.pop(line.get("ended") or "", None)
                day.spent[key] += cost

    def _file_of(self, day: str) -> Path:
        return self.folder / f"{day}.jsonl"

    def _append(self, day: str, line: Mapping[str, Any]) -> None:
        try:
            with full_disk_named(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                with self._file_of(day).open("a+b", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    append(file, as_line(line))
        except OSError as error:
            fact = f"what a question costs could not be written ({in_words(error)})"
            raise StoreError(f"{self.folder}: {fact}; let this user write there") from None


def _row_of_question(usage: Usage, kind: str, said: Mapping[str, str]) -> dict[str, Any]:
    columns = {**said, "step": usage.row_id or kind}
    return {"run_id": QUESTIONS, **row_of(usage, kind, **columns)}
