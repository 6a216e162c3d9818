"""Model servers that are starting: the run waits, and ends with one error if the server never
answers."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import ModelError
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint import attempts, server_watch
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from tests.servers.openai_machine import Starting
from tests.servers.openai_server import OpenAIServer, Reply
from tests.talking import Hearer

LONG = 60.0


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_watch, "SHORTEST_PAUSE", 0.05)
    monkeypatch.setattr(server_watch, "LONGEST_PAUSE", 0.1)


@pytest.fixture
def chat(openai: OpenAIServer, tmp_path: Path) -> Iterator[OpenAIChat]:
    openai.reply = lambda messages, body: Reply(f"reply to {messages[-1]['content']}")
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    model = OpenAIChat(
        "m", openai.base_url, "test-key", cache, timeout=5, max_retries=0, wait_for_model=LONG
    )
    yield model
    model.endpoint.client.close()
    cache.close()


def waiting_for(openai: OpenAIServer) -> str:
    limit = server_watch.minutes(LONG)
    return f"waiting for the model server at {openai.base_url}: Loading model (0:00 of {limit})"


def ask(*texts: str) -> list[ChatRequest]:
    return [ChatRequest(f"row-{text}", ({"role": "user", "content": text},)) for text in texts]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_server_that_loads_its_model_loses_no_row(
    chat: OpenAIChat, openai: OpenAIServer, status: int
):
    openai.starting = Starting(seconds=0.6, kinds=("chat",), status=status)
    heard = Hearer()
    replies = chat.complete(ask(*"abcdefgh"), heard)
    assert [reply.text for reply in replies] == [f"reply to {text}" for text in "abcdefgh"]
    assert heard.facts == [waiting_for(openai)]
    assert heard.outcomes.count("ok") == 8
    assert heard.outcomes.count("look") == 1


def test_a_server_that_never_gets_ready_ends_the_work_as_one_failure(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.starting = Starting(seconds=LONG)
    with pytest.raises(
        ModelError, match=r"has not been ready within 0:00 \(HTTP 503: Loading model\); check"
    ):
        replace(chat, wait_for_model=0.3).complete(ask(*"abc"))


def test_retry_after_of_a_starting_server_is_honoured(chat: OpenAIChat, openai: OpenAIServer):
    openai.starting = Starting(calls=1, kinds=("chat",), headers={"Retry-After": "1"})
    assert replace(chat, max_retries=1).complete(ask("a"))[0].text == "reply to a"
    first, *others = [request.at for request in openai.requests]
    assert len(others) == 2
    assert min(others) - first >= 0.99


def test_a_server_that_asks_for_more_than_is_waited_ends_the_work_at_once(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.starting = Starting(calls=100, headers={"Retry-After": "3600"})
    with pytest.raises(ModelError, match="asks to wait 3,600 s more"):
        chat.complete(ask("a"))
    assert openai.count("chat") == 1


def test_a_probe_is_the_smallest_call_and_is_counted(chat: OpenAIChat, openai: OpenAIServer):
    openai.starting = Starting(calls=1, kinds=("chat",))
    heard = Hearer()
    replace(chat, input_price=1.0).complete(ask("a"), heard)
    (look,) = [request for request in openai.requests if request.body.get("max_tokens") == 1]
    assert look.messages == [{"role": "user", "content": "Hi"}]
    (usage,) = [usage for usage in heard.usages if usage.outcome == "look"]
    assert (usage.row_id, usage.input_tokens) == ("", look.prompt_tokens)


def test_a_row_that_always_fails_while_others_succeed_is_its_own_failure(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.reply = lambda messages, body: (
        Reply("Loading model", status=503) if messages[-1]["content"] == "bad" else Reply("yes")
    )
    bad, good = replace(chat, max_retries=2).complete(ask("bad", "good"))
    assert (bad.reason, good.text) == ("server_error", "yes")


def test_a_row_that_always_fails_alone_does_not_stop_the_run(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.reply = lambda messages, body: (
        Reply("upstream timed out", status=504)
        if messages[-1]["content"] == "bad"
        else Reply("yes")
    )
    (bad,) = replace(chat, max_retries=1).complete(ask("bad"))
    assert bad.reason == "server_error"
    assert (
        len([request for request in openai.requests if request.messages[-1]["content"] == "bad"])
        == 2
    )


def test_a_server_that_loads_again_in_the_middle_is_waited_for(
    chat: OpenAIChat, openai: OpenAIServer
):
    chat.complete(ask("a"))
    openai.starting = Starting(seconds=0.5)
    assert [reply.text for reply in chat.complete(ask("b", "c"))] == ["reply to b", "reply to c"]


def test_a_server_that_goes_away_in_the_middle_ends_the_work_and_what_came_is_kept(
    chat: OpenAIChat, openai: OpenAIServer
):
    brief = replace(chat, wait_for_model=0.4, concurrency=1)
    openai.script("chat", [200])
    openai.starting = None

    def reply(messages: object, body: object) -> Reply:
        openai.loading = True
        return Reply("the only one")

    openai.reply = reply  # type: ignore[assignment]
    with pytest.raises(ModelError, match="has not been ready"):
        brief.complete(ask("a", "b"))
    openai.loading = False
    assert brief.complete(ask("a"))[0].cached
    brief.endpoint.client.close()


def test_calls_that_all_fail_for_long_end_the_work(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(
        "it broke", status=500, headers={"retry-after-ms": "50"}
    )
    brief = replace(chat, wait_for_model=0.3, concurrency=2, max_retries=1)
    with pytest.raises(ModelError, match=r"no call has succeeded for 0:00; .*it broke"):
        brief.complete(ask(*map(str, range(200))))
    assert openai.count("chat") < 60
    brief.endpoint.client.close()


def test_a_refused_connection_is_waited_for_at_the_beginning_of_a_run(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.stop_listening()
    said: list[str] = []

    def say(fact: str) -> None:
        said.append(fact)
        openai.listen_again()

    chat.begin_run(say)
    assert len(said) == 1
    assert "does not answer (" in said[0]
    assert said[0].endswith("(0:00 of 0:30)")
    assert chat.complete(ask("a"))[0].text == "reply to a"


def test_a_connection_that_stays_refused_ends_the_run(
    chat: OpenAIChat, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server_watch, "SECONDS_FOR_A_REFUSAL", 0.3)
    lonely = replace(chat, base_url="http://127.0.0.1:1/v1")
    for begin in (lambda: lonely.begin_run(print), lambda: lonely.complete(ask("a"))):
        with pytest.raises(ModelError, match=r"does not answer .*; is the server running"):
            begin()


def test_a_host_that_nobody_knows_is_not_waited_for(chat: OpenAIChat):
    lost = replace(chat, base_url="http://no-such-host.invalid/v1")
    with pytest.raises(ModelError, match="does not answer"):
        lost.begin_run(print)


def test_the_first_probe_of_a_run_waits_for_the_server(chat: OpenAIChat, openai: OpenAIServer):
    openai.starting = Starting(calls=3, kinds=("models",))
    said: list[str] = []
    chat.begin_run(said.append)
    assert said == [waiting_for(openai)]
    assert openai.count("models", 503) == 3


def test_an_embedding_model_is_waited_for(openai: OpenAIServer):
    openai.starting = Starting(seconds=0.5, kinds=("embeddings",))
    model = OpenAIEmbedding(
        "e", openai.base_url, "test-key", batch_size=1, max_retries=0, wait_for_model=LONG
    )
    heard = Hearer()
    assert len(model.embed(["a", "b", "c"], heard)) == 3
    assert len(heard.facts) == 1
    model.endpoint.client.close()


@pytest.mark.parametrize("urgent", [True, False])
def test_a_model_without_wait_for_model_does_not_wait(
    chat: OpenAIChat, openai: OpenAIServer, urgent: bool
):
    openai.starting = Starting(calls=10)
    (reply,) = replace(chat, wait_for_model=0.0, urgent=urgent).complete(ask("a"))
    assert reply.reason == "server_error"
    assert openai.count("chat") == 1


def test_ctrl_c_ends_a_wait_at_once(chat: OpenAIChat, openai: OpenAIServer):
    openai.starting = Starting(seconds=LONG)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    for wait in (lambda: chat.complete(ask("a", "b")), lambda: chat.begin_run(print)):
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            wait()
        assert time.monotonic() - begun < LONG / 2


def test_a_prompt_that_ends_the_server_each_time_is_not_sent_for_ever(
    chat: OpenAIChat, openai: OpenAIServer
):
    def reply(messages: list[dict[str, str]], body: object) -> Reply:
        if messages[-1]["content"] == "deadly":
            openai.starting = Starting(
                calls=1, kinds=("chat",)
            )  # the server has to load its model again
            return Reply("Bad Gateway", status=502)
        return Reply("yes")

    openai.reply = reply  # type: ignore[assignment]
    deadly, good = replace(chat, max_retries=1, concurrency=1).complete(ask("deadly", "good"))
    assert (deadly.reason, good.text) == ("server_error", "yes")
    sent = [request for request in openai.requests if request.messages[-1]["content"] == "deadly"]
    assert len(sent) == attempts.UNCOUNTED_RESTARTS + 2


@pytest.mark.parametrize(
    "body", [b'"It works!"', b"<html>It works!</html>", b"[]", b'{"choices": []}']
)
def test_a_look_that_is_answered_with_garbage_does_not_end_the_work(
    chat: OpenAIChat, openai: OpenAIServer, body: bytes
):
    openai.script("chat", [Reply("Bad gateway", status=502), Reply(raw=body)])
    [reply] = replace(chat, max_retries=1).complete(ask("a"))
    assert reply.text == "reply to a"


def test_a_server_whose_name_is_gone_while_it_restarts_is_waited_for(
    chat: OpenAIChat, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    chat.complete(ask("a"))
    resolve = socket.getaddrinfo
    lookups = 0

    def resolve_later(*arguments: object, **options: object) -> object:
        nonlocal lookups
        lookups += 1
        if lookups <= 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if lookups == 4:
            openai.listen_again()
        return resolve(*arguments, **options)  # type: ignore[arg-type]

    openai.stop_listening()
    monkeypatch.setattr(socket, "getaddrinfo", resolve_later)
    assert chat.complete(ask("b"))[0].text == "reply to b"
    assert lookups >= 4
