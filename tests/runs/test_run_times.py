"""Check that the times of a run are what the clock said, whatever its id says."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.engine.run_report import RunReport
from pipeline.runs.reports import RunEntry, Runs
from tests.projects import NO_STORE, ProjectFolder, new_project

AHEAD = "20991231T000000.000000-abcdef"
"""The id of a run that a clock made which was ahead by decades."""


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = new_project(tmp_path / "p", NO_STORE)
    Runs.of(folder.root).save(
        RunReport(AHEAD, "fast", "completed", 0, ended="2099-12-31T00:05:00Z")
    )
    return folder


def is_recent(moment: str) -> bool:
    return abs(datetime.now(UTC) - datetime.fromisoformat(moment)) < timedelta(minutes=10)


def test_after_a_clock_that_was_ahead_a_run_says_when_it_really_began_and_ended(
    folder: ProjectFolder,
):
    report = folder.report("index", "fast")
    assert report["run_id"] > AHEAD  # ids go on sorting in the order of the runs
    assert is_recent(report["began"])
    assert is_recent(report["ended"])
    listed = {entry["run_id"]: entry for entry in folder.report("runs")}[report["run_id"]]
    assert (listed["began"], listed["ended"]) == (report["began"], report["ended"])
    assert listed["seconds"] < 600
    assert report["began"][:16].replace("T", " ") in folder.invoke("status").stdout


def test_a_run_that_was_cut_off_says_when_it_really_began(folder: ProjectFolder):
    runs = Runs.of(folder.root)
    report = folder.report("index", "fast")
    left = runs.folder / f"{runs.new_id()}.begun"
    left.write_text(
        json.dumps({"run_id": left.stem, "workflow": "fast", "began": report["began"]}),
        encoding="utf-8",
    )
    assert folder.report("status")["cut_off"]["began"] == report["began"]
    assert folder.report("runs")[0]["began"] == report["began"]


def test_a_report_of_an_earlier_version_began_when_its_id_says(folder: ProjectFolder):
    runs = Runs.of(folder.root)
    earlier = RunReport(
        "20261123T232445.389791-c32e3f", "fast", "completed", 0, ended="2026-11-23T23:24:59Z"
    ).to_json()
    del earlier["began"]
    path = runs.folder / "20261123T232445.389791-c32e3f.json"
    path.write_text(json.dumps(earlier), encoding="utf-8")
    report = runs.report(path.stem)
    assert report is not None
    entry = RunEntry.of(report)
    assert (entry.began, entry.seconds) == ("2026-11-23T23:24:45Z", 14)
