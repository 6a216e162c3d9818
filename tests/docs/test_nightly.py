"""What docs/nightly.md promises: its examples are well-formed, its commands, options and exit codes
are there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from pipeline.cli import app
from pipeline.errors import (
    ABOVE_MAX_REJECTS,
    INTERRUPTED,
    TERMINATED,
    BudgetError,
    GraphmillError,
    UsageError,
    WaitingError,
)
from tests.projects import new_project

ROOT = Path(__file__).parents[2]
NIGHTLY = ROOT / "examples" / "nightly"
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    NIGHTLY / "crontab",
    NIGHTLY / "graphmill.service",
]
FAILURES = {
    GraphmillError.exit_code,
    UsageError.exit_code,
    ABOVE_MAX_REJECTS,
    BudgetError.exit_code,
}
CODE = re.compile(r"```\w*\n.*?```|`[^`\n]+`", re.DOTALL)
COMMENT = re.compile(r"^# .*$", re.MULTILINE)
COMMAND = re.compile(
    r"(?:^|[\s/`])(graphmill|nightly\.sh)(?: -C \S+| /\S+)? ([a-z]+)(?![\w@-])([^\n`|>&#;]*)"
)


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Each graphmill command on the page, and its options."""
    text = page.read_text(encoding="utf-8")
    code = "\n".join(CODE.findall(text)) if page.suffix == ".md" else COMMENT.sub("", text)
    return [
        ("run" if script == "nightly.sh" else name, re.findall(r"--[a-z-]+", arguments))
        for script, name, arguments in COMMAND.findall(code)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_the_page_is_there_with_its_options(page: Path):
    known: Any = typer.main.get_command(app)
    for name, options in commands(page):
        command = known.commands[name]
        group = getattr(command, "commands", {"": command})
        have = {
            option
            for one in group.values()
            for parameter in one.params
            for option in parameter.opts
        }
        assert set(options) <= have, name


def test_commands_are_found():
    assert commands(NIGHTLY / "crontab") == [
        ("run", ["--max-cost"]),
        ("gc", ["--keep", "--delete"]),
    ]
    assert commands(NIGHTLY / "graphmill.service") == [("run", ["--max-cost"])]
    assert ("load", ["--manifest"]) in commands(ROOT / "docs" / "nightly.md")
    assert ("doctor", []) in commands(ROOT / "docs" / "nightly.md")


def test_every_exit_code_is_explained():
    page = (
        (ROOT / "docs" / "nightly.md")
        .read_text(encoding="utf-8")
        .partition("## Exit codes")[2]
        .partition("## ")[0]
    )
    explained = {
        int(code)
        for row in re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
        for code in row.split(",")
    }
    assert explained == FAILURES | {0, WaitingError.exit_code, INTERRUPTED, TERMINATED, 137}


def test_the_kubernetes_job():
    job = yaml.safe_load((NIGHTLY / "cronjob.yaml").read_text(encoding="utf-8"))
    spec = job["spec"]["jobTemplate"]["spec"]
    codes = {
        rule["action"]: set(rule["onExitCodes"]["values"])
        for rule in spec["podFailurePolicy"]["rules"]
    }
    assert codes == {"FailJob": FAILURES, "Ignore": {WaitingError.exit_code}}
    (container,) = spec["template"]["spec"]["containers"]
    assert {rule["onExitCodes"]["containerName"] for rule in spec["podFailurePolicy"]["rules"]} == {
        container["name"]
    }
    assert container["command"][:5] == ["graphmill", "-C", "/project", "run", "index"]
    assert container["volumeMounts"][0]["mountPath"] == "/project"
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not there")
def test_the_systemd_units(tmp_path: Path):
    units = [path for path in NIGHTLY.iterdir() if path.suffix in (".service", ".timer")]
    for unit in units:
        text = unit.read_text(encoding="utf-8").replace("/opt/graphmill/bin/graphmill", "/bin/true")
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    verified = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / unit.name for unit in units)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert len(units) == 3
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.fixture
def night(tmp_path: Path, postgres_url: str) -> Any:
    """Runs nightly.sh; returns (exit code, the alert)."""
    project = new_project(tmp_path / "p", postgres_url)
    command = tmp_path / "bin" / "graphmill"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pipeline "$@"\n')
    command.chmod(0o755)
    env = {
        **project.environment, "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "ALERT": f"cat >{tmp_path / 'alert'}",
    }  # fmt: skip

    def run(*arguments: str) -> tuple[int, str]:
        line = [NIGHTLY / "nightly.sh", project.root, *arguments]
        done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("", "")
        alert = tmp_path / "alert"
        return done.returncode, alert.read_text() if alert.exists() else ""

    return run


@pytest.mark.skipif(
    not (shutil.which("jq") and shutil.which("bash")), reason="jq or bash is not there"
)
def test_the_script_tells_only_when_there_is_something_to_tell(night: Any):
    assert night("fast") == (0, "")
    code, alert = night("nonsense")
    assert code == UsageError.exit_code
    assert alert.splitlines()[0].endswith("exit code 2")
    assert "nonsense.yaml: no such workflow" in alert


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not there")
@pytest.mark.parametrize(
    ("days_ago", "holds"),
    [(0, True), (3, False), (-30_000, False)],
    ids=["ended today", "ended days ago", "ended in the future"],
)
def test_the_first_alert_fails_unless_a_run_ended_lately_by_a_clock_that_is_right(
    tmp_path: Path, days_ago: int, holds: bool
):
    page = (ROOT / "docs/nightly.md").read_text(encoding="utf-8")
    line = next(
        line for line in page.splitlines() if line.startswith("jq -e") and "26*3600" in line
    )
    ended = datetime.now(UTC) - timedelta(days=days_ago)
    ahead = "20991231T000000.000000-abcdef"  # an id says nothing of when a run ended
    report = {"run_id": ahead, "ended": f"{ended:%Y-%m-%dT%H:%M:%SZ}"}
    (tmp_path / "last.json").write_text(json.dumps(report), encoding="utf-8")
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode == 0) == holds
