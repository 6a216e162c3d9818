"""Stopped, or left without a database or a disk: the next run goes on, asks for no stored reply
again, and ends as if nothing had been."""

import json
import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from pipeline.errors import StoreError
from pipeline.load import loader
from pipeline.stores.postgres.embedded import start_embedded, stop_embedded
from tests.corpora import UNITS_OF_A_DOCUMENT, cut_by_paragraphs, voyage, voyages
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_faults import canonical
from tests.servers.openai_replies import default_reply
from tests.servers.openai_server import OpenAIServer, Reply, openai_server
from tests.servers.postgres_server import server_folder
from tests.sizes import size
from tests.states import in_cache, models, postgres_rows, set_args, table_hashes

CONCURRENCY = 4
"""In states.models: calls under way."""
SECONDS = 120


def new_folder(
    root: Path, postgres_url: str, endpoint: OpenAIServer, units: int, **chat: float
) -> ProjectFolder:
    folder = new_project(root, postgres_url, voyages(units), models=models(endpoint, **chat))
    cut_by_paragraphs(folder)
    set_args(folder, summarize_descriptions={"max_tokens": 60})
    return folder


@dataclass
class Command:
    """graphmill in a process of its own; ``events`` are those that it has told of."""

    folder: ProjectFolder
    arguments: tuple[str, ...] = ("run", "--log", "json")
    events: list[dict[str, object]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __enter__(self) -> "Command":
        self.process = subprocess.Popen(
            self.folder.command_line(*self.arguments), env=self.folder.environment, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.wait()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.said.append(line.rstrip())

    def has_told(self, event: str, step: str | None = None) -> bool:
        return any(
            told["event"] == event and step in (None, told.get("step"))
            for told in list(self.events)
        )

    def until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None and not reached():
            assert time.monotonic() < deadline, self.said
            time.sleep(0.001)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code, once all that it said is read."""
        code = self.process.wait(SECONDS)
        self._reader.join()
        if self.process.stderr:
            self.process.stderr.close()
        return code


SMALL = 24


@pytest.fixture(scope="module")
def small_tables(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> dict[str, str]:
    """The tables of a small corpus after an uninterrupted run."""
    with openai_server() as endpoint:
        folder = new_folder(tmp_path_factory.mktemp("small") / "p", postgres_url, endpoint, SMALL)
        with folder.open() as project:
            project.run("index")
            return table_hashes(project)


STOPS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def run_again(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        assert project.run("index").outcome == "completed"
        return table_hashes(project)


@pytest.mark.parametrize(("number", "code"), size(STOPS[1:], STOPS))
def test_stopped_it_waits_for_the_calls_under_way(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, small_tables: dict[str, str],
    number: signal.Signals,
    code: int,
):  # fmt: skip
    folder = new_folder(tmp_path / "p", postgres_url, openai, SMALL)
    openai.delay = 1.0
    with Command(folder) as command:
        command.until(lambda: openai.count("chat") >= CONCURRENCY + 1)
        command.signal(number)
        assert command.wait() == code
        end = command.events[-1]
        assert (end["event"], end["exit_code"]) == ("run_ended", code)
    assert CONCURRENCY < openai.count("chat") <= 2 * CONCURRENCY + 1
    assert in_cache(folder, "completions") == openai.count("chat")
    openai.delay = 0.0
    assert run_again(folder) == small_tables
    assert openai.count("chat") == len(
        {canonical(request.body) for request in openai.requests if request.messages}
    )


def test_stopped_twice_it_waits_no_longer(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    folder = new_folder(tmp_path / "p", postgres_url, openai, SMALL)
    openai.reply = lambda messages, body: Reply(hold=True)
    with Command(folder) as command:
        command.until(lambda: openai.count("chat") >= CONCURRENCY)
        command.signal(signal.SIGINT)
        time.sleep(1)
        assert command.process.poll() is None
        command.signal(signal.SIGINT)
        started = time.monotonic()
        assert command.wait() == 130
    assert time.monotonic() - started < 10
    assert command.events[-1]["event"] == "run_ended"
    assert not any("Traceback" in line for line in command.said)


def test_a_second_run_stops_at_once_and_a_killed_one_stands_in_nobodys_way(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, small_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", postgres_url, openai, SMALL)
    openai.reply = lambda messages, body: Reply(hold=True)
    with Command(folder) as first:
        first.until(lambda: openai.count("chat") >= 1)
        second = folder.command("run")
        assert second.returncode == 1
        assert f"process {first.process.pid} on {os.uname().nodename}" in second.stderr
        assert "wait for it to end" in second.stderr
        first.signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
    openai.reply = default_reply
    assert run_again(folder) == small_tables


def test_a_load_that_loses_its_connection_begins_anew(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer, small_tables: dict[str, str]
):
    folder = new_folder(tmp_path / "p", postgres_url, openai, SMALL)
    with folder.open() as project:
        lose(postgres_url, lambda: project.run("index"), None)
        before = postgres_rows(postgres_url, project.settings.workspace)
        assert len(before["graphmill_documents"]) == SMALL // UNITS_OF_A_DOCUMENT + 1
        assert project.run("index").load["postgres"]["documents"]["inserted"] == 0
    assert run_again(folder) == small_tables
    assert postgres_rows(postgres_url, project.settings.workspace) == before


def test_a_database_lost_in_the_middle_of_a_load(
    tmp_path: Path,
    openai: OpenAIServer,
    small_tables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(loader, "RECONNECT_SECONDS", 1)
    with server_folder() as data:
        url = start_embedded(data)
        folder = new_folder(tmp_path / "p", url, openai, SMALL)
        with folder.open() as project:
            project.run("index")
            workspace = project.settings.workspace
            before = postgres_rows(url, workspace)
            folder.write("log-late.txt", voyage(999))
            with pytest.raises(StoreError, match=r"stores\.postgres\.url: .* went away"):
                lose(url, lambda: project.run("index"), lambda: stop_embedded(data))
            start_embedded(data)
            assert postgres_rows(url, workspace) == before
            calls = len(openai.requests)
            assert project.run("index").outcome == "completed"
            assert len(openai.requests) == calls
        assert (
            len(postgres_rows(url, workspace)["graphmill_documents"])
            == SMALL // UNITS_OF_A_DOCUMENT + 2
        )
        folder.delete("log-late.txt")
        assert run_again(folder) == small_tables
        assert postgres_rows(url, workspace) == before


def lose(url: str, run: Callable[[], object], stop: Callable[[], object] | None) -> None:
    """Run, and take the database away while the load waits for a lock: ``stop`` ends it, None only
    the connection."""
    with psycopg.connect(url, autocommit=True) as watching, psycopg.connect(url) as blocking:
        blocking.execute("LOCK TABLE lightrag_entities IN ACCESS EXCLUSIVE MODE")
        taker = threading.Thread(target=take, args=(watching, blocking, stop))
        taker.start()
        try:
            run()
        finally:
            taker.join()


def take(
    watching: psycopg.Connection, blocking: psycopg.Connection, stop: Callable[[], object] | None
) -> None:
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> %s"
    deadline = time.monotonic() + SECONDS
    while not (found := watching.execute(waiting, [blocking.info.backend_pid]).fetchone()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if stop:
        stop()
    else:
        watching.execute("SELECT pg_terminate_backend(%s)", found)
    blocking.close()


@pytest.mark.parametrize("kilobytes", size([80], [80, 200]))
def test_a_full_disk(
    tmp_path: Path,
    postgres_url: str,
    openai: OpenAIServer,
    small_tables: dict[str, str],
    kilobytes: int,
    monkeypatch: pytest.MonkeyPatch,
):
    """By a limit on the size of files: what would exceed it fails as on a device without space. So
    would what measures coverage, which is left out."""
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    folder = new_folder(tmp_path / "p", postgres_url, openai, SMALL)
    with Command(folder) as command:
        resource.prlimit(
            command.process.pid, resource.RLIMIT_FSIZE, (1024 * kilobytes, 1024 * kilobytes)
        )
        assert command.wait() == 1
    assert not command.said
    assert re.search("disk|space", str(command.events[-1]["message"]))
    asked, kept = openai.count("chat"), in_cache(folder, "completions")
    assert run_again(folder) == small_tables
    assert asked - kept <= CONCURRENCY + 1
