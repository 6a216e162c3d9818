"""Killed at any instant: the next run goes on, asks for no stored reply again, and ends as if nothing had been."""

import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from pipeline.snapshots import Manifest
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

CONCURRENCY = 4
DOCUMENTS = {
    f"report-{number:02}.txt": f"Report {number}\n\nCaptain Orla Venn visited Port {chr(65 + number)}ella in "
    f"{1900 + number}. Port {chr(65 + number)}ella trades with Tessing Harbour."
    for number in range(24)
}


def _tables(project: ProjectFolder) -> dict[str, str]:
    manifest: Manifest = project.open().snapshots.manifest("index")
    return {name: snapshot.sha256 for name, snapshot in manifest.tables.items()}


def _stored_replies(project: ProjectFolder) -> int:
    with closing(sqlite3.connect(project.root / "data/cache.sqlite")) as cache:
        return cache.execute("SELECT count(*) FROM completions").fetchone()[0]


def _project(root: Path, postgres_url: str, endpoint: OpenAIServer) -> ProjectFolder:
    project = new_project(root, postgres_url, DOCUMENTS, endpoint)
    chat = {"base_url": "${OPENAI_BASE_URL:-}", "api_key": "${OPENAI_API_KEY:-}", "concurrency": CONCURRENCY}
    project.edit_settings(models={"chat": {"default": chat}, "embedding": {"default": {"provider": "builtin"}}})
    return project


@pytest.mark.parametrize("answered_before_the_kill", [1, 9, 20])
def test_killed_during_extraction(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, answered_before_the_kill: int
) -> None:
    whole = _project(tmp_path / "whole", postgres_url, openai)
    assert whole.command("index").returncode == 0
    expected = _tables(whole)
    calls = openai.count("chat")
    assert calls == len(DOCUMENTS)

    killed = _project(tmp_path / "killed", postgres_url, openai)
    openai.delay = 0.05
    process = subprocess.Popen(
        killed.command_line("index"),
        env=killed.environment,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while openai.count("chat") < calls + answered_before_the_kill and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    openai.delay = 0.0
    stored = _stored_replies(killed)
    asked = openai.count("chat")

    done = killed.command("run", "--json")
    assert done.returncode == 0, done.stderr
    assert _tables(killed) == expected
    assert openai.count("chat") - asked == len(DOCUMENTS) - stored
    assert asked - calls - stored <= CONCURRENCY
