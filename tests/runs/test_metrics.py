import os
import re
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.run_report import RunReport, StepReport
from pipeline.runs.metrics import Metric, RunMetrics, Sample, exposition, write_textfile
from pipeline.runs.reports import Runs, UnfinishedRun
from tests.projects import NO_STORE, new_project

ENDED = "2026-11-28T02:00:00Z"
STEP = StepReport(
    "extract_graph",
    "extract_graph",
    "ran",
    calls=7,
    input_tokens=900,
    output_tokens=80,
    cost=0.25,
    rejects=2,
    decided=3,
)
REPORT = RunReport(
    "20261128T013000.000000-aaaaaa",
    "index",
    "completed_with_rejects",
    0,
    (STEP,),
    began="2026-11-28T01:30:00Z",
    ended=ENDED,
)
FAILED = replace(
    REPORT,
    run_id="20261129T013000.000000-bbbbbb",
    outcome="failed",
    exit_code=1,
    began="2026-11-29T01:30:00Z",
    ended="2026-11-29T01:31:00Z",
)


def values(text: str) -> dict[str, float]:
    """Return each sample of the text format by its name and labels, without the project."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[re.sub(r'project="[^"]*",?', "", name).replace(",}", "}")] = float(value)
    return found


def shown(folder: Path) -> dict[str, float]:
    return values(exposition(RunMetrics(folder, Runs.of(folder)).metrics()))


def test_the_text_format_escapes_labels_and_shows_whole_numbers_without_exponent():
    samples = [
        Sample({"a": 'x"\\\n'}, 1764295200),
        Sample({}, 0.25),
        Sample({"le": "+Inf"}, 3, "_bucket"),
    ]
    text = exposition([Metric("m", "histogram", "Line\nand \\.", samples)])
    assert text.splitlines() == [
        r"# HELP m Line\nand \\.",
        "# TYPE m histogram",
        r'm{a="x\"\\\n"} 1764295200',
        "m 0.25",
        'm_bucket{le="+Inf"} 3',
    ]
    assert exposition([Metric("m", "gauge", "Nothing.", [])]) == ""


def test_the_last_run_and_the_last_success_are_shown_apart(tmp_path: Path):
    runs = Runs.of(tmp_path)
    runs.save(REPORT)
    runs.save(FAILED)
    found = shown(tmp_path)
    of = '{workflow="index"}'
    success = datetime.fromisoformat(ENDED).timestamp()
    assert found[f"graphmill_run_last_success_timestamp_seconds{of}"] == success
    assert found[f"graphmill_run_last_exit_code{of}"] == 1
    assert found[f"graphmill_run_last_duration_seconds{of}"] == 60
    assert found['graphmill_run_last_state{workflow="index",state="failed"}'] == 1
    assert found['graphmill_run_last_state{workflow="index",state="completed"}'] == 0
    assert found['graphmill_run_last_rejects{workflow="index",class="lost"}'] == 2
    assert found['graphmill_run_last_rejects{workflow="index",class="decided"}'] == 3
    assert found[f"graphmill_run_last_model_calls{of}"] == 7
    assert found['graphmill_run_last_tokens{workflow="index",direction="input"}'] == 900
    assert found[f"graphmill_run_last_cost{of}"] == 0.25


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": ()},
        {"exit_code": 3},
        {"steps": (replace(STEP, waiting=1),)},
        {"not_selected": ("embed_text",)},
    ],
    ids=["a load alone", "too many rejects", "replies that wait", "some steps"],
)
def test_only_a_run_that_indexed_everything_is_a_success(tmp_path: Path, changes: dict[str, Any]):
    Runs.of(tmp_path).save(replace(REPORT, **changes))
    assert not any("last_success" in name for name in shown(tmp_path))


def test_a_refused_run_is_shown_beside_the_last_that_began(tmp_path: Path):
    runs = Runs.of(tmp_path)
    refused = replace(FAILED, steps=(), exit_code=2)
    success = datetime.fromisoformat(ENDED).timestamp()
    of = '{workflow="index"}'
    runs.save(refused)
    found = shown(tmp_path)
    assert found['graphmill_run_last_state{workflow="index",state="failed"}'] == 1
    runs.save(REPORT)
    found = shown(tmp_path)
    assert found['graphmill_run_last_state{workflow="index",state="completed_with_rejects"}'] == 1
    assert found[f"graphmill_run_last_success_timestamp_seconds{of}"] == success
    tried = datetime.fromisoformat(refused.ended).timestamp()
    assert found[f"graphmill_run_last_refused_timestamp_seconds{of}"] == tried
    runs.save(replace(REPORT, run_id="20261130T013000.000000-cccccc"))
    assert f"graphmill_run_last_refused_timestamp_seconds{of}" not in shown(tmp_path)


def test_a_killed_run_and_its_end_are_seen_by_the_same_metrics(tmp_path: Path):
    runs = Runs.of(tmp_path)
    runs.save(REPORT)
    metrics = RunMetrics(tmp_path, runs)
    metrics.metrics()
    runs.note(UnfinishedRun(FAILED.run_id, "index", began=FAILED.began))
    found = values(exposition(metrics.metrics()))
    assert found['graphmill_run_last_state{workflow="index",state="killed"}'] == 1
    assert 'graphmill_run_last_end_timestamp_seconds{workflow="index"}' not in found
    runs.save(FAILED)
    found = values(exposition(metrics.metrics()))
    assert found['graphmill_run_last_state{workflow="index",state="failed"}'] == 1


def test_each_run_writes_the_textfile(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, workflow="fast")
    assert folder.invoke("index").exit_code == 0
    file = folder.root / "data/runs/graphmill.prom"
    found = values(file.read_text(encoding="utf-8"))
    assert found['graphmill_run_last_state{workflow="fast",state="completed"}'] == 1
    age = time.time() - found['graphmill_run_last_success_timestamp_seconds{workflow="fast"}']
    assert -1 <= age < 120
    assert os.stat(file).st_mode & 0o777 == 0o644
    other = tmp_path / "node" / "graphmill.prom"
    other.parent.mkdir()
    folder.edit_settings(metrics={"textfile": str(other)})
    assert folder.invoke("run").exit_code == 1
    found = values(other.read_text(encoding="utf-8"))
    assert found['graphmill_run_last_state{workflow="fast",state="failed"}'] == 1
    assert [path.name for path in other.parent.iterdir()] == [other.name]


def test_a_textfile_that_cannot_be_written_is_told_and_ends_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    Runs.of(tmp_path).save(REPORT)
    write_textfile(tmp_path, Runs.of(tmp_path), "nowhere/graphmill.prom", REPORT)
    assert "metrics.textfile: " in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_the_textfile_has_a_run_whose_report_found_no_place_on_the_disk(tmp_path: Path):
    runs = Runs.of(tmp_path)
    runs.save(REPORT)
    run_id = runs.new_id()
    runs.note(UnfinishedRun(run_id, "index", began=FAILED.began))
    write_textfile(tmp_path, runs, "", replace(FAILED, run_id=run_id))
    found = values((runs.folder / "graphmill.prom").read_text(encoding="utf-8"))
    assert found['graphmill_run_last_state{workflow="index",state="failed"}'] == 1


def test_no_document_is_named(tmp_path: Path):
    failed = StepReport("load", "load_documents", "failed", reject_reasons={"secret.pdf": 1})
    Runs.of(tmp_path).save(replace(FAILED, steps=(failed,), message="secret.pdf: damaged"))
    text = exposition(RunMetrics(tmp_path, Runs.of(tmp_path)).metrics())
    assert "secret" not in text
