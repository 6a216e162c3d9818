"""The runs of a project: one at a time, each with a report that is kept."""

import math
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.engine.run_report import LoadCounts, RunReport, StepReport
from pipeline.errors import USAGE, DamagedError, DiskFullError
from pipeline.files import read_checked, read_json, tell, write_json
from pipeline.runs.project_lock import lock_folder, note_of_holder, parse_note

if TYPE_CHECKING:
    from pydantic import TypeAdapter

REPORT_FIELDS = frozenset(field.name for field in fields(RunReport))
STEP_FIELDS = frozenset(field.name for field in fields(StepReport))
TOTALS = frozenset(
    {"calls", "cached_calls", "input_tokens", "output_tokens", "rejects", "seconds", "cost"}
)
"""The fields of the totals that the reports of every version have."""
REFUSED_FIELDS = ("run_id", "workflow", "began", "ended", "exit_code", "message")
"""The fields of a report that tell of a run that did not begin."""
BEGUN = ".begun"
LOG_SUFFIX = ".log"
ID_TIME = "%Y%m%dT%H%M%S.%f"
"""The format of the time with which the id of a run begins."""
_ID_TIME = re.compile(r"\d{8}T\d{6}\.\d{6}(?=-)")
HELD = "another run holds this project"
"""The fact of a command that was refused because another one holds the project."""
UNDER_WAY, KILLED, DAMAGED = "under_way", "killed", "damaged"


@dataclass(frozen=True)
class UnfinishedRun:
    """A run that has not reported, and how far it was when that was last noted.

    - ``step`` is the step at ``position`` of ``steps``; ``done`` and ``expected`` count rows of
      model work or of a load.
    - ``process`` names the process in the same way as the holder of the lock.
    - ``noted`` is in seconds since 1970.
    - ``began`` is the time in ISO 8601; "" if an earlier version has not noted it.
    """

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
        """The time at which the run began, as noted or else as its id tells, in ISO 8601."""
        return self.began or began(self.run_id)


@dataclass(frozen=True)
class RunEntry:
    """A run in a list of runs.

    - ``began`` and ``ended`` are in ISO 8601, "" if unknown.
    - ``outcome`` is that of a report, or "under_way", "killed" for a run without a report that has
      ended, or "damaged" if the report cannot be read.
    - ``manifest`` is the run id under which the tables are kept that were the newest when the run
      ended; "" if none are.
    - ``cost`` is None if a model has no price.
    - ``rows_written`` counts the rows that its load has inserted, changed or deleted in the stores.
    - ``did_not_begin``: it failed before its first step, as a run does that is refused.
    """

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
    did_not_begin: bool = False

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> "RunEntry":
        """Return the entry of a run from its report."""
        run_id = report["run_id"]
        totals = report["totals"]
        start = report.get("began") or began(run_id)
        end = report.get("ended") or ""
        # A report of an earlier version has no end: its steps say how long it took.
        if start and not end:
            took = timedelta(seconds=round(totals["seconds"]))
            end = f"{datetime.fromisoformat(start) + took:%Y-%m-%dT%H:%M:%SZ}"
        did_nothing = not report["steps"] and not report["load"]
        return cls(
            run_id=run_id,
            workflow=report["workflow"],
            outcome=report["outcome"],
            began=start,
            ended=end,
            exit_code=report["exit_code"],
            calls=totals["calls"],
            cost=totals["cost"],
            rejects=totals["rejects"],
            message=report["message"],
            input_tokens=totals["input_tokens"],
            output_tokens=totals["output_tokens"],
            rows_written=rows_written(report["load"]),
            # Reports of earlier versions count it among the rejects.
            decided=totals.get("decided", 0),
            did_not_begin=report["outcome"] == "failed" and did_nothing,
        )

    @property
    def was_refused(self) -> bool:
        """True if the run was refused for how it was asked for, before it began.

        A run that found no database did not begin either, but it counts as failed.
        """
        return self.did_not_begin and self.exit_code == USAGE

    @property
    def seconds(self) -> float | None:
        """The duration of the run, None if it is unknown."""
        if not self.began or not self.ended:
            return None
        took = datetime.fromisoformat(self.ended) - datetime.fromisoformat(self.began)
        # The clock may have been set back meanwhile.
        return max(took.total_seconds(), 0.0)


@dataclass(frozen=True)
class Runs:
    """The reports and the lock of a project's runs.

    ``folder`` holds the lock and ``<run_id>.json`` for each run. ``hold_snapshots`` locks the
    snapshots for as long as the project is held, because another project may name the same ones.
    """

    folder: Path
    hold_snapshots: Callable[[], AbstractContextManager[None]] = nullcontext

    @classmethod
    def of(cls, project: Path) -> "Runs":
        return cls(project / "data" / "runs")

    def new_id(self) -> str:
        """Return a new run id, which sorts after all ids that are there, even if the clock was set
        back."""
        moments = [_ID_TIME.match(run_id) for run_id in self.known_ids()]
        # An id of another form has no moment.
        newest = max((moment[0] for moment in moments if moment), default="")
        now = f"{datetime.now(UTC):{ID_TIME}}"
        if now <= newest:
            next_moment = datetime.strptime(newest, ID_TIME) + timedelta(microseconds=1)
            now = f"{next_moment:{ID_TIME}}"
        return f"{now}-{secrets.token_hex(3)}"

    def save(self, report: RunReport) -> None:
        write_json(self._report_path(report.run_id), report.to_json())
        self._begun_path(report.run_id).unlink(missing_ok=True)

    def note(self, begun: UnfinishedRun) -> None:
        """Write how far a run is, for other processes to read. Errors of the disk are ignored."""
        with suppress(OSError, DiskFullError):
            write_json(self._begun_path(begun.run_id), asdict(begun))

    def unreported(self) -> list[UnfinishedRun]:
        """Return the runs that began but have not reported, the newest first.

        At most one of them is under way; the others were killed.
        """
        paths = sorted(self.folder.glob(f"*{BEGUN}"), reverse=True)
        return [_read_begun(path) for path in paths if not self._report_path(path.stem).exists()]

    def under_way(self) -> UnfinishedRun | None:
        """Return the run that is under way at this moment, or None."""
        holder = parse_note(self.holder() or "")
        if holder is None:
            return None
        for begun in self.unreported():
            # An earlier process may have had the same number, as in containers.
            if begun.process == holder.process and begun.start >= holder.locked_since:
                return begun
        return None

    def known_ids(self) -> list[str]:
        """Return the ids of all runs, the newest first, including those without a report."""
        begun = {path.stem for path in self.folder.glob(f"*{BEGUN}")}
        return sorted(begun.union(self.reported_ids()), reverse=True)

    def entries(self, run_ids: Sequence[str] | None = None) -> list[RunEntry]:
        """Return the entries of the runs of these ids, by default of all runs, the newest first."""
        return [entry for entry, _ in self.entries_and_reports(run_ids)]

    def entries_and_reports(
        self, run_ids: Sequence[str] | None = None
    ) -> Iterator[tuple[RunEntry, dict[str, Any] | None]]:
        """Yield the entries as ``entries`` returns them, each with its report if it has one."""
        going = self.under_way()
        newest_first = self.known_ids() if run_ids is None else sorted(run_ids, reverse=True)
        for run_id in newest_first:
            report = self.report(run_id)
            yield self._entry(run_id, going, report), report

    def _entry(
        self, run_id: str, going: "UnfinishedRun | None", report: dict[str, Any] | None
    ) -> RunEntry:
        if report:
            return RunEntry.of(report)
        if self._report_path(run_id).exists():
            return RunEntry(run_id, "", DAMAGED, began(run_id))
        begun = _read_begun(self._begun_path(run_id))
        is_under_way = going is not None and going.run_id == run_id
        outcome = UNDER_WAY if is_under_way else KILLED
        # There is no message without a report: a list says at which step the run is or was.
        return RunEntry(begun.run_id, begun.workflow, outcome, begun.start, message=begun.step)

    def report(self, run_id: str) -> dict[str, Any] | None:
        """Return the report of a run as JSON, or None if it has none.

        If the report cannot be read or is none, print a warning and return None.
        """
        path = self._report_path(run_id)
        try:
            content, is_as_written = read_checked(path)
            if is_as_written and _has_all(content):
                return content
            return whole_report(content, path)
        except FileNotFoundError:
            # A purge may have deleted it meanwhile.
            return None
        except DamagedError as error:
            tell(
                f"{path}: {error.fact}; this run's report is left out; put the file of your backup"
                " in its place"
            )
            return None

    def reports(self) -> Iterator[dict[str, Any]]:
        """Yield the reports of all runs that can be read, the newest first."""
        for run_id in reversed(self.reported_ids()):
            report = self.report(run_id)
            if report:
                yield report

    def last(self) -> dict[str, Any] | None:
        """Return the newest report that can be read, or None if there is none."""
        return next(self.reports(), None)

    def last_and_refused(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """Return the newest report of a run that was not refused, and that of one refused since.

        Each is None if there is none. A run that was refused, as for a wrong option, says nothing
        about the tables, so it hides no other run.
        """
        refused = None
        for report in self.reports():
            if not RunEntry.of(report).was_refused:
                return report, refused
            refused = refused or report
        return None, refused

    def status(self) -> dict[str, Any] | None:
        """Return the report of the last run that was not refused, with ``refused``; None before the
        first.

        ``refused`` tells of the newest run that was refused since; it is None if there is none. If
        all were refused, the report is that of the newest one.
        """
        last, refused = self.last_and_refused()
        report = last or refused
        if report is None:
            return None
        told = {name: refused[name] for name in REFUSED_FIELDS} if refused else None
        return {**report, "refused": told}

    def last_health(self, workflow: str) -> Mapping[str, float]:
        """Return the health of the extraction, as the newest run of the workflow that measured it
        reports.

        It is empty if no run did.
        """
        for report in self.reports():
            if report["workflow"] == workflow and report["health"]:
                return report["health"]
        return {}

    def ids(self, workflow: str) -> list[str]:
        """Return the ids of the workflow's runs with any outcome, oldest first."""
        return sorted(
            report["run_id"] for report in self.reports() if report["workflow"] == workflow
        )

    def loaded(self, workflow: str) -> str | None:
        """Return the id of the newest run of the workflow that loaded tables into the stores, or
        None."""
        for report in self.reports():
            if report["workflow"] == workflow and report["load"]:
                return report["run_id"]
        return None

    def reported_ids(self) -> list[str]:
        """Return the ids of the runs whose reports are kept, oldest first."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def forget_before(self, run_id: str) -> int:
        """Delete the reports of all runs before this one and return their number.

        All logs are deleted too. Messages in reports and logs may quote documents.
        """
        for log in self.folder.glob(f"*{LOG_SUFFIX}"):
            log.unlink()
        earlier = [id for id in self.reported_ids() if id < run_id]
        for id in earlier:
            self._report_path(id).unlink()
        for begun in self.folder.glob(f"*{BEGUN}"):
            if begun.stem < run_id:
                begun.unlink()
        return len(earlier)

    def holder(self) -> str | None:
        """Return the process that holds the project, as its note names it, or None if none does."""
        return note_of_holder(self.folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the project and its snapshots while the block runs.

        The locks belong to the operating system, which releases them however their holder ends.

        Raises LockedError if another run holds the project, or if another project or machine uses
        the same snapshots. Raises UsageError if the snapshots belong to another project.
        """
        with lock_folder(self.folder, HELD), self.hold_snapshots():
            yield

    def _report_path(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.json"

    def log_path(self, run_id: str) -> Path:
        return self.folder / f"{run_id}{LOG_SUFFIX}"

    def _begun_path(self, run_id: str) -> Path:
        return self.folder / f"{run_id}{BEGUN}"


def rows_written(load: LoadCounts) -> int:
    """Return how many rows of the stores a load has inserted, changed or deleted."""
    total = 0
    for tables in load.values():
        for counts in tables.values():
            total += sum(number for what, number in counts.items() if what != "unchanged")
    return total


def clock_now() -> str:
    """Return the present time in UTC as ISO 8601, in whole seconds."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def began(run_id: str) -> str:
    """Return when a run began according to its id, in ISO 8601; "" if the id does not say.

    Use it only if no time was noted: if the clock was ahead once, later ids are ahead of their
    runs.
    """
    try:
        return f"{datetime.strptime(run_id[:15], '%Y%m%dT%H%M%S'):%Y-%m-%dT%H:%M:%SZ}"
    except ValueError:
        return ""


def with_manifest(entry: RunEntry, kept: Sequence[str]) -> RunEntry:
    """Fill in the newest kept manifest that is not newer than the run: its tables were live when
    the run ended.

    ``kept`` has the ids of the runs of its workflow whose manifests are kept, oldest first.
    """
    # Ids sort by time: those up to the run's own are of manifests that were there when it ended.
    until = [run_id for run_id in kept if run_id <= entry.run_id]
    live = until[-1] if until else ""
    return replace(entry, manifest=live)


def with_usage(entry: RunEntry, spent: Mapping[str, Any] | None) -> RunEntry:
    """Return the entry with the calls and the cost of a run without a report, as far as they are
    known."""
    if spent is None or entry.outcome not in (UNDER_WAY, KILLED):
        return entry
    # A sum without a price is not a number.
    is_unpriced = math.isnan(spent["cost"])
    cost = None if is_unpriced else float(spent["cost"])
    return replace(entry, calls=int(spent["calls"]), cost=cost)


def _read_begun(path: Path) -> UnfinishedRun:
    """Return the note of an unfinished run, or only its id if the note cannot be read."""
    try:
        content = read_json(path)
        return UnfinishedRun(**{**content, "run_id": path.stem})
    except (DamagedError, OSError, TypeError):
        return UnfinishedRun(path.stem)


def _has_all(content: Mapping[str, Any]) -> bool:
    """Return whether a report has all fields that this version writes."""
    if not content.keys() >= REPORT_FIELDS | {"totals"}:
        return False
    return all(step.keys() >= STEP_FIELDS for step in content["steps"])


def whole_report(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the report, completed by the fields that an earlier version did not write.

    Raises DamagedError if it is not the report of the run for which the file is named.
    """
    try:
        known = {name: content[name] for name in REPORT_FIELDS & content.keys()}
        read = _reader().validate_python(known)
        for moment in (read.began, read.ended):
            if moment:
                # ValueError for a text that is no time.
                datetime.fromisoformat(moment)
    except ValueError:
        raise DamagedError(path, "no report of a run") from None
    if read.run_id != path.stem or not _are_totals(content.get("totals")):
        raise DamagedError(path, "no report of a run")
    # What the report itself says comes before what this version fills in.
    whole = read.to_json()
    totals = {**whole["totals"], **content["totals"]}
    steps: list[dict[str, Any]] = []
    for filled, step in zip(whole["steps"], content["steps"], strict=True):
        steps.append({**filled, **step})
    return {**whole, **content, "steps": steps, "totals": totals}


@cache
def _reader() -> "TypeAdapter[RunReport]":
    from pydantic import TypeAdapter

    return TypeAdapter(RunReport)


def _are_totals(given: Any) -> bool:
    """Return whether these are totals of a run; ``cost`` may be None, the others are numbers."""
    if not isinstance(given, dict) or not given.keys() >= TOTALS:
        return False
    for name in TOTALS:
        is_unpriced = name == "cost" and given[name] is None
        if not is_unpriced and not isinstance(given[name], int | float):
            return False
    return True
