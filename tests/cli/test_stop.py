"""Ctrl-C and SIGTERM: one line, an exit code, and the next run goes on."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.cli import build
from pipeline.errors import Terminated
from pipeline.serve import browser
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer, Reply
from tests.sizes import size


@pytest.mark.parametrize(
    ("sent", "code"), size([(signal.SIGINT, 130)], [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
)
def test_a_stopped_run(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, sent: signal.Signals, code: int
):
    project = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    openai.reply = lambda messages, body: Reply("late", delay=2)  # a stopped run waits for it
    process = subprocess.Popen(
        project.command_line("index", "index", "--json"),
        env=project.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not openai.count("chat") and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(sent)
    shown, complaint = process.communicate(timeout=20)
    assert complaint.splitlines()[-1].startswith("graphmill: stopped; everything computed is kept")
    assert "Traceback" not in complaint
    report = json.loads(shown)
    assert (process.returncode, report["exit_code"], report["outcome"]) == (code, code, "stopped")
    assert [step["action"] for step in report["steps"]] == ["ran", "ran", "ran", "stopped"]


def test_a_question_that_is_broken_off(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    project = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    with project.open() as opened:
        opened.run("fast")
    openai.reply = lambda messages, body: Reply("It was Mira Vale who " * 20, pause=0.5)
    process = subprocess.Popen(
        project.command_line("query", "Who built the Harrow Light?", "--mode", "naive"),
        env=project.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = process.stdout.read(4)
    process.send_signal(signal.SIGINT)
    rest, complaint = process.communicate(timeout=20)
    assert (process.returncode, complaint) == (130, "graphmill: broken off\n")
    assert (said + rest).endswith("\n")


def test_a_server_that_is_stopped_while_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(browser, "show", interrupted)
    done = new_project(tmp_path / "p", NO_STORE).invoke("ui")
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "graphmill: stopped serving\n"


@pytest.mark.parametrize(("interrupt", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_stopped_before_the_project_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException], code: int
):
    def interrupted(*arguments: object) -> None:
        raise interrupt

    monkeypatch.setattr(build, "_selection", interrupted)  # where a command begins to import
    done = ProjectFolder(tmp_path).invoke("run", "index")
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr == "graphmill: interrupted before it began\n"
