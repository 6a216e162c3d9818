"""A run whose model server is starting, or works on one call at a time, loses no row."""

from pathlib import Path

import pytest

from pipeline.models.endpoint import server_watch
from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.openai_machine import Starting
from tests.servers.openai_server import OpenAIServer

WAIT = "models.chat.default.wait_for_model="


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_watch, "SHORTEST_PAUSE", 0.05)
    monkeypatch.setattr(server_watch, "LONGEST_PAUSE", 0.1)


@pytest.fixture
def folder(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    return new_project(tmp_path / "p", postgres_url, DOCUMENTS, openai)


@pytest.mark.parametrize("kinds", [("chat",), ("models", "chat")])
def test_a_run_waits_for_a_server_that_loads_its_model(
    folder: ProjectFolder, openai: OpenAIServer, kinds: tuple[str, ...]
):
    openai.starting = Starting(seconds=1.0, kinds=kinds)
    run = folder.invoke("index", "index")
    assert (run.exit_code, "left out" in run.stderr) == (0, False), run.stderr
    assert (
        f"waiting for the model server at {openai.base_url}: Loading model (0:00 of 10:00)"
        in run.stderr
    )
    with folder.open() as project:
        assert project.table("rejects", "index").empty


def test_a_run_whose_server_never_gets_ready_fails_and_rejects_nothing(
    folder: ProjectFolder, openai: OpenAIServer
):
    openai.loading = True
    run = folder.invoke("index", "index", "--set", f"{WAIT}0.5")
    assert run.exit_code == 1
    assert (
        "has not been ready within 0:00 (HTTP 503: Loading model); check the server" in run.stderr
    )
    openai.loading = False
    assert folder.invoke("index", "index").exit_code == 0
    with folder.open() as project:
        assert project.table("rejects", "index").empty


def test_a_run_says_once_that_calls_timed_out_because_they_were_too_many(
    folder: ProjectFolder, openai: OpenAIServer
):
    for number in range(30):
        (folder.root / "data" / "input" / f"note-{number}.txt").write_text(
            f"Note {number}\n\nAda Bo met Cy Di.\n"
        )
    openai.slots.limit, openai.delay = 1, 0.1
    run = folder.invoke("index", "index", "--set", "models.chat.default.timeout=0.8")
    assert run.exit_code == 0, run.stderr
    assert run.stdout.count("calls under way: concurrency lowered to ") == 1
    with folder.open() as project:
        assert project.table("rejects", "index").empty


@pytest.mark.parametrize("command", [("query", "Who built the Harrow Light?"), ("doctor",)])
def test_who_asks_does_not_wait(
    folder: ProjectFolder, openai: OpenAIServer, command: tuple[str, ...]
):
    assert folder.invoke("run", "fast").exit_code == 0
    openai.loading = True
    said = folder.invoke(*command, "--set", "models.chat.default.max_retries=1")
    assert "waiting for the model server" not in said.stderr + said.stdout
