"""Usage: a row for every call to a model, kept from the moment it begins, whatever becomes of the run.

<folder>/<run_id>.jsonl      while the run goes on: a line as a call begins, a line as it ends
<folder>/<run_id>.parquet    afterwards: the table
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
import pyarrow.parquet as pq

from pipeline.errors import UsageError
from pipeline.models.base import Usage
from pipeline.schemas import FLOAT, INT, STRING, table
from pipeline.snapshots import publish_file, temporary_file

USAGE = table(
    "run_id", "at", "step", "row_id", "attempt",
    run_id=STRING, workflow=STRING, step=STRING, row_id=STRING, document_id=STRING, model=STRING, kind=STRING,
    outcome=STRING, attempt=INT, input_tokens=INT, cached_tokens=INT, output_tokens=INT, cost=FLOAT, seconds=FLOAT,
    texts=INT, at=FLOAT,
)  # fmt: skip
"""``outcome``: "ok", "throttled", a reject's reason code, or "unknown" for a call that a kill cut off: its tokens are
then an estimate. ``cost`` is null where the model has no price. ``at``: seconds since 1970 when it ended."""

UNKNOWN = "unknown"


@dataclass
class Journal:
    """The calls of one run under way; threads may share it. What is written outlives the process."""

    folder: Path
    run_id: str
    workflow: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._names = count()
        self._file: TextIO | None = None

    def begun(self, step: str, document_id: str, expected: Usage) -> str:
        """A call is about to be sent, and what it is expected to take; returns its name."""
        name = str(next(self._names))
        self._write({"begun": name, **self._row(step, document_id, expected)})
        return name

    def ended(self, step: str, document_id: str, usage: Usage, call: str | None) -> None:
        self._write({"ended": call, **self._row(step, document_id, usage)})

    def _row(self, step: str, document_id: str, usage: Usage) -> dict[str, Any]:
        return {
            "workflow": self.workflow, "step": step, "row_id": usage.row_id, "document_id": document_id,
            "model": usage.model, "kind": "embedding" if usage.texts else "chat", "outcome": usage.outcome,
            "attempt": usage.attempt, "input_tokens": usage.input_tokens, "cached_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens, "cost": usage.cost, "seconds": round(usage.seconds, 4),
            "texts": usage.texts, "at": time.time(),
        }  # fmt: skip

    def close(self) -> None:
        """The journal becomes a table."""
        with self.lock:
            if self._file:
                self._file.close()
                self._file = None
        settle(self.folder)

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False) + "\n"
        with self.lock:
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._file = (self.folder / f"{self.run_id}.jsonl").open("a", encoding="utf-8", buffering=1)
            self._file.write(text)


def settle(folder: Path) -> None:
    """Make tables of the journals that ended runs, or killed ones, have left. Only for a caller who is alone here."""
    for journal in sorted(folder.glob("*.jsonl")):
        frame = USAGE.frame(list(_rows(journal)))
        with temporary_file(folder) as temporary:
            pq.write_table(USAGE.encode(frame, journal.name), temporary, compression="zstd")
            publish_file(temporary, journal.with_suffix(".parquet"))
        journal.unlink()


def read_usage(folder: Path) -> pd.DataFrame:
    """All calls of all runs, also of one that goes on; USAGE's columns."""
    frames = [pq.read_table(path).to_pandas() for path in sorted(folder.glob("*.parquet"))]
    frames += [USAGE.frame(list(_rows(journal))) for journal in sorted(folder.glob("*.jsonl"))]
    return pd.concat(frames, ignore_index=True) if frames else USAGE.frame()


COLUMNS = {"run": "run_id", "step": "step", "document": "document_id", "model": "model", "outcome": "outcome"}


def sums(usage: pd.DataFrame, by: str) -> pd.DataFrame:
    """Calls, those that were answered (``ok``), tokens, cost and seconds by run, step, document, model or outcome;
    ``cost`` is null where a model has no price. Raises UsageError for another column."""
    if by not in COLUMNS:
        raise UsageError(f"usage: cannot sum by '{by}'; by: {', '.join(COLUMNS)}")
    rows = usage.assign(calls=1, ok=(usage["outcome"] == "ok").astype(int), priced=usage["cost"].notna())
    grouped = rows.groupby(COLUMNS[by], sort=True)
    counted = ["calls", "ok", "input_tokens", "cached_tokens", "output_tokens", "cost", "seconds"]
    totals = grouped[counted].sum()
    totals["cost"] = totals["cost"].where(grouped["priced"].all())
    return totals.reset_index()


def _rows(journal: Path) -> Iterator[dict[str, Any]]:
    open_calls: dict[str, dict[str, Any]] = {}
    with journal.open(encoding="utf-8") as lines:
        for text in lines:
            try:
                line = json.loads(text)
            except ValueError:  # the machine went down in the middle of a line
                continue
            name = line.pop("begun", None)
            if name is not None:
                open_calls[name] = line
                continue
            open_calls.pop(line.pop("ended"), None)
            yield {"run_id": journal.stem, **line}
    for line in open_calls.values():
        yield {"run_id": journal.stem, **line, "outcome": UNKNOWN}
