"""Servers with few slots: no row is lost, however many calls are sent at once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import ModelError
from pipeline.models.base import ChatRequest
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from tests.servers.openai_server import OpenAIServer, Reply
from tests.talking import Hearer

SECONDS_A_CALL = 0.1
CALLS_IN_TIME = 8
"""So many calls of one slot end within the timeout."""


@pytest.fixture
def chat(openai: OpenAIServer, tmp_path: Path) -> Iterator[OpenAIChat]:
    openai.reply = lambda messages, body: Reply(f"reply to {messages[-1]['content']}")
    openai.slots.limit, openai.delay = 1, SECONDS_A_CALL
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    timeout = CALLS_IN_TIME * SECONDS_A_CALL
    model = OpenAIChat("m", openai.base_url, "test-key", cache, timeout=timeout, wait_for_model=600)
    yield model
    model.endpoint.client.close()
    cache.close()


def ask(*texts: str) -> list[ChatRequest]:
    return [ChatRequest(f"row-{text}", ({"role": "user", "content": text},)) for text in texts]


def test_one_slot_answers_every_row(chat: OpenAIChat):
    heard = Hearer()
    replies = chat.complete(ask(*map(str, range(60))), heard)
    assert [reply.reason for reply in replies] == [None] * 60
    assert heard.outcomes.count("ok") == 60
    assert 0 < heard.outcomes.count("timeout") < 60
    assert chat.limiter.allowed < chat.concurrency
    assert chat.limiter.ceiling < chat.concurrency
    lowered = int(chat.limiter.allowed)
    assert chat.note().startswith(f"models.chat.default: {chat.limiter.timeouts} timeout")
    assert chat.note().endswith(
        f" with 16 calls under way: concurrency lowered to {lowered}; set"
        f" models.chat.default.concurrency: {lowered}"
    )


def test_a_row_that_always_times_out_ends_as_a_reject(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply("x", hold=messages[-1]["content"] == "5")
    heard = Hearer()
    replies = replace(chat, concurrency=4).complete(ask(*map(str, range(12))), heard)
    assert [reply.reason for reply in replies] == [None] * 5 + ["timeout"] + [None] * 6


def test_one_slow_row_among_fast_ones_lowers_nothing(chat: OpenAIChat, openai: OpenAIServer):
    openai.slots.limit, openai.delay = None, 0.0
    openai.reply = lambda messages, body: Reply(
        "x", hold=messages[-1]["content"] == "0", delay=0.02
    )
    many = replace(chat, concurrency=4)
    heard = Hearer()
    replies = many.complete(ask(*map(str, range(200))), heard)
    assert [reply.reason for reply in replies] == ["timeout"] + [None] * 199
    assert heard.outcomes.count("timeout") == 2
    assert (many.limiter.allowed, many.note()) == (4, "")
    many.endpoint.client.close()


def test_a_server_that_never_answers_ends_the_work(chat: OpenAIChat, openai: OpenAIServer):
    openai.slots.limit = None
    openai.reply = lambda messages, body: Reply(hold=True)
    hung = replace(chat, timeout=0.1, wait_for_model=0.3, concurrency=4)
    with pytest.raises(ModelError, match=r"no answer within 0\.1 s"):
        hung.complete(ask(*map(str, range(100))))
    assert openai.count("chat") < 60
    hung.endpoint.client.close()


def test_a_question_is_not_tried_again_for_want_of_places(chat: OpenAIChat, openai: OpenAIServer):
    query = replace(chat, urgent=True, wait_for_model=0.0, concurrency=2)
    openai.reply = lambda messages, body: Reply("x", hold=messages[-1]["content"] == "the question")
    openai.slots.limit = None
    heard = Hearer()
    assert query.complete(ask("the question", "other"), heard)[0].reason == "timeout"
    assert heard.outcomes.count("timeout") <= 2
    query.endpoint.client.close()


def test_embeddings_of_a_server_with_one_slot_all_come(openai: OpenAIServer):
    openai.slots.limit, openai.delay = 1, SECONDS_A_CALL
    model = OpenAIEmbedding(
        "e",
        openai.base_url,
        "test-key",
        batch_size=1,
        timeout=CALLS_IN_TIME * SECONDS_A_CALL,
        wait_for_model=600,
    )
    heard = Hearer()
    assert len(model.embed([f"text {number}" for number in range(30)], heard)) == 30
    assert heard.outcomes.count("timeout") > 0
    model.endpoint.client.close()


def test_a_later_run_begins_with_the_concurrency_of_the_settings(chat: OpenAIChat):
    chat.complete(ask(*map(str, range(40))))
    assert chat.limiter.ceiling < chat.concurrency
    chat.begin_run(print)
    assert chat.limiter.ceiling == chat.limiter.allowed == chat.concurrency
    assert chat.note() == ""
