"""Many streams at once, clients that hang up, models that fail: nothing is lost and nothing is left
behind."""

import asyncio
import json
import threading
from typing import Any

import httpx2
import pytest

from pipeline.project import Project
from pipeline.serve import responses as events
from tests.projects import ProjectFolder
from tests.serve.conftest import models_of
from tests.serve.serving import QUESTION, events_in, serving, wait_until
from tests.servers.openai_server import OpenAIServer, Reply
from tests.sizes import size

STREAMS = size(30, 200)


def own_words(messages: Any, body: Any) -> Reply:
    """An answer that only this question gets."""
    asked = messages[-1]["content"].rpartition("Question: ")[2]
    return Reply(f"You asked: {asked} " * 5, pause=0.01)


def test_many_streams_at_once(chatting: Project, openai: OpenAIServer):
    openai.reply = own_words
    with serving(chatting) as served:

        async def ask(client: httpx2.AsyncClient, number: int) -> str:
            answer = await client.post("/query/stream", json={"query": f"What of number {number}?"})
            assert answer.status_code == 200
            first, *tokens, done = events_in(answer.text)
            assert (first.name, done.name) == ("sources", "done")
            assert first.data["references"]
            assert done.data["answer"] == "".join(token.data["text"] for token in tokens)
            return done.data["answer"]

        async def ask_all() -> list[str]:
            limits = httpx2.Limits(max_connections=None)
            async with httpx2.AsyncClient(
                base_url=served.url, timeout=100, limits=limits
            ) as client:
                return await asyncio.gather(*(ask(client, number) for number in range(STREAMS)))

        answers = asyncio.run(ask_all())
        assert answers == [f"You asked: What of number {number}? " * 5 for number in range(STREAMS)]
        wait_until(lambda: served.api.queries.running == 0)
        assert served.health()[1]["queries"] == {"running": 0, "waiting": 0}
    assert 1 < openai.peak <= chatting.settings.serve.concurrency


def test_answers_at_once_are_those_one_after_another(chatting: Project, openai: OpenAIServer):
    questions = [
        f"Who founded number {number} of the Brack Institute?" for number in range(size(12, 60))
    ]
    modes = ["naive", "local", "global", "hybrid", "mix"]
    asked = [(question, modes[place % len(modes)]) for place, question in enumerate(questions)]
    alone = [
        chatting.query_data(question, mode=mode) | {"timings_ms": 0, "question_id": ""}
        for question, mode in asked
    ]
    with serving(chatting) as served:
        together: dict[int, Any] = {}

        def ask(place: int) -> None:
            question, mode = asked[place]
            together[place] = served.ask("/query/data", query=question, mode=mode).json() | {
                "timings_ms": 0,
                "question_id": "",
            }

        threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(asked))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [together[place] for place in range(len(asked))] == json.loads(json.dumps(alone))


def test_who_hangs_up_ends_the_model_call(chatting: Project, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply("word " * 2000, pause=0.02)
    with serving(chatting) as served:
        for _ in range(5):
            with served.client.stream("POST", "/query/stream", json={"query": QUESTION}) as answer:
                assert answer.status_code == 200
                next(piece for piece in answer.iter_bytes() if b"event: token" in piece)
        wait_until(lambda: served.api.queries.running == 0)
        wait_until(lambda: openai.abandoned == 5)
        openai.reply = own_words
        assert served.events()[-1].name == "done"


def test_who_hangs_up_before_the_first_event_leaves_nothing(
    chatting: Project, openai: OpenAIServer
):
    with serving(chatting) as served:
        for seconds in (0.001, 0.005, 0.02):
            with pytest.raises(httpx2.TimeoutException):
                served.client.post(
                    "/query/stream", json={"query": QUESTION, "mode": "mix"}, timeout=seconds
                )
        wait_until(lambda: served.api.queries.running == served.api.queries.waiting == 0)
        assert served.events()[-1].name == "done"


def test_who_hangs_up_while_waiting_is_never_answered(folder: ProjectFolder, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply("word " * 2000, pause=0.02)
    settings = [*models_of(openai), "serve.concurrency=1", "cache=''", "query.mode=naive"]
    with folder.open(*settings) as project, serving(project) as served:
        with served.client.stream("POST", "/query/stream", json={"query": QUESTION}):
            for path in ("/query", "/query/stream"):
                with pytest.raises(httpx2.TimeoutException):
                    served.client.post(path, json={"query": QUESTION}, timeout=0.3)
                wait_until(lambda: served.api.queries.waiting == 0)
                assert served.api.queries.running == 1
        wait_until(lambda: served.api.queries.running == 0)
        assert openai.count("chat") == 1


def test_a_model_that_fails_is_told_as_an_error(chatting: Project, openai: OpenAIServer):
    with serving(chatting) as served:
        openai.script("chat", [400, Reply("half of it " * 20, drop=True), 401])
        for type in ("model_failed", "model_failed", "model_key_refused"):
            first, *_, last = served.events()
            assert (first.name, last.name, last.data["type"]) == ("sources", "error", type)
            assert openai.key not in last.data["message"]
        openai.script("chat", [401])
        refused = served.ask()
        assert (refused.status_code, refused.json()["error"]["type"]) == (502, "model_key_refused")
        wait_until(lambda: served.api.queries.running == 0)


def test_limits(folder: ProjectFolder, openai: OpenAIServer):
    limits = [
        "serve.concurrency=1",
        "serve.waiting=1",
        "serve.timeout=2",
        "cache=''",
        "query.mode=naive",
    ]
    openai.reply = lambda messages, body: Reply("late", delay=4)
    with folder.open(*models_of(openai), *limits) as project, serving(project) as served:
        answers: list[httpx2.Response] = []
        threads = [threading.Thread(target=lambda: answers.append(served.ask())) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_until(lambda: (served.api.queries.running, served.api.queries.waiting) == (1, 1))
        refused = served.ask("/query/stream")
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "busy")
        assert int(refused.headers["retry-after"]) > 0
        assert served.client.get("/health").status_code == 200  # which waits for nobody
        for thread in threads:
            thread.join()
        first, second = sorted(answer.json()["error"]["type"] for answer in answers)
        assert second == "timeout"
        assert first in (
            "busy",
            "timeout",
        )  # where it got the place of the other one at its very end
        wait_until(lambda: served.api.queries.running == 0)
        openai.reply = own_words
        assert served.ask().status_code == 200


def test_a_silent_stream_is_kept_open(
    chatting: Project, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "PING_SECONDS", 0.5)
    openai.reply = lambda messages, body: Reply("late", delay=1.5)
    with serving(chatting) as served:
        text = served.ask("/query/stream").text
        assert text.count(": still here\n\n") >= 1
        assert [event.name for event in events_in(text)] == ["sources", "token", "done"]


def test_a_server_that_ends_lets_short_queries_end_and_tells_long_ones(
    folder: ProjectFolder, openai: OpenAIServer
):
    openai.reply = lambda messages, body: Reply("word " * 2000, pause=0.02)
    told = ["serve.grace=0.5", "cache=''", "query.mode=naive"]
    with folder.open(*models_of(openai), *told) as project, serving(project) as served:
        with served.client.stream("POST", "/query/stream", json={"query": QUESTION}) as answer:
            pieces = answer.iter_text()
            text = next(pieces)
            served.server.should_exit = True
            text += "".join(pieces)
        last = events_in(text)[-1]
        assert (last.name, last.data["type"]) == ("error", "shutting_down")
    wait_until(lambda: openai.abandoned == 1)
