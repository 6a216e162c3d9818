"""Precedence of a query's calls over those of a run, in one process and in all that share a
cache."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ModelError
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.endpoint import limits as buckets
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from pipeline.models.endpoint.limits import Rate
from tests.servers.openai_replies import Messages
from tests.servers.openai_server import Limits, OpenAIServer, Reply, Request
from tests.talking import Hearer

LONG = 30.0
QUESTION = "the question"


def ask(*texts: str) -> list[ChatRequest]:
    return [ChatRequest(text, ({"role": "user", "content": text},)) for text in texts]


def chat_of(openai: OpenAIServer, cache: ReplyCache = NO_CACHE, **options: object) -> OpenAIChat:
    model = OpenAIChat("gpt-4o-mini", openai.base_url, openai.key, cache, timeout=20)
    return replace(model, **options)


def embedding_of(
    openai: OpenAIServer, cache: ReplyCache = NO_CACHE, **options: object
) -> OpenAIEmbedding:
    model = OpenAIEmbedding("small", openai.base_url, openai.key, cache, timeout=20, batch_size=1)
    return replace(model, **options)


@contextmanager
def under_way(work: Callable[[], object]) -> Iterator[None]:
    """Run ``work`` in a thread during the block, and wait for its success afterwards."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(LONG)
    assert not thread.is_alive()
    assert not failed


def await_first(openai: OpenAIServer) -> None:
    deadline = time.monotonic() + LONG
    while not openai.requests and time.monotonic() < deadline:
        time.sleep(0.005)
    assert openai.requests


def text_of(request: Request) -> str:
    texts = request.body.get("input") or [message["content"] for message in request.messages]
    return str(texts[-1])


@contextmanager
def closing(*models: OpenAIChat | OpenAIEmbedding) -> Iterator[None]:
    """Create the clients before the clock starts, and close them afterwards."""
    clients = [model.endpoint.client for model in models]
    yield
    for client in clients:
        client.close()


def test_a_question_needs_no_place_among_the_calls_of_a_run(openai: OpenAIServer):
    arrived: list[str] = []
    first, asked = threading.Event(), threading.Event()

    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        arrived.append(messages[-1]["content"])
        if arrived[-1] == QUESTION:
            asked.set()
        else:
            first.set()
            asked.wait(LONG)  # the run's only place is taken until the question comes
        return Reply("yes")

    openai.reply = reply
    run, query = chat_of(openai, concurrency=1), chat_of(openai, concurrency=1, urgent=True)
    with closing(run, query), under_way(lambda: run.complete(ask(*"abcd"))):
        assert first.wait(LONG)
        assert query.complete(ask(QUESTION))[0].text == "yes"
    assert arrived == ["a", QUESTION, "b", "c", "d"]


@pytest.mark.parametrize("make", [chat_of, embedding_of])
def test_a_question_goes_before_the_turns_of_a_run(
    openai: OpenAIServer, make: Callable[..., OpenAIChat | OpenAIEmbedding]
):
    rate = Rate(requests_per_minute=30)
    run, query = make(openai, rate=rate), make(openai, rate=rate, urgent=True)
    with closing(run, query), under_way(lambda: send(run, "a", "b")):
        await_first(openai)
        send(query, QUESTION)
    assert [text_of(request) for request in openai.requests] in (
        ["a", QUESTION, "b"],
        ["b", QUESTION, "a"],
    )


def send(model: OpenAIChat | OpenAIEmbedding, *texts: str) -> None:
    if isinstance(model, OpenAIEmbedding):
        assert len(model.embed(texts)) == len(texts)
    else:
        assert all(reply.good for reply in model.complete(ask(*texts)))


RUN = """
import sys
from pipeline.models.base import ChatRequest
from pipeline.models.endpoint.limits import Rate
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
kind, url, key, cache = sys.argv[1:]
options = {"cache": ReplyCache(cache), "rate": Rate(requests_per_minute=5)}
if kind == "embedding":
    OpenAIEmbedding("small", url, key, batch_size=1, **options).embed(["a", "b"])
else:
    requests = [ChatRequest(text, ({"role": "user", "content": text},)) for text in "ab"]
    OpenAIChat("gpt-4o-mini", url, key, **options).complete(requests)
"""


@pytest.mark.parametrize("kind", ["chat", "embedding"])
def test_a_question_goes_before_the_run_of_another_process(
    openai: OpenAIServer, tmp_path: Path, kind: str
):
    url = f"sqlite:///{tmp_path}/cache.sqlite"
    cache = ReplyCache(url)
    make = embedding_of if kind == "embedding" else chat_of
    query = make(openai, cache, rate=Rate(requests_per_minute=5), urgent=True)
    with (
        closing(query),
        subprocess.Popen(
            [sys.executable, "-c", RUN, kind, openai.base_url, openai.key, url]
        ) as run,
    ):
        await_first(openai)
        if isinstance(query, OpenAIChat):
            assert "".join(query.stream(ask(QUESTION)[0]))
        else:
            send(query, QUESTION)
        assert run.poll() is None  # its second call is still to come
        run.kill()
    assert len(openai.requests) == 2
    assert text_of(openai.requests[1]) == QUESTION
    cache.close()


def test_questions_and_a_run_keep_to_the_limit_together(
    openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    minute = 2.0
    monkeypatch.setattr(buckets, "SECONDS_AHEAD", minute / 4)
    openai.limits = Limits(requests_per_minute=30, minute=minute)
    rate = Rate(requests_per_minute=30 * 60 / minute)
    run, query = chat_of(openai, rate=rate), chat_of(openai, rate=rate, urgent=True)
    answered, questions = Hearer(), Hearer()
    with closing(run, query), under_way(lambda: run.complete(ask(*map(str, range(60))), answered)):
        await_first(openai)
        query.complete(ask(*(f"{QUESTION} {number}" for number in range(10))), questions)
        before = len(
            [request for request in openai.requests if not text_of(request).startswith(QUESTION)]
        )
    assert before < 30
    assert answered.outcomes.count("ok") == 60
    assert questions.outcomes.count("ok") == 10
    refused = openai.count("chat", 429)
    assert refused <= 7  # a tenth; more would be a limit that nobody keeps
    first, *_, last = [request.at for request in openai.requests]
    assert last - first > 0.9 * 69 * minute / 30


def test_questions_alone_keep_to_the_limit_too(
    openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(buckets, "SECONDS_AHEAD", 0.5)
    query = chat_of(openai, rate=Rate(requests_per_minute=600), urgent=True)
    with closing(query):
        query.complete(ask(*map(str, range(25))))
    first, *_, last = [request.at for request in openai.requests]
    assert last - first > 1.5


def test_a_question_does_not_wait_for_an_hour(openai: OpenAIServer):
    openai.script("chat", [Reply(status=429, headers={"Retry-After": "3600"})] * 2)
    query = chat_of(openai, urgent=True)
    with closing(query):
        with pytest.raises(
            ModelError, match=r"refuses calls as too many and asks to wait 3,600 s .*429"
        ):
            query.complete(ask(QUESTION))
        with pytest.raises(ModelError, match="429"):
            list(query.stream(ask(QUESTION)[0]))


@pytest.mark.parametrize("status", [500, 503, 409])
def test_no_status_makes_a_question_wait_for_an_hour(openai: OpenAIServer, status: int):
    openai.script("chat", [Reply(status=status, headers={"Retry-After": "3600"})])
    query = chat_of(openai, urgent=True)
    with closing(query):
        refused, asked_after = query.complete(ask(QUESTION))[0], query.complete(ask(QUESTION))[0]
    assert (refused.reason, asked_after.reason) == ("server_error", None)
    assert openai.count("chat") == 2


def test_a_stream_takes_its_turn_and_is_begun_again_while_nothing_has_come(openai: OpenAIServer):
    openai.script(
        "chat", [Reply(status=status, headers={"retry-after-ms": "1"}) for status in (429, 503)]
    )
    rate = Rate(requests_per_minute=6_000, tokens_per_minute=600)
    query = chat_of(openai, rate=rate, model="streamed")
    with closing(query):
        text = "".join(query.stream(ask(QUESTION)[0]))
    assert text
    assert openai.count("chat") == 3
    (answer,) = [request for request in openai.requests if request.status == 200]
    used = answer.prompt_tokens + answer.completion_tokens
    assert query.limiter.bucket.take(0) == pytest.approx(
        used / 10 / buckets.SHARE_OF_THE_LIMIT, abs=1
    )
