import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from pipeline.cli.console import describe, describe_load, print_report
from pipeline.cli.options import print_whole
from pipeline.cli.progress import Bars, Lines, _bars, run_progress
from pipeline.engine.run_report import RunReport, StepReport
from pipeline.engine.runner import Progress as RunProgress
from pipeline.runs.events import Events
from pipeline.runs.run_log import LogLines

RAN = StepReport(
    "embed", "embed_text", "ran", "input", {"vectors": 1200}, calls=3, cached_calls=2, rejects=1,
    reject_reasons={"timeout": 1}, seconds=2,
)  # fmt: skip
REUSED = StepReport("load", "load_documents", "reused", rows={"documents": 25})


def go_through(progress: RunProgress) -> None:
    progress.step_started("embed", 1, 2)
    progress.step_advanced("embed", 0, 10)
    progress.step_advanced("embed", 10, 10)
    progress.step_finished(RAN)


def test_a_step_in_one_line():
    assert describe(RAN).split("  ")[-1] == "2.0 s"
    assert "ran (input)" in describe(RAN)
    assert "1,200 vectors; 3 calls; 2 known; 1 left out (1 timeout)" in describe(RAN)
    assert "calls" not in describe(REUSED)
    assert "stopped (new) 1 call  " in describe(
        replace(REUSED, action="stopped", reason="new", rows={}, calls=1)
    )
    assert describe(REUSED).index("25 documents") == describe(RAN).index("1,200 vectors")


def test_json_lines_are_objects_with_an_event(capsys: pytest.CaptureFixture[str]):
    go_through(Events(LogLines(Path(), print_whole).tell))
    shown = capsys.readouterr()
    events = [json.loads(line) for line in shown.err.splitlines()]
    assert shown.out == ""
    assert [event["event"] for event in events] == [
        "step_started",
        "step_advanced",
        "step_finished",
    ]
    advanced = {"event": "step_advanced", "step": "embed", "done": 10, "expected": 10}
    assert events[1].items() >= advanced.items()
    assert events[2]["rows"] == {"vectors": 1200}


def test_without_a_terminal_there_is_a_line_a_step(capsys: pytest.CaptureFixture[str]):
    with run_progress("auto", Path()) as progress:
        go_through(progress)
    assert capsys.readouterr().err == describe(RAN) + "\n"


def test_a_long_step_gives_a_sign_of_life(capsys: pytest.CaptureFixture[str]):
    lines = Lines()
    lines.step_started("embed", 1, 1)
    lines.step_advanced("embed", 1000, 2000)
    lines.pulse.said -= 60
    lines.pulse.started -= 60
    lines.beat()
    lines.beat()
    assert capsys.readouterr().err.splitlines() == [f"{'embed':<22} 1,000 of 2,000 ... 60 s"]


def test_bars_take_more_work_than_was_expected():
    screen = io.StringIO()
    with Progress(console=Console(file=screen, force_terminal=True, width=120)) as progress:
        bars = Bars(progress)
        go_through(bars)
        bars.step_started("[odd] name", 2, 2)
        bars.step_advanced("[odd] name", 5, 0)
        bars.step_finished(REUSED)
    assert "1,200 vectors" in screen.getvalue()


@pytest.mark.parametrize("width", [40, 60, 100])
def test_counts_and_clock_stand_in_a_narrow_terminal(width: int):
    screen = io.StringIO()
    with _bars(
        Console(file=screen, force_terminal=True, color_system=None, width=width)
    ) as progress:
        bars = Bars(progress)
        bars.step_started("embed_relationships", 10, 10)
        bars.step_advanced("embed_relationships", 1234, 5678)
        progress.refresh()
    shown = screen.getvalue()
    assert "1234/5678" in shown
    assert "0:00:00" in shown
    assert ("━" in shown) == (width == 100)


def test_each_part_of_a_load_has_a_bar_of_its_own():
    """Parts of one size follow each other: the clock of the second one runs."""
    with Progress(console=Console(file=io.StringIO(), force_terminal=True, width=120)) as progress:
        bars = Bars(progress)
        bars.load_started()
        bars.load_advanced("postgres", "index of chunks", 0, 1)
        bars.load_advanced("postgres", "index of chunks", 1, 1)
        bars.load_advanced("postgres", "index of entities", 0, 1)
        (task,) = progress.tasks
        assert (task.finished, task.completed, task.total) == (False, 0, 1)


def test_a_run_and_its_report_have_one_order():
    """A report is kept with its keys sorted."""
    load = {
        "postgres": {
            table: {"updated": 1, "inserted": 1} for table in ("documents", "chunks", "claims")
        }
    }
    ran = replace(
        RAN,
        rows={"b": 1, "a": 2},
        reject_reasons={"timeout": 1, "parse": 1},
        not_read={"zip": 1, "png": 2},
    )
    report = RunReport("r", "index", "completed", 0, (ran,), load)
    kept = json.loads(json.dumps(report.to_json(), sort_keys=True))
    assert describe(StepReport(**kept["steps"][0])) == describe(ran)
    assert (
        "2 a, 1 b; 3 calls; 2 known; 1 left out (1 parse, 1 timeout); not read: 2 png, 1 zip"
        in describe(ran)
    )
    assert describe_load(kept["load"], 1.0) == describe_load(load, 1.0)
    assert " documents 1 inserted, 1 updated; chunks " in describe_load(load, 1.0)


def test_the_end_of_a_run(capsys: pytest.CaptureFixture[str]):
    counts = {"inserted": 2, "updated": 0, "deleted": 1, "unchanged": 0}
    load = {"postgres": {"chunks": counts, "entities": dict.fromkeys(counts, 0)}}
    report = RunReport("r", "index", "completed_with_rejects", 0, (RAN, REUSED), load)
    assert (
        describe_load(load, 1.0)
        == "load postgres          chunks 2 inserted, 1 deleted; entities empty  1.0 s"
    )
    print_report(report.to_json())
    assert capsys.readouterr().out.splitlines() == [
        "3 model calls (2 known), 0 + 0 tokens, cost 0.0000, 1 reject, 2.0 s",
        "index: completed with rejects",
    ]
