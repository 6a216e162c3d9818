"""Concurrent calls: a slow call delays no other one, and calls under way are not lost."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.errors import AuthError
from pipeline.models import conversations as parallel
from pipeline.models.base import ChatReply, ChatRequest, Talk
from pipeline.models.cache.lookup import completion_key
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.conversations import (
    FIRST,
    FOLLOW_UP,
    Exchange,
    KeyedReply,
    KeyedRequest,
    Workers,
    converse,
    in_parallel,
)
from tests.servers.openai_server import OpenAIServer
from tests.talking import NoMemory

LONG = 30.0


def turns(row: int, number: int) -> Talk[list[str]]:
    told = []
    for turn in range(number):
        (reply,) = yield [request(f"{row}.{turn}")]
        told.append(reply.text)
    return told


def request(text: str) -> ChatRequest:
    return ChatRequest(text, ({"role": "user", "content": text},))


def run(
    talks: Iterator[Talk[list[str]]],
    answer: Callable[[str], str],
    threads: int,
    grace: float = LONG,
) -> list:
    def work(item: KeyedRequest) -> KeyedReply:
        key, asked = item
        return key, ChatReply(answer(asked.messages[0]["content"]))

    workers = Workers(work, threads, threading.Event(), grace)
    return converse(Exchange(talks, NoMemory(), lambda request, reply: None), workers)


def test_a_slow_row_delays_only_itself():
    others_are_done = threading.Event()
    done: list[str] = []

    def answer(text: str) -> str:
        if text == "0.0":
            assert others_are_done.wait(LONG), "the others waited for it"
        done.append(text)
        if len(done) == 3 * 1499:
            others_are_done.set()
        return f"on {text}"

    results = run((turns(row, 3) for row in range(1500)), answer, threads=4)
    assert results == [[f"on {row}.{turn}" for turn in range(3)] for row in range(1500)]
    assert done[-3:] == ["0.0", "0.1", "0.2"]


def test_follow_ups_go_before_first_questions():
    started, go, order = threading.Event(), threading.Event(), []

    def work(item: str) -> None:
        started.set()
        go.wait(LONG)
        order.append(item)

    workers = Workers(work, 1, threading.Event(), LONG)
    workers.put("under way", FIRST)
    started.wait(LONG)
    for item, priority in [
        ("a", FIRST),
        ("b", FIRST),
        ("more of a", FOLLOW_UP),
        ("more of b", FOLLOW_UP),
    ]:
        workers.put(item, priority)
    go.set()
    while workers.outstanding:
        workers.result()
    workers.end()
    assert order == ["under way", "more of a", "more of b", "a", "b"]


def test_there_are_no_more_threads_than_allowed_and_none_without_work():
    at_once, most, lock = 0, 0, threading.Lock()

    def work(item: int) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.001)
        with lock:
            at_once -= 1

    before = threading.active_count()
    in_parallel(range(200), Workers(work, 5, threading.Event(), LONG))
    assert 1 < most <= 5
    idle = Workers(work, 5, threading.Event(), LONG)
    in_parallel([], idle)
    assert threading.active_count() <= before + 5


def test_calls_under_way_are_waited_for_when_another_call_fails():
    all_started, finished = threading.Barrier(4), []

    def work(item: str) -> None:
        all_started.wait(LONG)
        if item == "broken":
            raise RuntimeError("a bug")
        time.sleep(0.2)
        finished.append(item)

    with pytest.raises(RuntimeError, match="a bug"):
        in_parallel(["a", "b", "broken", "c", *"defghi"], Workers(work, 4, threading.Event(), LONG))
    assert sorted(finished) == ["a", "b", "c"]


def test_after_ctrl_c_a_message_names_the_calls_that_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(parallel, "SECONDS_IN_SILENCE", 0.01)
    both_started = threading.Barrier(3)

    def work(item: str) -> None:
        both_started.wait(LONG)
        for _ in range(500):
            if "under way" in caplog.text:
                return
            time.sleep(0.01)

    def stopped() -> Iterator[str]:
        yield from ("a", "b")
        both_started.wait(LONG)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_parallel(stopped(), Workers(work, 2, threading.Event(), LONG))
    assert (
        f"2 calls under way: waited for up to {LONG:,.0f} s; Ctrl-C again leaves them"
        in caplog.text
    )


def test_calls_that_no_call_can_better_are_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parallel, "SECONDS_FOR_THE_HOPELESS", 0.1)
    started, forever = threading.Event(), threading.Event()

    def work(item: str) -> None:
        if item == "slow":
            started.set()
            forever.wait(LONG)
            return
        started.wait(LONG)
        raise AuthError("the key was refused")

    begun = time.monotonic()
    with pytest.raises(AuthError):
        in_parallel(["slow", "refused"], Workers(work, 2, threading.Event(), LONG))
    assert time.monotonic() - begun < LONG / 2
    forever.set()


def test_an_exception_of_a_conversation_ends_the_work():
    def broken() -> Talk[list[str]]:
        yield [request("x")]
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run(iter([turns(0, 2), broken(), turns(1, 2)]), lambda text: text, threads=2)


ASKING = """
import sys
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
url, cache = sys.argv[1:]
chat = OpenAIChat("m", url, "test-key", ReplyCache(cache), concurrency=4, timeout=60)
chat.complete([ChatRequest(str(i), ({"role": "user", "content": str(i)},)) for i in range(50)])
"""


def start(openai: OpenAIServer, url: str) -> subprocess.Popen[bytes]:
    """Start a process that makes four calls at once."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASKING, openai.base_url, url], stderr=subprocess.PIPE
    )
    wait_until(lambda: openai.count("chat") == 4)
    return process


def wait_until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_after_the_first_ctrl_c_calls_under_way_are_completed_and_stored(
    openai: OpenAIServer, tmp_path: Path
):
    openai.delay = 1.0
    url = f"sqlite:///{tmp_path}/cache.sqlite"
    process = start(openai, url)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONG)
    assert b"KeyboardInterrupt" in errors
    assert openai.count("chat") == 4
    asked = [request.messages[0]["content"] for request in openai.requests]
    cache = ReplyCache(url)
    assert (
        len(cache.completions(completion_key({"model": "m"}, request(text)) for text in asked)) == 4
    )
    cache.close()


def test_the_second_ctrl_c_ends_the_work_at_once(openai: OpenAIServer, tmp_path: Path):
    openai.delay = 2 * LONG
    process = start(openai, f"sqlite:///{tmp_path}/cache.sqlite")
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=1)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=LONG)
    assert time.monotonic() - begun < LONG / 2
    assert b"KeyboardInterrupt" in errors
