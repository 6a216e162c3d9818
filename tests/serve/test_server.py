"""graphmill serve as a process: where it listens, what it logs, how it ends."""

import asyncio
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from pipeline.cli import serve as command
from pipeline.errors import UsageError, install_extra
from pipeline.project import Project
from pipeline.runs import services
from pipeline.serve.queries import SEARCHES, Queries
from pipeline.serve.server import address_of, listen, make_ready, refuse_without_key
from pipeline.serve.start import serve
from tests.projects import ProjectFolder, new_project
from tests.serve.conftest import models_of
from tests.serve.serving import QUESTION
from tests.servers.openai_server import OpenAIServer, Reply
from tests.sizes import size


@contextmanager
def running(folder: ProjectFolder, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and where it is asked."""
    line = folder.command_line("serve", "--port", "0", *arguments)
    environment = {**folder.environment, "GRAPHMILL_API_KEY": "the-key-of-this-test"}
    with subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert first.startswith("graphmill: serving workspace"), first
            yield process, first.split(" on ")[1].split(";")[0]
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("sent", "code"), size([(signal.SIGTERM, 0)], [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
)
def test_a_signal_ends_it(
    folder: ProjectFolder, openai: OpenAIServer, sent: signal.Signals, code: int
):
    openai.reply = lambda messages, body: Reply("never ", hold=True)
    settings = [*models_of(openai), "serve.grace=0.5", "query.mode=naive"]
    chat = [argument for setting in settings for argument in ("--set", setting)]
    with (
        running(folder, *chat) as (process, url),
        httpx2.Client(base_url=url, timeout=30) as client,
    ):
        assert client.post("/query?query=secret", json={"query": "secret?"}).status_code == 401
        key = {"X-API-Key": "the-key-of-this-test"}
        assert (
            client.post(
                "/query/data?query=secret", json={"query": "secret?"}, headers=key
            ).status_code
            == 200
        )
        with client.stream(
            "POST", "/query/stream", json={"query": QUESTION}, headers=key
        ) as answer:
            pieces = answer.iter_text()
            assert next(pieces).startswith("event: sources")
            process.send_signal(sent)
            assert "shutting_down" in "".join(pieces)
        _, log = process.communicate(timeout=30)
    assert process.returncode == code
    assert log.endswith("graphmill: stopped serving\n")
    lines = log.splitlines()[:-1]
    assert [line.split(" INFO ")[1].rsplit(" ", 2)[0] for line in lines] == [
        "POST /query 401", "POST /query/data 200", "POST /query/stream 200",
    ]  # fmt: skip
    assert "secret" not in log
    assert "the-key" not in log


def test_what_queries_share_is_made_before_they_come(
    chatting: Project, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    make_ready(chatting)
    for name in ("chat_model", "embedding_model", "open_stores", "open_cache", "reranker"):
        monkeypatch.setattr(
            services, name, lambda *given, **named: pytest.fail("it is made once more")
        )
    openai.reply = lambda messages, body: Reply("Idra Senn.")
    assert chatting.query(QUESTION, mode="mix").text == "Idra Senn."


def test_others_need_a_key(project: Project, folder: ProjectFolder):
    with pytest.raises(
        UsageError, match=r"serve: others can reach http://0\.0\.0\.0:\d+, and no key is"
    ):
        serve(project, "0.0.0.0", 0)
    done = folder.invoke("serve", "--host", "0.0.0.0", "--port", "0")
    assert (done.exit_code, "--no-key" in done.stderr) == (2, True)
    with listen("0.0.0.0", 0) as listening:
        refuse_without_key(listening, True, no_key=False)
        refuse_without_key(listening, False, no_key=True)
    for host in ("127.0.0.1", "localhost", "127.0.0.2"):
        with listen(host, 0) as listening:
            refuse_without_key(listening, False, no_key=False)
    with listen("::1", 0) as listening:
        refuse_without_key(listening, False, no_key=False)
        assert address_of(listening).startswith("http://[::1]:")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_answer_waits_for_no_acknowledgement_of_its_headers(host: str):
    with listen(host, 0) as listening, socket.create_connection(listening.getsockname()[:2]):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_where_it_cannot_listen(folder: ProjectFolder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = folder.invoke("serve", "--port", port)
        assert (done.exit_code, f"port {port} (Address already in use)" in done.stderr) == (2, True)
    done = folder.invoke("serve", "--host", "no.such.host.invalid")
    assert (done.exit_code, "choose another with --host, --port" in done.stderr) == (2, True)


@pytest.mark.parametrize(("name", "package"), [("serve", "fastapi"), ("mcp", "mcp")])
def test_without_the_extra(
    tmp_path: Path, postgres_url: str, name: str, package: str, monkeypatch: pytest.MonkeyPatch
):
    folder = new_project(tmp_path / "p", postgres_url, {})
    monkeypatch.setattr(command, "find_spec", lambda package: None)
    done = folder.invoke(name)
    assert done.exit_code == 2
    assert done.stderr == f"graphmill: {name}: {package} is not installed; {install_extra(name)}\n"


def test_threads_of_a_server_that_ended_end(project: Project):
    # Threads of servers that other tests have made are not waited for.
    before = set(threading.enumerate())
    queries = Queries(project.settings.serve)
    own = set(threading.enumerate()) - before
    assert len(own) == project.settings.serve.concurrency + SEARCHES
    asyncio.run(queries.close())
    for thread in own:
        thread.join(5)
    assert not [thread for thread in own if thread.is_alive()]
