"""Runs of a project: one at a time, each with a report that is kept."""

import fcntl
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.engine.run_report import LoadCounts, Progress, RunReport, StepReport
from pipeline.errors import DamagedError, DiskFullError, LockedError
from pipeline.files import read_checked, read_json, tell, write_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

NAMES, STEP_NAMES = (
    frozenset(field.name for field in fields(kind)) for kind in (RunReport, StepReport)
)
TOTALS = frozenset(
    {"calls", "cached_calls", "input_tokens", "output_tokens", "rejects", "seconds", "cost"}
)
"""That every version's report has."""
BEGUN = ".begun"
STAMP, MOMENT = "%Y%m%dT%H%M%S.%f", re.compile(r"\d{8}T\d{6}\.\d{6}(?=-)")
"""With which the id of a run begins."""
NOTED_EVERY = 2.0
"""Seconds between two notes of how far a step is."""
PATIENCE = 0.5
"""Seconds in which a look at the lock, which holds it for no time, gets out of a run's way."""
UNDER_WAY, KILLED, DAMAGED = "under_way", "killed", "damaged"


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that has not reported, and how far it was when that was last noted: a step of
    ``steps``, rows of model work or of a load that are done. ``process``: as the lock's holder is
    named. ``began``: ISO 8601, what the clock said as it began; "" where an earlier version noted
    nothing."""

    run_id: str
    workflow: str = ""
    process: str = ""
    step: str = ""
    position: int = 0
    steps: int = 0
    done: int = 0
    expected: int = 0
    noted: float = 0.0
    began: str = ""

    @property
    def start(self) -> str:
        """When it began: as noted, else as its id tells."""
        return self.began or began(self.run_id)


@dataclass(frozen=True)
class RunEntry:
    """A run as it is listed. ``began``, ``ended``: ISO 8601, "" where it is not known; ``outcome``:
    a report's, or "under_way", "killed" for one that was cut off, or "damaged" where the report is;
    ``manifest``: under whose id the tables are kept that were the newest when it ended, "" for
    none; ``cost`` is None where a model has no price; ``rows_written``: those that its load has put
    into the stores, changed there or taken out."""

    run_id: str
    workflow: str
    outcome: str
    began: str
    ended: str = ""
    exit_code: int | None = None
    calls: int = 0
    cost: float | None = 0.0
    rejects: int = 0
    manifest: str = ""
    message: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    rows_written: int = 0
    decided: int = 0

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> "RunEntry":
        """From a run's report."""
        totals, run_id = report["totals"], report["run_id"]
        start = report.get("began") or began(run_id)
        end = report.get("ended") or ""
        if start and not end:  # of an earlier version: as long as its steps took
            took = timedelta(seconds=round(totals["seconds"]))
            end = f"{datetime.fromisoformat(start) + took:%Y-%m-%dT%H:%M:%SZ}"
        return cls(
            run_id, report["workflow"], report["outcome"], start, end, report["exit_code"],
            totals["calls"],
            totals["cost"], totals["rejects"], message=report["message"],
            input_tokens=totals["input_tokens"],
            output_tokens=totals["output_tokens"], rows_written=rows_written(report["load"]),
            # Reports of earlier versions count it among the rejects.
            decided=totals.get("decided", 0),
        )  # fmt: skip

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        if not self.began or not self.ended:
            return None
        return max(
            (
                datetime.fromisoformat(self.ended) - datetime.fromisoformat(self.began)
            ).total_seconds(),
            0.0,
        )


@dataclass(frozen=True)
class Runs:
    """``folder`` holds ``<run_id>.json`` for each run, and the lock. ``hold_snapshots``: for as
    long as the project is held: another may have named the same ones."""

    folder: Path
    hold_snapshots: Callable[[], AbstractContextManager[None]] = nullcontext

    @classmethod
    def of(cls, project: Path) -> "Runs":
        return cls(project / "data" / "runs")

    def new_id(self) -> str:
        """Sorts by time, and after all runs that are there, also where the clock has been set back
        since."""
        names = (
            MOMENT.match(path.name)
            for path in (*self.folder.glob("*.json"), *self.folder.glob(f"*{BEGUN}"))
        )
        newest = max((name[0] for name in names if name), default="")
        now = f"{datetime.now(UTC):{STAMP}}"
        if now <= newest:
            now = f"{datetime.strptime(newest, STAMP) + timedelta(microseconds=1):{STAMP}}"
        return f"{now}-{secrets.token_hex(3)}"

    def save(self, report: RunReport) -> None:
        write_json(self._path(report.run_id), report.to_json())
        self._begun(report.run_id).unlink(missing_ok=True)

    def note(self, begun: UnfinishedRun) -> None:
        """How far a run is, for those who look on; beside the point of it, so that nothing is
        raised."""
        with suppress(OSError, DiskFullError):
            write_json(self._begun(begun.run_id), asdict(begun))

    def unreported(self) -> list[UnfinishedRun]:
        """The runs that began and have not reported, the newest first: at most one is under way,
        the others were cut off."""
        paths = sorted(self.folder.glob(f"*{BEGUN}"), reverse=True)
        return [_read_begun(path) for path in paths if not self._path(path.stem).exists()]

    def under_way(self) -> UnfinishedRun | None:
        """The run that goes on at this moment."""
        process, _, since = (self.holder() or "").partition(", since ")
        if not process:
            return None
        # An earlier process may have had the same number, as in containers.
        held = f"{since[:19].replace(' ', 'T')}Z"
        its = (
            begun for begun in self.unreported() if begun.process == process and begun.start >= held
        )
        return next(its, None)

    def known_ids(self) -> list[str]:
        """Of all runs that are known, the newest first, those too that have not reported."""
        return sorted(
            {*self.all_ids(), *(begun.stem for begun in self.folder.glob(f"*{BEGUN}"))},
            reverse=True,
        )

    def entries(self, of: Sequence[str] | None = None) -> list[RunEntry]:
        """The runs of these ids, by default all that are known, the newest first."""
        going = self.under_way()
        chosen = self.known_ids() if of is None else sorted(of, reverse=True)
        return [self._entry(run_id, going) for run_id in chosen]

    def _entry(self, run_id: str, going: "UnfinishedRun | None") -> RunEntry:
        if report := self.report(run_id):
            return RunEntry.of(report)
        if self._path(run_id).exists():
            return RunEntry(run_id, "", DAMAGED, began(run_id))
        begun = _read_begun(self._begun(run_id))
        return _entry(begun, going is not None and going.run_id == run_id)

    def report(self, run_id: str) -> dict[str, Any] | None:
        """That of a run as JSON; None where it has none. One that cannot be read, or is none, is
        told and counts as none."""
        path = self._path(run_id)
        try:
            content, is_as_written = read_checked(path)
            return content if is_as_written and _has_all(content) else whole_report(content, path)
        except FileNotFoundError:  # a purge may have come between
            return None
        except DamagedError as error:
            tell(
                f"{path}: {error.fact}; this run's report is left out; put the file of your backup"
                " in its place"
            )
            return None

    def reports(self) -> Iterator[dict[str, Any]]:
        """Those of all runs that can be read, the newest first."""
        return filter(None, map(self.report, reversed(self.all_ids())))

    def last(self) -> dict[str, Any] | None:
        """The newest report that can be read; None where there is none."""
        return next(self.reports(), None)

    def last_health(self, workflow: str) -> Mapping[str, float]:
        """What the last run of the workflow that came so far says of its extraction; nothing where
        there is none."""
        told = (report["health"] for report in self.reports() if report["workflow"] == workflow)
        return next(filter(None, told), {})

    def ids(self, workflow: str) -> list[str]:
        """Ids of the workflow's runs, whatever became of them, oldest first."""
        return sorted(
            report["run_id"] for report in self.reports() if report["workflow"] == workflow
        )

    def loaded(self, workflow: str) -> str | None:
        """The newest of the workflow's runs that has brought its tables to the stores."""
        loads = (
            report["run_id"]
            for report in self.reports()
            if report["workflow"] == workflow and report["load"]
        )
        return next(loads, None)

    def all_ids(self) -> list[str]:
        """Ids of the runs whose reports are kept, oldest first."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def forget_before(self, run_id: str) -> int:
        """Delete the reports of all runs before this one: their messages may quote documents.
        Returns how many."""
        earlier = [id for id in self.all_ids() if id < run_id]
        for id in earlier:
            self._path(id).unlink()
        for begun in self.folder.glob(f"*{BEGUN}"):
            if begun.stem < run_id:
                begun.unlink()
        return len(earlier)

    def holder(self) -> str | None:
        """The process that holds the project, and where; None where nobody does."""
        try:
            with (self.folder / "lock").open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(self.folder / "holder")
        except OSError:
            return None
        return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the project and its snapshots. The locks are the operating system's: they go with
        their holder, however that ends.

        Raises LockedError when another run holds it, or another project or machine uses the same
        snapshots; UsageError where they are another project's.
        """
        with held(self.folder, "another run holds this project"), self.hold_snapshots():
            yield

    def _path(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.json"

    def _begun(self, run_id: str) -> Path:
        return self.folder / f"{run_id}{BEGUN}"


@dataclass
class ProgressNotes(Progress):
    """A run's progress that is also noted where others can read it."""

    progress: Progress
    runs: Runs
    begun: UnfinishedRun
    said: float = 0.0

    def told(self, fact: str) -> None:
        self.progress.told(fact)

    def step_started(self, step: str, position: int, steps: int) -> None:
        self._note(step=step, position=position, steps=steps, done=0, expected=0)
        self.progress.step_started(step, position, steps)

    def step_advanced(self, step: str, done: int, expected: int) -> None:
        if self._is_due:
            self._note(done=done, expected=expected)
        self.progress.step_advanced(step, done, expected)

    def step_finished(self, report: StepReport) -> None:
        self.progress.step_finished(report)

    def load_started(self) -> None:
        self._note(step="load", position=0, steps=0, done=0, expected=0)
        self.progress.load_started()

    def load_waits(self, fact: str) -> None:
        self._note(step=f"load, which waits: {fact}")
        self.progress.load_waits(fact)

    def load_advanced(self, store: str, part: str, done: int, expected: int) -> None:
        if self._is_due:
            self._note(step=f"load {store} {part}", done=done, expected=expected)
        self.progress.load_advanced(store, part, done, expected)

    def load_finished(self, counts: LoadCounts, seconds: float) -> None:
        self.progress.load_finished(counts, seconds)

    @property
    def _is_due(self) -> bool:
        return time.monotonic() - self.said >= NOTED_EVERY

    def _note(self, **changed: Any) -> None:
        self.said = time.monotonic()
        self.begun = replace(self.begun, **changed, noted=time.time())
        self.runs.note(self.begun)


def rows_written(load: LoadCounts) -> int:
    """How many rows of the stores are other than before the load."""
    counts = (counts for tables in load.values() for counts in tables.values())
    return sum(number for each in counts for what, number in each.items() if what != "unchanged")


def this_process() -> str:
    return process_of(os.getpid())


def process_of(number: int) -> str:
    """How a process of this machine is named."""
    return f"{number} on {os.uname().nodename}"


def clock_now() -> str:
    """Return the time of now in UTC, ISO 8601, in whole seconds."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def began(run_id: str) -> str:
    """Return when the run began as its id tells, ISO 8601; "" for an id that tells nothing.

    Use it only where nothing else is noted: an id is later than its run where the clock was ahead
    once.
    """
    try:
        return f"{datetime.strptime(run_id[:15], '%Y%m%dT%H%M%S'):%Y-%m-%dT%H:%M:%SZ}"
    except ValueError:
        return ""


def with_manifest(entry: RunEntry, kept: Sequence[str]) -> RunEntry:
    """``kept``: ids of the runs of its workflow whose manifests are kept, oldest first."""
    until = [run_id for run_id in kept if run_id <= entry.run_id]
    return replace(entry, manifest=until[-1] if until else "")


def with_usage(entry: RunEntry, spent: Mapping[str, Any] | None) -> RunEntry:
    """What a run without a report has spent, where anything is known of it."""
    if spent is None or entry.outcome not in (UNDER_WAY, KILLED):
        return entry
    cost = spent["cost"]
    return replace(entry, calls=int(spent["calls"]), cost=None if math.isnan(cost) else float(cost))


def _entry(begun: UnfinishedRun, goes_on: bool) -> RunEntry:
    outcome = UNDER_WAY if goes_on else KILLED
    return RunEntry(begun.run_id, begun.workflow, outcome, begun.start, message=begun.step)


def _read_begun(path: Path) -> UnfinishedRun:
    """What of it can be read: that it began says its name."""
    try:
        content = read_json(path)
        return UnfinishedRun(**{**content, "run_id": path.stem})
    except (DamagedError, OSError, TypeError):
        return UnfinishedRun(path.stem)


@contextmanager
def held(folder: Path, otherwise: str) -> Iterator[None]:
    """The folder's lock. Raises LockedError, which says ``otherwise``, when another process has
    it."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / "holder"
    try:
        held = FileLock(folder / "lock").acquire(timeout=PATIENCE, poll_interval=PATIENCE / 10)
    except Timeout as error:
        raise LockedError(
            f"{folder.parent}: {otherwise} (process {_holder(holder)}); wait for it to end"
        ) from error
    with held:
        with suppress(OSError):  # a full disk must not keep gc from making space
            since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S UTC}"
            holder.write_text(f"{this_process()}, since {since}", encoding="utf-8")
        yield


def _holder(path: Path) -> str:
    """As far as the file can be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"


def _has_all(content: Mapping[str, Any]) -> bool:
    """Whether this version has written it, or one that knew as much."""
    return content.keys() >= NAMES | {"totals"} and all(
        step.keys() >= STEP_NAMES for step in content["steps"]
    )


def whole_report(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The report, with what an earlier version did not write yet. Raises DamagedError for what is
    no report of the run that the file is named after."""
    try:
        read = _reader().validate_python({name: content[name] for name in NAMES & content.keys()})
        for moment in filter(None, (read.began, read.ended)):
            datetime.fromisoformat(moment)
    except ValueError:
        raise DamagedError(path, "no report of a run") from None
    if read.run_id != path.stem or not _are_totals(content.get("totals")):
        raise DamagedError(path, "no report of a run")
    whole = read.to_json()
    steps = [
        {**filled, **step} for filled, step in zip(whole["steps"], content["steps"], strict=True)
    ]
    return {**whole, **content, "steps": steps, "totals": {**whole["totals"], **content["totals"]}}


@cache
def _reader() -> "TypeAdapter[RunReport]":
    from pydantic import TypeAdapter

    return TypeAdapter(RunReport)


def _are_totals(given: Any) -> bool:
    """``cost`` is None without a price."""
    if not isinstance(given, dict) or not given.keys() >= TOTALS:
        return False
    return all(
        isinstance(given[name], int | float) or (name == "cost" and given[name] is None)
        for name in TOTALS
    )
