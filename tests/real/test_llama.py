"""A real llama.cpp server with a model of 135 million parameters, which can extract hardly
anything.

Nothing may be lost all the same, and everything is billed. Nothing here asks whether a reply is
good.
"""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.projects import ProjectFolder
from tests.real.conftest import MOST_TOKENS_OF_A_REPLY, PATIENCE, RealModel
from tests.real.laws import citations_were_shown, nothing_is_lost, usage_is_the_servers

QUESTION = "Who built the Harrow Light?"
FORMATS = ("records", "json")
COMPLETED = (0, 3)
"""Exit codes of a run that came to its end; 3: so many rows were rejected that the stores were left
as they were."""


def command(
    folder: ProjectFolder, *arguments: str, said: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        folder.command_line(*arguments), capture_output=True, text=True, env=folder.environment,
        timeout=PATIENCE,
        input=said, check=False,
    )  # fmt: skip


def run(folder: ProjectFolder, *options: str) -> dict[str, Any]:
    done = command(folder, "run", "index", "--json", *options)
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode
    return report


def in_background(folder: ProjectFolder, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        folder.command_line(*arguments), env=folder.environment, text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for_a_call(real: RealModel, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + PATIENCE
    while not real.proxy.begun:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def test_doctor_looks_at_the_model_and_says_what_it_asked(
    tmp_path: Path, postgres_url: str, real: RealModel
):
    folder = real.project(tmp_path / "p", postgres_url)
    done = command(folder, "doctor", "--json")
    assert "Traceback" not in done.stderr
    findings = json.loads(done.stdout)
    told = json.dumps(findings)
    assert "has a server that answers" in told
    assert f"{len(real.proxy.exchanges)} calls" in told
    assert done.returncode == int(any(finding["verdict"] == "failed" for finding in findings))


@pytest.mark.parametrize("format", FORMATS)
def test_a_run_loses_nothing_and_bills_what_the_server_counted(
    tmp_path: Path, postgres_url: str, real: RealModel, format: str
):
    folder = real.project(tmp_path / "p", postgres_url, format)
    planned = command(folder, "plan", "index", "--json")
    assert (planned.returncode, real.proxy.begun) == (0, 0)
    expected = {step["step"]: step["estimate"] for step in json.loads(planned.stdout)["steps"]}
    report = run(folder)
    assert report["exit_code"] in COMPLETED
    assert len(real.proxy.exchanges) >= expected["extract_graph"]["calls"][0] > 0
    with folder.open() as project:
        nothing_is_lost(project, report["health"])
        usage_is_the_servers(project.usage(), real.proxy.exchanges)
        rejected = project.table("rejects", "index")
    if rejected.empty:
        real.proxy.forget()
        run(folder)
        assert not real.proxy.begun


def test_a_budget_of_tokens_is_kept(tmp_path: Path, postgres_url: str, real: RealModel):
    limit = 1000
    report = run(real.project(tmp_path / "p", postgres_url), "--max-tokens", str(limit))
    spent = [sum(exchange.tokens or (0, 0)) for exchange in real.proxy.exchanges]
    assert report["exit_code"] == 5
    assert sum(spent) < limit + max(spent)
    assert all(
        (exchange.tokens or (0, 0))[1] <= MOST_TOKENS_OF_A_REPLY
        for exchange in real.proxy.exchanges
    )


def test_answers_cite_what_the_model_was_shown_plain_streamed_and_in_a_chat(
    tmp_path: Path, postgres_url: str, real: RealModel
):
    folder = real.project(tmp_path / "p", postgres_url)
    with folder.open() as project:
        assert project.run("fast").exit_code == 0
    assert not real.proxy.begun, "the workflow 'fast' asks no chat model"
    plain = command(
        folder, "query", QUESTION, "--mode", "naive", "--json", "--include-chunk-content"
    )
    assert plain.returncode == 0, plain.stderr
    answer = json.loads(plain.stdout)
    [exchange] = real.proxy.exchanges
    assert answer["answer"].strip()
    citations_were_shown(answer, exchange.prompt)

    streamed = command(folder, "query", "Who founded the Brack Institute?", "--mode", "naive")
    assert streamed.returncode == 0, streamed.stderr
    assert streamed.stdout.strip()
    assert real.proxy.exchanges[-1].body["stream"]

    talk = command(folder, "chat", "--mode", "naive", said=f"{QUESTION}\nWhen was that?\n/quit\n")
    assert talk.returncode == 0, talk.stderr
    assert "Traceback" not in talk.stderr
    assert any("When was that?" in exchange.prompt for exchange in real.proxy.exchanges)
    with folder.open() as project:
        usage_is_the_servers(project.usage(), real.proxy.exchanges)


def test_ctrl_c_ends_a_run_and_the_next_one_pays_for_no_reply_twice(
    tmp_path: Path, postgres_url: str, real: RealModel
):
    folder = real.project(tmp_path / "p", postgres_url)
    process = in_background(folder, "run", "index", "--json")
    wait_for_a_call(real, process)
    process.send_signal(signal.SIGINT)
    shown, complaint = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, complaint
    assert "Traceback" not in complaint
    assert json.loads(shown)["outcome"] == "stopped"
    report = run(folder)
    assert report["exit_code"] in COMPLETED
    asked = [
        json.dumps(exchange.body, sort_keys=True)
        for exchange in real.proxy.exchanges
        if exchange.tokens
    ]
    assert len(asked) == len(set(asked)), "a reply that was answered has been asked for again"
    with folder.open() as project:
        nothing_is_lost(project, report["health"])


def test_a_restart_of_the_server_during_a_run_loses_nothing(
    tmp_path: Path, postgres_url: str, real: RealModel
):
    folder = real.project(tmp_path / "p", postgres_url)
    process = in_background(folder, "run", "index", "--json")
    wait_for_a_call(real, process)
    real.server.kill()
    real.server.start(
        is_waited_for=False
    )  # for some seconds it refuses connections, then it loads its model
    shown, complaint = process.communicate(timeout=PATIENCE)
    real.server.wait()
    assert "Traceback" not in complaint
    assert process.returncode in (1, *COMPLETED), complaint
    report = json.loads(shown)
    if process.returncode == 1:
        report = run(folder)
    assert report["exit_code"] in COMPLETED
    with folder.open() as project:
        rejects = project.table("rejects", "index")
        lost = rejects[rejects["reason"] == "server_error"]
        if len(lost):
            report = json.loads(command(folder, "retry", "index", "--json").stdout)
        nothing_is_lost(project, report["health"])
        usage_is_the_servers(project.usage(), real.proxy.exchanges)
        assert "server_error" not in set(project.table("rejects", "index")["reason"])
