"""Runs that others request: those that wait for the one under way, merged into one for each
workflow, and the ceilings of their cost.

    data/requests/waiting/<id>.json    a run that has not begun
    data/requests/begun/<id>.json      one that has, with the id of its run, or why it was refused

Ids sort by time. All processes that serve the project share the folder, and ``alone_in`` locks it.
"""

import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.errors import BudgetError, DamagedError, UsageError
from pipeline.files import alone_in, read_json, write_json
from pipeline.runs.reports import Runs

FOLDER = "data/requests"
KEPT_DAYS = 30
_ID = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}-[0-9a-f]{6}")
WAITING, STARTING, BEGUN, REFUSED = "waiting", "starting", "begun", "refused"


@dataclass(frozen=True)
class RequestedRun:
    """A run that was requested, once or several times before it began.

    ``keys``: who requested it. ``max_cost``: its ceiling; None if its workflow asks no model that
    costs something. ``run``: the id of the run that has begun, "" before. ``message``: why it was
    refused.
    """

    id: str
    workflow: str
    max_cost: float | None = None
    allow_deletes: bool = False
    keys: tuple[str, ...] = ()
    state: str = WAITING
    run: str = ""
    message: str = ""

    @property
    def options(self) -> list[str]:
        """The options of the command that begins the run."""
        options = [] if self.max_cost is None else ["--max-cost", f"{self.max_cost:.6f}"]
        return [*options, "--allow-deletes"] if self.allow_deletes else options


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
        for a run that may spend and has no ceiling, BudgetError if nothing of the day is left.
        """
        with alone_in(self.folder):
            same = (one for one in self.waiting() if one.workflow == workflow)
            waiting = next(same, None)
            ceiling = self._ceiling(key, ceilings, waiting) if asks_paid_models else None
            if waiting is not None:
                merged = _merge(waiting, key, ceiling, allow_deletes)
                self._write(merged)
                return merged
            self._forget_old()
            now = datetime.now(UTC)
            id = f"{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(3)}"
            made = RequestedRun(id, workflow, ceiling, allow_deletes, (key,))
            self._write(made)
            return made

    def waiting(self) -> list[RequestedRun]:
        """Return the runs that wait, the oldest request first."""
        return list(_read_all(self.folder / WAITING, "*.json"))

    def waits(self) -> bool:
        """Return whether a run waits, or was taken by a process that has ended since."""
        # Names are listed, and no file is read: a server looks all the time.
        return any((self.folder / WAITING).glob("*.json"))

    def find(self, id: str) -> RequestedRun | None:
        """Return a requested run by its id, or None."""
        if not _ID.fullmatch(id):
            return None
        places = (self.folder / place / f"{id}.json" for place in (WAITING, BEGUN))
        return next(filter(None, map(_read_run, places)), None)

    def take(self) -> RequestedRun | None:
        """Take the run that waits longest, so that later requests are not merged into it.

        Only the process that begins runs calls it: a run that was taken by one that has ended
        since, and did not begin, waits again.
        """
        with alone_in(self.folder):
            for left in list(_read_all(self.folder / BEGUN, f"{_day(time.time())}*.json")):
                if left.state == STARTING:
                    self._write(replace(left, state=WAITING))
            oldest = next(iter(self.waiting()), None)
            if oldest is None:
                return None
            taken = replace(oldest, state=STARTING)
            self._write(taken)
            return taken

    def put(self, requested: RequestedRun) -> None:
        """Write the state of a run that was taken."""
        with alone_in(self.folder):
            self._write(requested)

    def _write(self, requested: RequestedRun) -> None:
        waits = requested.state == WAITING
        here, other = (WAITING, BEGUN) if waits else (BEGUN, WAITING)
        write_json(self.folder / here / f"{requested.id}.json", asdict(requested))
        (self.folder / other / f"{requested.id}.json").unlink(missing_ok=True)

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
        if min(left) <= 0:
            raise BudgetError(
                "budget: what requested runs may cost today is spent; ask again tomorrow (UTC), or"
                " have serve.runs.cost_per_day or run_cost_per_day raised"
            )
        return min(left)

    def spent_today(self, key: str | None = None, besides: str = "") -> float:
        """Return the cost of the runs that were requested today, of those of the key if one is
        given, without the run ``besides``.

        A run without a known cost counts with its ceiling. One that several keys requested counts
        whole for each.
        """
        today = _day(time.time())
        spent = 0.0
        for place in (WAITING, BEGUN):
            for one in _read_all(self.folder / place, f"{today}*.json"):
                if one.id != besides and (key is None or key in one.keys):
                    spent += self._cost_of(one)
        return spent

    def _cost_of(self, one: RequestedRun) -> float:
        if one.max_cost is None or one.state == REFUSED:
            return 0.0
        report = self.runs.report(one.run) if one.run else None
        cost = report["totals"]["cost"] if report else None
        return one.max_cost if cost is None else float(cost)

    def _forget_old(self) -> None:
        oldest = _day((datetime.now(UTC) - timedelta(days=KEPT_DAYS)).timestamp())
        for path in (self.folder / BEGUN).glob("*.json"):
            if path.name < oldest:
                path.unlink(missing_ok=True)


def _merge(
    waiting: RequestedRun, key: str, ceiling: float | None, allow_deletes: bool
) -> RequestedRun:
    ceilings = [one for one in (waiting.max_cost, ceiling) if one is not None]
    return replace(
        waiting,
        max_cost=max(ceilings, default=None),
        allow_deletes=waiting.allow_deletes or allow_deletes,
        keys=tuple(dict.fromkeys([*waiting.keys, key])),
    )


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y%m%d}"


def _read_all(folder: Path, pattern: str) -> Iterator[RequestedRun]:
    for path in sorted(folder.glob(pattern)):
        found = _read_run(path)
        if found is not None:
            yield found


def _read_run(path: Path) -> RequestedRun | None:
    """Return the run of a file; None if it is gone meanwhile, or damaged."""
    try:
        content = read_json(path)
        return RequestedRun(**{**content, "keys": tuple(content["keys"])})
    except (FileNotFoundError, DamagedError, TypeError, KeyError):
        return None
