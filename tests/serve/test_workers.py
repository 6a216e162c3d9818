"""graphmill serve --workers: several processes that hold together what one holds."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import psutil
import pytest

from pipeline.errors import UsageError, WorkerError
from pipeline.project import Project
from pipeline.serve.queries import Api
from pipeline.serve.server import listen
from pipeline.serve.workers import Workers, share_of
from tests.projects import ProjectFolder
from tests.serve.conftest import models_of
from tests.serve.serving import QUESTION, wait_until
from tests.serve.test_server import running
from tests.servers.openai_server import OpenAIServer, Reply

KEY = {"X-API-Key": "the-key-of-this-test"}


def workers_of(pid: int) -> set[psutil.Process]:
    return set(filter(_works, psutil.Process(pid).children()))


def _works(child: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(child.cmdline())
    except psutil.NoSuchProcess:  # it ended just now, and may not have been waited for yet
        return False


def status(url: str, path: str) -> int:
    """Over a connection of its own, which any of the workers may take."""
    return httpx2.post(
        f"{url}{path}", json={"query": QUESTION}, headers=KEY, timeout=60
    ).status_code


@contextmanager
def stopped(worker: psutil.Process) -> Iterator[None]:
    worker.suspend()
    try:
        yield
    finally:
        worker.resume()


def test_they_count_together_what_is_spent_and_one_that_dies_is_replaced(
    folder: ProjectFolder, openai: OpenAIServer
):
    openai.reply = lambda messages, body: Reply("Idra Senn.")
    price = "models.chat.default.price={input: 100, output: 100}"
    settings = [
        *models_of(openai),
        "cache=''",
        "query.mode=naive",
        price,
        "serve.allow.cost_per_day=0.000001",
    ]
    chat = [argument for setting in settings for argument in ("--set", setting)]
    with running(folder, "--workers", "2", *chat) as (process, url):
        one, other = workers_of(process.pid)
        with stopped(one):
            assert status(url, "/query") == 200
        with stopped(other):
            assert status(url, "/query") == 429
            assert status(url, "/query/data") == 200
        one.kill()
        wait_until(lambda: len(workers_of(process.pid) - {one}) == 2, 60)
        assert process.stderr is not None
        said = iter(process.stderr.readline, "")
        line = next(line for line in said if "worker" in line)
        assert line == "graphmill: a worker has ended (exit code -9); another takes its place\n"
        with stopped(other):
            assert status(url, "/query/data") == 200
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    assert (process.returncode, log.endswith("graphmill: stopped serving\n")) == (0, True), log
    assert not other.is_running()


def test_they_end_with_the_process_that_started_them(folder: ProjectFolder):
    with running(folder, "--workers", "2") as (process, _):
        workers = workers_of(process.pid)
        process.kill()
        wait_until(lambda: not any(worker.is_running() for worker in workers), 60)


def test_each_has_its_share_of_what_may_be_done_at_once(folder: ProjectFolder):
    with folder.open(
        "serve.concurrency=9", "serve.waiting=3", "models.chat.default.concurrency=8"
    ) as project:
        share = share_of(project.settings, 4)
        assert (share.serve.concurrency, share.serve.waiting) == (2, 0)
        assert share.models.chat["default"].concurrency == 2
        assert project.settings.serve.concurrency == 9
        with pytest.raises(
            UsageError,
            match=r"--workers 9: they share models\.chat\.default\.concurrency, which is 8",
        ):
            share_of(project.settings, 9)


def test_a_rate_that_they_cannot_count_together_is_refused(folder: ProjectFolder):
    rate = "models.chat.default.tokens_per_minute=1000"
    with folder.open(rate) as project:
        share_of(project.settings, 2)
    without = r"without a cache, models\.chat\.default's requests and tokens a minute"
    with folder.open(rate, "cache=''") as project, pytest.raises(UsageError, match=without):
        share_of(project.settings, 2)


def test_more_than_can_share_are_refused(folder: ProjectFolder):
    said = folder.invoke_refused(
        "serve", "--port", "0", "--workers", "2", "--no-key", "--set", "serve.concurrency=1"
    )
    assert "--workers 2: they share serve.concurrency, which is 1; raise it, or have fewer" in said


def broken(project: Project, any_host: bool) -> Api:
    raise SystemExit(7)


def test_one_that_ends_before_it_can_serve_ends_the_server(folder: ProjectFolder):
    with folder.open() as project, listen("127.0.0.1", 0) as listening:
        workers = Workers(broken, project, listening, False, 1)
        with (
            pytest.raises(WorkerError, match=r"ended before it could serve \(exit code 7\)"),
            workers,
        ):
            pass


def test_over_stdin_there_is_one(folder: ProjectFolder):
    assert "--workers is of a server; add --http" in folder.invoke_refused("mcp", "--workers", "2")
