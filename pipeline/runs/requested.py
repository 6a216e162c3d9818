"""Runs that others request: those that wait for the one under way, merged into one for each
workflow, and the ceilings of their cost.

    data/requests/waiting/<id>.json    a run that has not begun
    data/requests/starting/<id>.json   one that a server is beginning now
    data/requests/begun/<id>.json      one that has begun, with the id of its run, or why it was
                                       refused

Ids sort by time. All processes that serve the project share the folder, and ``alone_in`` locks it.
"""

import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.errors import BudgetError, DamagedError, UsageError
from pipeline.files import alone_in, is_living, read_json, write_json
from pipeline.runs.project_lock import process_of
from pipeline.runs.reports import ID_TIME, Runs

FOLDER = "data/requests"
KEPT_DAYS = 30
START_SECONDS = 600.0
"""The time that the process of a run may take to begin it."""
_ID = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}-[0-9a-f]{6}")
WAITING, STARTING, BEGUN, REFUSED = "waiting", "starting", "begun", "refused"
PLACES = (WAITING, STARTING, BEGUN)
"""The folders of the states. A refused run lies with those that have begun."""


@dataclass(frozen=True)
class RequestedRun:
    """A run that was requested, once or several times before it began.

    ``keys``: who requested it. ``max_cost``: its ceiling; None if its workflow asks no model that
    costs something. ``run``: the id of the run that has begun, "" before. ``message``: why it was
    refused. ``day``: the day (UTC) on which its cost counts, that of the last request or of its
    beginning. ``taken``: when a server began to begin it, as in ids of runs. ``pid``: the number of
    the process that begins it, 0 if there is none yet.
    """

    id: str
    workflow: str
    max_cost: float | None = None
    allow_deletes: bool = False
    keys: tuple[str, ...] = ()
    state: str = WAITING
    run: str = ""
    message: str = ""
    day: str = ""
    taken: str = ""
    pid: int = 0

    @property
    def options(self) -> list[str]:
        """The options of the command that begins the run."""
        # Settings or the workflow may ask a priced model since the run was requested as a free one.
        options = ["--max-cost", f"{self.max_cost or 0.0:.6f}"]
        if self.allow_deletes:
            options.append("--allow-deletes")
        return options


@dataclass(frozen=True)
class Ceilings:
    """The limits of a run's cost: of itself, of all requested runs of a day, and of those of the
    key in a day. None is no limit."""

    per_run: float | None = None
    per_day: float | None = None
    of_key: float | None = None


@dataclass(frozen=True)
class RequestedRuns:
    """The runs that were requested of a project."""

    folder: Path
    runs: Runs

    @classmethod
    def of(cls, root: Path) -> "RequestedRuns":
        return cls(root / FOLDER, Runs.of(root))

    def add(
        self,
        workflow: str,
        key: str,
        asks_paid_models: bool,
        ceilings: Ceilings,
        allow_deletes: bool = False,
    ) -> RequestedRun:
        """Request a run, and return it; one of the workflow that waits already is the same run.

        The merged run has the higher of the two ceilings, for each was permitted. Raises UsageError
        for a run that may spend and has no ceiling, BudgetError if nothing of the day is left. A
        run that waits and may spend already needs nothing of the day.
        """
        with alone_in(self.folder):
            of_workflow = (run for run in self.waiting() if run.workflow == workflow)
            waiting = next(of_workflow, None)
            ceiling: float | None = None
            try:
                if asks_paid_models:
                    ceiling = self._ceiling(key, ceilings, waiting)
            except BudgetError:
                may_spend_already = waiting is not None and waiting.max_cost is not None
                if not may_spend_already:
                    raise
            if waiting is not None:
                merged = _merge(waiting, key, ceiling, allow_deletes)
                self._write(merged)
                return merged
            self._forget_old()
            now = datetime.now(UTC)
            id = f"{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(3)}"
            made = RequestedRun(id, workflow, ceiling, allow_deletes, (key,), day=_today())
            self._write(made)
            return made

    def waiting(self) -> list[RequestedRun]:
        """Return the runs that wait, the oldest request first."""
        return list(_read_all(self.folder / WAITING))

    def waits(self) -> bool:
        """Return whether a run waits, or was taken by a process that has ended since."""
        # Names are listed, and no file is read: a server looks all the time.
        places = (self.folder / WAITING, self.folder / STARTING)
        return any(any(place.glob("*.json")) for place in places)

    def find(self, id: str) -> RequestedRun | None:
        """Return a requested run by its id, or None."""
        if not _ID.fullmatch(id):
            return None
        for place in PLACES:
            found = _read_run(self.folder / place / f"{id}.json")
            if found is not None:
                return found
        return None

    def take(self) -> RequestedRun | None:
        """Take the run that waits longest, so that later requests are not merged into it.

        Only the process that begins runs calls it.
        """
        with alone_in(self.folder):
            oldest = next(iter(self.waiting()), None)
            if oldest is None:
                return None
            moment = f"{datetime.now(UTC):{ID_TIME}}"
            taken = replace(oldest, state=STARTING, day=_today(), taken=moment, pid=0)
            self._write(taken)
            return taken

    def settle(self) -> None:
        """Write the state of the runs that were taken by a process that has ended since.

        Only the process that begins runs calls it. Such a run waits again, unless its own process
        is going or has begun a run.
        """
        with alone_in(self.folder):
            for left in list(_read_all(self.folder / STARTING)):
                run = self._run_of(left)
                if run:
                    self._write(replace(left, state=BEGUN, run=run))
                elif not _is_going(left):
                    # It may have deleted already, before it was lost.
                    self._write(replace(left, state=WAITING, allow_deletes=False))

    def refuse_deletes(self) -> None:
        """Take the leave to delete many documents from all runs that wait.

        The folder of documents may be another one than when they were requested.
        """
        with alone_in(self.folder):
            for one in self.waiting():
                if one.allow_deletes:
                    self._write(replace(one, allow_deletes=False))

    def _run_of(self, taken: RequestedRun) -> str:
        """Return the id of the run that has begun for a run that was taken; "" if there is none."""
        for begun in self.runs.unreported():
            # Ids of runs sort by time, like the moment at which the run was taken.
            is_later = begun.run_id > taken.taken
            is_own = not taken.pid or begun.process == process_of(taken.pid)
            if is_later and is_own and begun.workflow == taken.workflow:
                return begun.run_id
        later_ids = [run_id for run_id in self.runs.reported_ids() if run_id > taken.taken]
        for run_id in later_ids:
            report = self.runs.report(run_id)
            if report and report["workflow"] == taken.workflow:
                return run_id
        return ""

    def put(self, requested: RequestedRun) -> None:
        """Write the state of a run that was taken."""
        with alone_in(self.folder):
            self._write(requested)

    def _write(self, requested: RequestedRun) -> None:
        """Write a run into the folder of its state, and delete it from the others.

        A kill in between leaves it in two folders, and loses it from none.
        """
        name = f"{requested.id}.json"
        here = BEGUN if requested.state == REFUSED else requested.state
        write_json(self.folder / here / name, asdict(requested))
        for place in PLACES:
            if place != here:
                former = self.folder / place / name
                former.unlink(missing_ok=True)

    def _ceiling(self, key: str, ceilings: Ceilings, waiting: RequestedRun | None) -> float:
        """Return what a run of the key may cost now.

        ``waiting``: the run that it is merged into, whose ceiling does not count against it.
        """
        besides = waiting.id if waiting else ""
        left = [] if ceilings.per_run is None else [ceilings.per_run]
        if ceilings.per_day is not None:
            left.append(ceilings.per_day - self.spent_today(besides=besides))
        if ceilings.of_key is not None:
            left.append(ceilings.of_key - self.spent_today(key, besides))
        if not left:
            raise UsageError(
                "max_cost: missing, and the workflow asks a model that costs something; send"
                " max_cost, or set serve.runs.cost_per_run"
            )
        if ceilings.per_run == 0:
            raise UsageError(
                "max_cost: 0 (of the request or serve.runs.cost_per_run), and the workflow asks a"
                " model that costs something; allow more"
            )
        if min(left) <= 0:
            raise BudgetError(
                "budget: what requested runs may cost today is spent; ask again tomorrow (UTC), or"
                " have serve.runs.cost_per_day or run_cost_per_day raised"
            )
        return min(left)

    def spent_today(self, key: str | None = None, besides: str = "") -> float:
        """Return the cost of the runs of today, of those of the key if one is given, without the
        run ``besides``.

        A run without a known cost counts with its ceiling. One that several keys requested counts
        whole for each. A run that has not begun counts whenever it was requested: it will spend
        its ceiling today.
        """
        today = _today()
        to_come = [*_read_all(self.folder / WAITING), *_read_all(self.folder / STARTING)]
        begun = [run for run in _read_all(self.folder / BEGUN, today) if run.day == today]
        spent = 0.0
        for requested in to_come + begun:
            is_of_key = key is None or key in requested.keys
            if requested.id != besides and is_of_key:
                spent += self._cost_of(requested)
        return spent

    def _cost_of(self, requested: RequestedRun) -> float:
        """Return what a run has cost; its ceiling while that is not known."""
        if requested.max_cost is None or requested.state == REFUSED:
            return 0.0
        report = self.runs.report(requested.run) if requested.run else None
        if report is None or report["totals"]["cost"] is None:
            return requested.max_cost
        return float(report["totals"]["cost"])

    def _forget_old(self) -> None:
        """Delete the runs that have begun more than KEPT_DAYS days ago."""
        oldest = f"{datetime.now(UTC) - timedelta(days=KEPT_DAYS):%Y%m%d}"
        for path in (self.folder / BEGUN).glob("*.json"):
            if path.name < oldest:
                path.unlink(missing_ok=True)


def _merge(
    waiting: RequestedRun, key: str, ceiling: float | None, allow_deletes: bool
) -> RequestedRun:
    """Return the waiting run with one more request: the higher ceiling, and the leave of either."""
    ceilings = [amount for amount in (waiting.max_cost, ceiling) if amount is not None]
    # A dict keeps each key once, in its order.
    keys = dict.fromkeys([*waiting.keys, key])
    return replace(
        waiting,
        max_cost=max(ceilings, default=None),
        allow_deletes=waiting.allow_deletes or allow_deletes,
        keys=tuple(keys),
        day=_today(),
    )


def _today() -> str:
    return f"{datetime.now(UTC):%Y%m%d}"


def _is_going(left: RequestedRun) -> bool:
    """Return whether the process that begins the run is still about it."""
    if not left.pid:
        return False
    taken = datetime.strptime(left.taken, ID_TIME).replace(tzinfo=UTC)
    since_taken = datetime.now(UTC) - taken
    if since_taken.total_seconds() > START_SECONDS:
        # After a restart of the machine another process may have its number.
        return False
    return is_living(left.pid)


def _read_all(folder: Path, since: str = "") -> Iterator[RequestedRun]:
    """Yield the runs of a folder, the oldest request first; of those that were last written before
    the day ``since`` none."""
    for path in sorted(folder.glob("*.json")):
        if since and _day_of(path) < since:
            continue
        found = _read_run(path)
        if found is not None:
            yield found


def _day_of(path: Path) -> str:
    """Return the day on which a file was written; "" if it is gone."""
    try:
        return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y%m%d}"
    except FileNotFoundError:
        return ""


def _read_run(path: Path) -> RequestedRun | None:
    """Return the run of a file; None if it is gone meanwhile, or damaged."""
    try:
        content = read_json(path)
        return RequestedRun(**{**content, "keys": tuple(content["keys"])})
    except (FileNotFoundError, DamagedError, TypeError, KeyError):
        return None
