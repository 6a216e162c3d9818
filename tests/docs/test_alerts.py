"""The alert rules name metrics that exist, and fire when they should."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.runs.metrics import RunMetrics, exposition
from pipeline.runs.reports import Runs
from pipeline.serve.metrics import Counts
from tests.runs.test_metrics import FAILED, REPORT

ROOT = Path(__file__).parents[2]
RULES = ROOT / "examples" / "alerts" / "graphmill.yaml"


def rules() -> list[dict[str, Any]]:
    content = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in content["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """All metrics of a project with a run and of a server with an answer."""
    folder = tmp_path_factory.mktemp("p")
    Runs.of(folder).save(REPORT)
    Runs.of(folder).save(replace(FAILED, steps=(), exit_code=2))  # a refused one
    counts = Counts()
    counts.count_status(200)
    counts.count_seconds("naive", 0.1)
    runs = RunMetrics(folder, Runs.of(folder)).metrics()
    return exposition([*runs, *counts.metrics()])


def test_every_metric_of_a_rule_exists_with_its_labels(exposed: str):
    names = set(re.findall(r"^(graphmill_\w+)", exposed, re.MULTILINE))
    labels = set(re.findall(r'[{,](\w+)="', exposed))
    for rule in rules():
        used = set(re.findall(r"\bgraphmill_\w+", rule["expr"]))
        assert used <= names, rule["alert"]
        told = re.findall(r"\$labels\.(\w+)", yaml.safe_dump(rule["annotations"]))
        assert set(told) <= labels | {"instance"}, rule["alert"]
        asked = re.findall(r'(\w+)=~?"', rule["expr"])
        assert set(asked) <= labels | {"job"}, rule["alert"]


def test_every_rule_says_what_to_do():
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "action"}
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_every_metric_is_on_the_page(exposed: str):
    page = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
    for name in re.findall(r"^# TYPE (\w+)", exposed, re.MULTILINE):
        assert f"`{name}`" in page, name


promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not there")


@promtool
def test_promtool_accepts_the_rules_and_the_metrics(exposed: str):
    for line, text in (
        (["promtool", "check", "rules", str(RULES)], ""),
        (["promtool", "check", "metrics"], exposed),
    ):
        done = subprocess.run(line, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@promtool
def test_a_failed_night_fires_and_a_good_one_does_not(tmp_path: Path):
    series = []
    for workflow, reports in {"bad": [REPORT, FAILED], "good": [REPORT]}.items():
        folder = tmp_path / workflow
        for report in reports:
            Runs.of(folder).save(replace(report, workflow=workflow))
        text = exposition(RunMetrics(folder, Runs.of(folder)).metrics())
        series += [line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#"]
    # Times of reports are of 2026, and the test's clock begins in 1970.
    shown = [
        {"series": name.replace(str(tmp_path), "/p"), "values": f"{value}x60"}
        for name, value in series
        if "timestamp" not in name
    ]

    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": shown,
                "promql_expr_test": [
                    {
                        "expr": 'count by (project) (ALERTS{alertname="GraphmillRunFailed"})',
                        "eval_time": "30m",
                        "exp_samples": [{"labels": '{project="/p/bad"}', "value": 1}],
                    },
                    {
                        "expr": 'count(ALERTS{alertname="GraphmillTooManyRejects"})',
                        "eval_time": "30m",
                        "exp_samples": [],
                    },
                ],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(test), encoding="utf-8")
    line = ["promtool", "test", "rules", str(file)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
