import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from pipeline.engine.run_report import Progress, RunReport, StepReport
from pipeline.errors import LockedError
from pipeline.runs.project_lock import this_process
from pipeline.runs.reports import Runs, UnfinishedRun
from pipeline.runs.run_log import ProgressNotes

HOLDER = """
import sys
from pathlib import Path
from pipeline.runs.reports import Runs

with Runs(Path(sys.argv[1])).alone():
    print("held", flush=True)
    sys.stdin.read()
"""

LOOK = """
import sys
from pathlib import Path
from pipeline.runs.reports import Runs

going = Runs(Path(sys.argv[1])).under_way()
print(going and going.run_id)
"""


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "project" / "runs")


def report(run_id: str) -> RunReport:
    steps = (
        StepReport("a", "load", "ran", "new", {"t": 3}, calls=2, cost=0.5, rejects=1, seconds=0.25),
        StepReport("b", "embed", "reused", rows={"u": 1}, cached_calls=3, seconds=0.5),
    )
    return RunReport(run_id, "index", "completed", 0, steps, load_seconds=1.0)


def test_before_the_first_run_there_is_no_report(runs: Runs):
    assert runs.last() is None


def test_the_last_report_is_kept_whole(runs: Runs):
    first, second, third = (runs.new_id() for _ in range(3))
    for run_id in (second, first, third):
        runs.save(report(run_id))
    assert runs.last() == json.loads(json.dumps(report(third).to_json()))
    assert sorted(path.name for path in runs.folder.iterdir()) == [
        f"{id}.json" for id in (first, second, third)
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: "\x00" * len(text),
        lambda text: text.replace('"cost": 0.5', '"cost": 0.7', 1),
        lambda text: text.replace('"index"', '"fast"', 1),
        lambda text: json.dumps({"workflow": "index", "steps": 3}),
    ],
    ids=["empty", "cut", "list", "object", "zeros", "flipped number", "flipped name", "foreign"],
)
def test_a_report_that_cannot_be_read_is_passed_over_and_told(
    runs: Runs, damage: Callable[[str], str], capsys: pytest.CaptureFixture[str]
):
    first, second = (runs.new_id() for _ in range(2))
    for run_id in (first, second):
        runs.save(report(run_id))
    path = runs.folder / f"{second}.json"
    path.write_text(damage(path.read_text()))
    last = runs.last()
    assert last
    assert last["run_id"] == first
    assert runs.ids("index") == [first]
    assert capsys.readouterr().err.count(f"graphmill: {path}: ") == 1


def test_a_report_of_an_earlier_version_is_read(runs: Runs):
    run_id = runs.new_id()
    runs.save(report(run_id))
    path = runs.folder / f"{run_id}.json"
    old = json.loads(path.read_text())
    for name in ("sha256", "health", "notes"):
        del old[name]
    path.write_text(json.dumps(old))
    assert runs.ids("index") == [run_id]


def test_a_damaged_note_of_the_holder_is_no_traceback(runs: Runs):
    with runs.alone():
        (runs.folder / "holder").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(LockedError, match="another run holds this project"), runs.alone():
            pytest.fail("two runs at once")


def test_ids_sort_by_time_within_a_second_too(runs: Runs):
    ids = [runs.new_id() for _ in range(200)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 200


def test_ids_come_after_those_that_are_there_where_the_clock_was_set_back(runs: Runs):
    ended, cut_off = "29990101T000000.000000-ffffff", "29990101T000000.999999-ffffff"
    runs.save(report(ended))
    assert runs.new_id() > ended
    runs.note(UnfinishedRun(cut_off, "fast"))
    assert runs.new_id() > cut_off


def test_totals_are_over_the_steps_and_the_load():
    totals = report("r").totals
    assert totals == {
        "calls": 2, "throttled_calls": 0, "cached_calls": 3, "estimated_calls": 0,
        "input_tokens": 0,
        "output_tokens": 0, "rejects": 1,
        "decided": 0, "recovered": 0, "not_read": {}, "seconds": 1.75, "cost": 0.5,
    }  # fmt: skip
    unpriced = RunReport("r", "index", "completed", 0, (StepReport("a", "v", "ran", cost=None),))
    assert unpriced.totals["cost"] is None


def test_a_second_process_is_refused_until_the_first_is_gone(runs: Runs):
    project = Path(__file__).parents[2]
    command = [sys.executable, "-c", HOLDER, str(runs.folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=project
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(LockedError, match=rf"process {holder.pid} on .*wait for it to end"),
            runs.alone(),
        ):
            pytest.fail("two runs at once")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with runs.alone():
            assert (runs.folder / "holder").read_text().startswith(f"{os.getpid()} on ")


def test_the_lock_is_let_go_when_a_run_fails(runs: Runs):
    with pytest.raises(ZeroDivisionError), runs.alone():
        raise ZeroDivisionError
    with runs.alone(), pytest.raises(LockedError), runs.alone():
        pytest.fail("two runs at once")


def test_another_lock_that_times_out_inside_a_run_is_not_taken_for_this_one(
    runs: Runs, tmp_path: Path
):
    with FileLock(tmp_path / "other"), pytest.raises(Timeout), runs.alone():
        FileLock(tmp_path / "other").acquire(timeout=0)


def test_the_note_of_a_waiting_load_says_for_whom_it_waits(runs: Runs):
    noted = ProgressNotes(Progress(), runs, UnfinishedRun(runs.new_id(), "fast"))
    noted.load_started()
    noted.load_waits("postgres: workspace 'default' is held by another")
    (begun,) = runs.unreported()
    assert begun.step == "load, which waits: postgres: workspace 'default' is held by another"


def test_a_killed_run_of_a_process_with_the_holders_number_is_not_under_way(runs: Runs):
    """In a container every command may be process 1."""
    runs.note(UnfinishedRun("20200101T000000.000000-abcdef", "fast", this_process(), "embed"))
    line = [sys.executable, "-c", LOOK, str(runs.folder)]
    with runs.alone():
        assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == "None\n"
        begun = UnfinishedRun(runs.new_id(), "fast", this_process(), "embed")
        runs.note(begun)
        assert (
            subprocess.run(line, capture_output=True, text=True, check=True).stdout
            == f"{begun.run_id}\n"
        )
