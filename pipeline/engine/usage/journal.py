"""Usage: a row for every call to a model, kept from the moment it begins, whatever becomes of the
run.

<folder>/<run_id>.jsonl      while the run goes on: a line as a call begins, a line as it ends
<folder>/<run_id>.<digest of the file>.parquet    afterwards: the table; earlier versions wrote no
digest <folder>/questions           the same of questions, by day (questions.py)
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from glob import escape
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Self

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contract.schemas import BOOL, FLOAT, INT, STRING, table
from pipeline.engine.usage.lines import append, as_line, calls_of, read_lines, row_of
from pipeline.engine.usage.questions import QUESTIONS, day_of
from pipeline.errors import DiskFullError, UsageError
from pipeline.files import (
    digest_named,
    full_disk_named,
    is_as_named,
    publish_file,
    tell,
    temporary_file,
)
from pipeline.models.base import Usage

USAGE = table(
    "run_id", "at", "step", "row_id", "attempt",
    run_id=STRING, workflow=STRING, step=STRING, row_id=STRING, document_id=STRING, model=STRING,
    kind=STRING,
    outcome=STRING, attempt=INT, input_tokens=INT, cached_tokens=INT, output_tokens=INT, cost=FLOAT,
    seconds=FLOAT,
    texts=INT, at=FLOAT, question=STRING, workspace=STRING, key=STRING, mode=STRING, estimated=BOOL,
)  # fmt: skip
"""``outcome``: "ok", "throttled", a reject's reason code, "cut" for a stream that nobody read to
its end, or "unknown" for a call that a kill cut off; the tokens of both are an estimate. ``cost``
is null where the model has no price. ``at``: seconds since 1970 when it ended. ``question`` to
``mode`` are those of a question; its ``run_id`` is QUESTIONS and its ``step`` says what the call
was for; ``key`` names who asked, "" for the command line. ``estimated``: the endpoint did not
report the tokens of this call, so they and the cost are our own count."""
SECONDS_OF_A_DAY = 86_400
LATER_COLUMNS = {**dict.fromkeys(("question", "workspace", "key", "mode"), ""), "estimated": False}
"""The columns that files of earlier versions lack -> the value that stands in them then."""


@dataclass
class Journal:
    """The journal of a run's calls; threads may share it. What is written outlives the process.

    As a context it is closed at the end. If the run fails and closing fails too, the journal stays:
    the next run converts it to a table.

    A call that begins or ends where the disk is full raises DiskFullError; one that ends after
    ``close`` is unknown.
    """

    folder: Path
    run_id: str
    workflow: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._names = count()
        self._file: BinaryIO | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(OSError, DiskFullError) if kind else nullcontext():
            self.close()

    def begun(self, step: str, document_id: str, expected: Usage) -> str:
        """Write that a call is about to be sent, with its expected usage; return the call's
        name."""
        name = str(next(self._names))
        self._append({"begun": name, **self._row_of_call(step, document_id, expected)})
        return name

    def ended(self, step: str, document_id: str, usage: Usage, call: str | None) -> None:
        self._append({"ended": call, **self._row_of_call(step, document_id, usage)})

    def _row_of_call(self, step: str, document_id: str, usage: Usage) -> dict[str, Any]:
        return row_of(usage, workflow=self.workflow, step=step, document_id=document_id)

    def close(self) -> None:
        """Close the journal and convert it to a table."""
        with self.lock:
            self._closed = True
            if self._file:
                self._file.close()
                self._file = None
        settle(self.folder)

    def _append(self, line: Mapping[str, Any]) -> None:
        text = as_line(line)
        with self.lock, full_disk_named(self.folder):
            if self._closed:
                return
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._file = (self.folder / f"{self.run_id}.jsonl").open("a+b", buffering=0)
            append(self._file, text)


def settle(folder: Path) -> None:
    """Convert the journals of runs that ended or were killed, and those of questions of past days,
    to tables.

    Only for a caller who is alone in this folder.
    """
    _settle(folder, folder.glob("*.jsonl"))
    questions = folder / QUESTIONS
    yesterday = day_of(time.time() - SECONDS_OF_A_DAY)
    # Yesterday's questions may still be under way. Names of days sort by time.
    past = [journal for journal in questions.glob("*.jsonl") if journal.stem < yesterday]
    _settle(questions, past)


def _settle(folder: Path, journals: Iterable[Path]) -> None:
    """Convert each of these journals in the folder to a table, and delete it."""
    for journal in sorted(journals):
        paths = _tables_of(journal)
        tables = [_read_table(path) for path in paths]
        rows = USAGE.frame(list(_read_journal(journal)))
        new_rows = _not_in(tables, rows)
        # A journal without a call becomes a table too.
        if len(new_rows) or not paths:
            with temporary_file(folder) as temporary:
                table = USAGE.encode(new_rows, journal.name)
                pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)
                name = digest_named(journal.stem, temporary)
                publish_file(temporary, folder / f"{name}.parquet")
        # Only now: a kill before this leaves a table and its journal, whose rows count once.
        journal.unlink()


def _not_in(tables: Iterable[pd.DataFrame | None], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a journal that are in none of its tables.

    All are in one where a kill came before the journal was deleted; none are where a clock that was
    ahead ended a day too early.
    """
    known = [frame for frame in tables if frame is not None and len(frame)]
    if not known or rows.empty:
        return rows
    # The journal's rows come last, so those that a table has are duplicates of earlier ones.
    together = pd.concat([*known, rows])
    is_duplicate = together.duplicated().to_numpy()
    is_known = is_duplicate[-len(rows) :]
    return rows[~is_known]


def read_usage(folder: Path) -> pd.DataFrame:
    """Return all calls of all runs, also of runs under way, and of all questions, with USAGE's
    columns."""
    return _join([_read_folder(folder), _read_folder(folder / QUESTIONS)])


def usage_of(folder: Path, runs: Iterable[str]) -> pd.DataFrame:
    """Return the calls of these runs alone, as ``read_usage``; no file of another run is opened."""
    return _join([_read_folder(folder, escape(run)) for run in runs])


def _join(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the calls of several tables in one."""
    # Empty tables are left out: they would change the types of the columns.
    with_calls = [frame for frame in frames if not frame.empty]
    if not with_calls:
        return USAGE.frame()
    return pd.concat(with_calls, ignore_index=True)


def _read_folder(folder: Path, name: str = "*") -> pd.DataFrame:
    """Return the calls in this folder. ``name``: a pattern of runs, or days."""
    # Journals are read before tables: one that is gone by then has become a table.
    journals = {}
    for journal in sorted(folder.glob(f"{name}.jsonl")):
        with suppress(FileNotFoundError):
            journals[journal] = USAGE.frame(list(_read_journal(journal)))
    tables = {path: _read_table(path) for path in sorted(folder.glob(f"{name}.*parquet"))}
    frames = [frame for frame in tables.values() if frame is not None]
    for journal, rows in journals.items():
        tables_of_journal = [tables.get(path) for path in _tables_of(journal)]
        frames.append(_not_in(tables_of_journal, rows))
    return _join(frames)


def _read_table(path: Path) -> pd.DataFrame | None:
    """Read a table of calls. A missing one gives None; a damaged one gives None and a message."""
    try:
        if not is_as_named(path):
            raise ValueError("not what was written")
        table = pq.read_table(path, page_checksum_verification=True)
        for name in USAGE.columns:
            if name in table.column_names:
                continue
            if name not in LATER_COLUMNS:
                raise ValueError(f"it has no column '{name}'")
            value = LATER_COLUMNS[name]
            column_type = USAGE.arrow.field(name).type
            values = pa.array([value] * len(table), column_type)
            table = table.append_column(name, values)
        # Columns that only a later version knows are left out.
        return table.select(USAGE.columns).cast(USAGE.arrow).to_pandas()
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException, ValueError) as error:
        tell(
            f"{path}: damaged ({error}); its calls are not counted; put the file of your backup in"
            " its place"
        )
        return None


def _tables_of(journal: Path) -> list[Path]:
    """Return the tables that were made of a journal.

    There is none yet, one, or one more for each time that its day was ended too early.
    """
    return list(journal.parent.glob(f"{journal.stem}.*parquet"))


COLUMNS = {
    "run": "run_id",
    "step": "step",
    "document": "document_id",
    "model": "model",
    "outcome": "outcome",
}
COLUMNS_OF_QUESTIONS = {
    "question": "question",
    "key": "key",
    "mode": "mode",
    "workspace": "workspace",
}


def sums(usage: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return sums of calls, of answered calls (``ok``), of calls with ``estimated`` tokens, of
    tokens, cost and seconds.

    ``by``: run, step, document, model, outcome or day (of UTC); for questions also question, key,
    mode or workspace. ``cost`` is null where a model has no price. Raises UsageError for another
    column.
    """
    known = [*COLUMNS, "day", *COLUMNS_OF_QUESTIONS]
    if by not in known:
        raise UsageError(f"usage: cannot sum by '{by}'; by: {', '.join(known)}")
    asked = usage[usage["question"] != ""] if by in COLUMNS_OF_QUESTIONS else usage
    rows = asked.assign(
        calls=1,
        ok=(asked["outcome"] == "ok").astype(int),
        priced=asked["cost"].notna(),
        day=asked["at"].map(day_of),
    )
    column_names = COLUMNS | COLUMNS_OF_QUESTIONS
    grouped = rows.groupby(column_names.get(by, by), sort=True)
    counted = [
        "calls",
        "ok",
        "estimated",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "cost",
        "seconds",
    ]
    totals = grouped[counted].sum()
    # A sum leaves out missing prices, so a group with one of them has no cost.
    has_all_prices = grouped["priced"].all()
    totals["cost"] = totals["cost"].where(has_all_prices)
    return totals.reset_index()


def _read_journal(journal: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a journal's calls, with the columns that earlier versions did not write."""
    with journal.open("rb") as lines:
        for row in calls_of(read_lines(lines, journal)):
            yield {"run_id": journal.stem, **LATER_COLUMNS, **row}
