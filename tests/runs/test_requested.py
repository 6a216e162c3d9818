"""Runs that are requested: merged while they wait, and limited in cost by run, key and day."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import BudgetError, UsageError
from pipeline.runs.reports import Runs
from pipeline.runs.requested import BEGUN, REFUSED, WAITING, Ceilings, RequestedRuns


class Reported(Runs):
    """Runs with one report, of a run that cost something."""

    def report(self, run_id: str) -> dict[str, Any] | None:
        return {"totals": {"cost": 3.0}, "workflow": "index"} if "done" in run_id else None

    def reported_ids(self) -> list[str]:
        return ["99990101T000000.000000-done"] if self.folder.exists() else []


@pytest.fixture
def requested(tmp_path: Path) -> RequestedRuns:
    return RequestedRuns(tmp_path / "requests", Reported(tmp_path / "runs"))


def test_requests_while_one_waits_are_one_run_with_the_higher_ceiling(requested: RequestedRuns):
    first = requested.add("index", "a", True, Ceilings(per_run=1.0))
    second = requested.add("index", "b", True, Ceilings(per_run=2.0), allow_deletes=True)
    other = requested.add("fast", "a", False, Ceilings())
    assert second.id == first.id
    assert (second.keys, second.max_cost, second.allow_deletes) == (("a", "b"), 2.0, True)
    assert [one.id for one in requested.waiting()] == [first.id, other.id]
    assert other.options == ["--max-cost", "0.000000"]
    assert second.options == ["--max-cost", "2.000000", "--allow-deletes"]


def test_a_request_after_a_run_was_taken_is_a_run_of_its_own(requested: RequestedRuns):
    first = requested.add("index", "a", False, Ceilings())
    taken = requested.take()
    assert taken is not None
    requested.put(replace(taken, state=BEGUN, run="done"))
    second = requested.add("index", "a", False, Ceilings())
    assert second.id != first.id
    found = requested.find(first.id)
    assert found is not None
    assert (found.state, found.run) == (BEGUN, "done")
    assert requested.find("../../settings") is None


def test_a_run_that_was_taken_and_never_began_waits_again(requested: RequestedRuns):
    first = requested.add("index", "a", False, Ceilings(), allow_deletes=True)
    requested.take()
    assert requested.waiting() == []
    assert requested.waits()
    requested.settle()
    again = requested.take()
    assert again is not None
    assert (again.id, again.allow_deletes) == (first.id, False)


def test_a_run_whose_process_is_going_or_has_begun_one_is_not_begun_again(
    requested: RequestedRuns,
):
    first = requested.add("index", "a", False, Ceilings())
    taken = requested.take()
    assert taken is not None
    requested.put(replace(taken, pid=os.getpid()))
    requested.settle()
    assert requested.take() is None
    requested.runs.folder.mkdir()
    requested.settle()
    found = requested.find(first.id)
    assert found is not None
    assert (found.state, found.run) == (BEGUN, "99990101T000000.000000-done")


def test_a_run_that_waits_since_yesterday_counts_today(requested: RequestedRuns):
    first = requested.add("index", "a", True, Ceilings(per_run=4.0))
    requested.put(replace(first, day="20000101"))
    os.utime(requested.folder / WAITING / f"{first.id}.json", (0, 0))
    assert requested.spent_today() == 4.0
    with pytest.raises(BudgetError):
        requested.add("claims", "a", True, Ceilings(per_day=4.0))
    assert requested.take() is not None
    assert requested.spent_today() == 4.0


def test_a_run_that_began_yesterday_does_not_count_today(requested: RequestedRuns):
    first = requested.add("index", "a", True, Ceilings(per_run=4.0))
    requested.put(replace(first, day="20000101", state=BEGUN))
    (requested.folder / WAITING / f"{first.id}.json").unlink(missing_ok=True)
    assert requested.spent_today() == 0.0


def test_a_request_that_a_permitted_run_serves_needs_nothing_of_the_day(requested: RequestedRuns):
    requested.add("index", "a", True, Ceilings(per_run=4.0))
    merged = requested.add("index", "b", True, Ceilings(per_run=1.0, of_key=0.0))
    assert (merged.keys, merged.max_cost) == (("a", "b"), 4.0)


def test_leave_to_delete_ends_with_the_server_that_gave_it(requested: RequestedRuns):
    requested.add("index", "a", False, Ceilings(), allow_deletes=True)
    requested.refuse_deletes()
    assert [one.allow_deletes for one in requested.waiting()] == [False]


def test_a_run_that_may_spend_needs_a_ceiling(requested: RequestedRuns):
    with pytest.raises(UsageError, match="max_cost: missing"):
        requested.add("index", "a", True, Ceilings())
    assert requested.add("index", "a", True, Ceilings(per_day=5.0)).max_cost == 5.0
    assert requested.add("fast", "a", False, Ceilings()).max_cost is None


def test_ceilings_of_a_day_count_what_runs_cost_or_may_cost(requested: RequestedRuns):
    day = Ceilings(per_run=4.0, per_day=8.0, of_key=5.0)
    requested.add("index", "a", True, day)
    taken = requested.take()
    assert taken is not None
    assert requested.spent_today() == 4.0  # its ceiling, for it is under way
    requested.put(replace(taken, state=BEGUN, run="done"))
    assert requested.spent_today() == 3.0
    assert requested.add("index", "a", True, day).max_cost == 2.0  # of its key's 5
    with pytest.raises(BudgetError):
        requested.add("claims", "a", True, day)
    # Another key adds to the run that waits, and not to what is spent.
    assert requested.add("index", "b", True, day).max_cost == 4.0
    assert requested.spent_today() == 7.0
    [waiting] = requested.waiting()
    requested.put(replace(waiting, state=REFUSED))
    assert requested.spent_today() == 3.0
    assert waiting.state == WAITING


def test_a_run_that_may_cost_nothing_is_refused_for_its_own_reason(tmp_path: Path):
    requested = RequestedRuns.of(tmp_path)
    with pytest.raises(UsageError, match="max_cost: 0"):
        requested.add("index", "a", True, Ceilings(per_run=0.0, per_day=5.0))
