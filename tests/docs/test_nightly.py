"""The guides to nightly runs, docs/nightly.md and docs/after-a-failure.md: their examples are
well-formed, their commands, options and exit codes are there."""

import json
import re
import shutil
import subprocess
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
from tests.projects import ProjectFolder, new_project
from tests.schedules import cron_environment, run_line, schedule_of

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
    r"(?:^|[\s/`])(?:graphmill|nightly\.sh)(?: -C \S+)? ([a-z]+)(?![\w@-])([^\n`|>&#;]*)"
)


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """Each graphmill command on the page, and its options."""
    text = page.read_text(encoding="utf-8")
    code = "\n".join(CODE.findall(text)) if page.suffix == ".md" else COMMENT.sub("", text)
    return [
        (name, re.findall(r"--[a-z-]+", arguments)) for name, arguments in COMMAND.findall(code)
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
    assert commands(NIGHTLY / "graphmill.service") == [
        ("run", ["--max-cost"]),
        ("gc", ["--keep", "--delete"]),
    ]
    assert ("load", ["--manifest"]) in commands(ROOT / "docs" / "after-a-failure.md")
    assert ("doctor", []) in commands(ROOT / "docs" / "nightly.md")


def test_every_exit_code_is_explained():
    page = (
        (ROOT / "docs" / "after-a-failure.md")
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
    job, gc = yaml.safe_load_all((NIGHTLY / "cronjob.yaml").read_text(encoding="utf-8"))
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
    assert container["command"][:4] == ["graphmill", "-C", "/srv/knowledge", "run"]
    assert container["volumeMounts"][0]["mountPath"] == "/srv/knowledge"
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    of_gc = gc["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert of_gc["volumes"] == spec["template"]["spec"]["volumes"]
    assert of_gc["containers"][0]["command"][3:] == ["gc", "--keep", "14", "--delete"]


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


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """A project with a schedule, in a folder whose name needs quotes."""
    root = tmp_path_factory.mktemp("nightly") / "100% of our notes"
    folder = new_project(root, postgres_url, workflow="fast")
    assert folder.invoke("init", "--nightly").exit_code == 0
    return folder


def test_the_lines_of_the_crontab_run_as_cron_runs_them(scheduled: ProjectFolder, tmp_path: Path):
    alert = tmp_path / "alert"
    env = cron_environment(tmp_path, ALERT=f"cat >{alert}")
    lines = schedule_of(scheduled.root).lines
    assert [line.split()[-3:] for line in lines] == [
        ["run", "--max-cost", "5"],
        ["--keep", "14", "--delete"],
    ]
    for line in lines:
        done = run_line(line, env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not alert.exists()
    assert [entry["outcome"] for entry in scheduled.invoke("runs", "--json").json] == ["completed"]


@pytest.mark.parametrize("line", [0, 1], ids=["run", "gc"])
def test_the_alert_command_is_called_when_a_command_fails(
    scheduled: ProjectFolder, tmp_path: Path, line: int
):
    alert = tmp_path / "alert"
    env = cron_environment(tmp_path, ALERT=f"cat >{alert}")
    command = f"{schedule_of(scheduled.root).lines[line]} --set workspace=A"
    done = run_line(command, env)
    first, *rest = alert.read_text(encoding="utf-8").splitlines()
    name = ("run", "gc")[line]
    assert first == f"graphmill {name} in {scheduled.root}: exit code {done.returncode}"
    assert done.returncode == UsageError.exit_code
    assert rest[-1].startswith("graphmill: ")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("alert", ["", "no-such-command"])
def test_without_an_alert_command_that_works_cron_gets_the_message(
    scheduled: ProjectFolder, tmp_path: Path, alert: str
):
    env = cron_environment(tmp_path, ALERT=alert)
    done = run_line(f"{schedule_of(scheduled.root).lines[0]} nonsense", env)
    assert done.returncode == UsageError.exit_code
    assert f"graphmill run in {scheduled.root}: exit code 2" in done.stderr
    assert "nonsense.yaml: no such workflow" in done.stderr


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
