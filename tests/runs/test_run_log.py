import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.run_report import RunReport, StepReport
from pipeline.runs.reports import Runs
from pipeline.runs.run_log import LogFile, level_of, log_of
from tests.projects import NO_STORE, ProjectFolder, new_project

ORIGIN = ("time", "level", "project", "host", "version", "run", "workflow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    return new_project(tmp_path_factory.mktemp("log") / "p", NO_STORE, workflow="fast")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def newest_log(folder: ProjectFolder) -> list[dict[str, Any]]:
    return lines_of(max((folder.root / "data/runs").glob("*.log")))


def test_every_line_says_when_where_and_of_which_run_it_is(folder: ProjectFolder):
    done = folder.invoke("index", "--log", "json")
    run = Runs.of(folder.root).reported_ids()[-1]
    shown = [json.loads(line) for line in done.stderr.splitlines()]
    written = newest_log(folder)
    for line in (*shown, *written):
        assert tuple(line)[: len(ORIGIN)] == ORIGIN
        assert (line["run"], line["workflow"]) == (run, "fast")
        assert line["project"] == str(folder.root)
        assert (line["host"], line["version"]) == (os.uname().nodename, version("graphmill"))
        assert line["time"].endswith("+00:00")
    kinds = [line["event"] for line in written]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_ended")
    assert [line["event"] for line in shown if not line["event"].endswith("advanced")] == kinds
    assert written[-1]["level"] == "info"


def test_the_last_line_has_the_error_of_the_run(folder: ProjectFolder):
    done = folder.invoke("run", "--log", "json")
    shown = [json.loads(line) for line in done.stderr.splitlines()]
    for last in (shown[-1], newest_log(folder)[-1]):
        assert (last["event"], last["level"], last["exit_code"]) == ("run_ended", "error", 1)
        assert last["message"].startswith("stores.postgres.url: ")


def test_the_last_line_has_the_error_of_a_run_that_did_not_begin(folder: ProjectFolder):
    before = sorted((folder.root / "data/runs").glob("*.log"))
    done = folder.invoke("run", "nonsense", "--log", "json")
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (line["event"], line["level"], line["exit_code"]) == ("error", "error", 2)
    assert "nonsense.yaml: no such workflow" in line["message"]
    assert sorted((folder.root / "data/runs").glob("*.log")) == before


@pytest.mark.parametrize(
    ("event", "level"),
    [
        ({"exit_code": 0, "rejects": 0}, "info"),
        ({"exit_code": 0, "rejects": 2}, "warning"),
        ({"exit_code": 4}, "warning"),
        ({"exit_code": 5}, "error"),
        ({"exit_code": 143}, "error"),
        ({"action": "failed"}, "warning"),
        ({"event": "told"}, "info"),
    ],
)
def test_levels(event: dict[str, Any], level: str):
    assert level_of(event) == level


def test_a_long_step_has_few_lines(tmp_path: Path):
    log = LogFile(tmp_path / "p" / "data" / "runs" / "r.log")
    log.path.parent.mkdir(parents=True)
    advanced = {"event": "step_advanced", "step": "embed", "done": 1, "expected": 9}
    log.tell({"event": "step_started", "step": "embed"})
    log.tell(advanced)
    log.advanced -= 61
    log.tell(advanced)
    log.tell(advanced)
    assert [line["event"] for line in lines_of(log.path)] == ["step_started", "step_advanced"]


def test_a_disk_that_takes_no_line_ends_no_run(tmp_path: Path):
    runs = Runs(tmp_path / "data" / "runs")
    runs.log_path("r").mkdir(parents=True)
    log = log_of(runs, "r")
    log.run_started("r", "fast")
    log.step_finished(StepReport("load", "load_documents", "ran"))
    log.run_ended(RunReport("r", "fast", "completed", 0))


def test_forgetting_the_history_deletes_the_logs(tmp_path: Path):
    runs = Runs(tmp_path)
    log = log_of(runs, "r")
    log.run_started("r", "fast")
    runs.forget_before("s")
    assert list(tmp_path.glob("*.log")) == []
