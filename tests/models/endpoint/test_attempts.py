"""Retries of calls, and the record of every attempt."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import AuthError, ModelError
from pipeline.models.base import ChatReply, ChatRequest, Talk
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint import attempts
from pipeline.models.endpoint.attempts import LONGEST_WAIT, backoff
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from pipeline.models.endpoint.limits import Rate
from tests.servers.openai_server import Faults, Limits, OpenAIServer, Reply, openai_server
from tests.talking import Hearer

NOW = {"retry-after-ms": "1"}


@pytest.fixture
def chat(openai: OpenAIServer, tmp_path: Path) -> Iterator[OpenAIChat]:
    openai.reply = lambda messages, body: Reply(f"reply to {messages[-1]['content']}")
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    model = OpenAIChat("gpt-4o-mini", openai.base_url, "test-key", cache, timeout=5, max_retries=2)
    yield model
    model.endpoint.client.close()
    cache.close()


@pytest.fixture
def heard() -> Iterator[Hearer]:
    """Provide a listener, and check that every call that began has ended with the test."""
    hearer = Hearer()
    yield hearer
    assert hearer.under_way == {}


def ask(*texts: str) -> list[ChatRequest]:
    return [
        ChatRequest(f"row-{i}", ({"role": "user", "content": text},))
        for i, text in enumerate(texts)
    ]


def test_too_many_calls_are_no_failure(chat: OpenAIChat, openai: OpenAIServer, heard: Hearer):
    openai.script("chat", [Reply(status=429, headers=NOW)] * 7)
    (reply,) = replace(chat, max_retries=0).complete(ask("a"), heard)
    assert reply.text == "reply to a"
    assert heard.outcomes == ["throttled"] * 7 + ["ok"]
    assert [usage.attempt for usage in heard.usages] == list(range(1, 9))


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "1"},
        {"retry-after-ms": "1000"},
        {"Retry-After": "0.9", "retry-after-ms": "1000"},
    ],
)
def test_everybody_waits_as_long_as_the_endpoint_asks(
    chat: OpenAIChat, openai: OpenAIServer, headers: dict[str, str]
):
    openai.script("chat", [Reply(status=429, headers=headers)])
    one_by_one = replace(chat, concurrency=1)
    one_by_one.complete(ask("a", "b"))
    first, *rest = [request.at for request in openai.requests]
    assert len(rest) == 2
    assert all(at - first >= 0.99 for at in rest)


def test_throttling_without_end_ends_the_work(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(attempts, "LONGEST_THROTTLING", 0.3)
    openai.limits = Limits(requests_per_minute=0, minute=0.05)
    with pytest.raises(ModelError, match="429"):
        chat.complete(ask("a", "b"), heard)
    assert set(heard.outcomes) == {"throttled"}


@pytest.mark.parametrize("status", [500, 502, 503, 409])
def test_a_transient_failure_is_retried_and_then_has_a_reason(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer, status: int
):
    openai.script("chat", [Reply("it broke", status=status, headers=NOW)] * 3)
    (reply,) = chat.complete(ask("a"), heard)
    assert reply.reason == "server_error"
    assert "it broke" in reply.message
    assert [(usage.outcome, usage.attempt) for usage in heard.usages] == [
        ("server_error", n) for n in (1, 2, 3)
    ]
    assert openai.count("chat") == 3


def test_throttlings_between_failures_do_not_count(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer
):
    statuses = [429, 500, 429, 429, 500, 429]
    openai.script("chat", [Reply(status=status, headers=NOW) for status in statuses])
    assert chat.complete(ask("a"), heard)[0].text == "reply to a"
    assert heard.outcomes == [
        {429: "throttled", 500: "server_error"}[status] for status in statuses
    ] + ["ok"]


def test_a_timeout_is_tried_twice_at_most(chat: OpenAIChat, openai: OpenAIServer, heard: Hearer):
    openai.faults = Faults(never=lambda prompt: prompt == "a")
    impatient = replace(chat, timeout=0.3, max_retries=5)
    slow, other = impatient.complete(ask("a", "b"), heard)
    assert (slow.reason, other.text) == ("timeout", "reply to b")
    assert Counter(heard.outcomes) == {"timeout": 2, "ok": 1}
    impatient.endpoint.client.close()


def test_white_space_does_not_keep_a_call_alive(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer
):
    openai.script("chat", [Reply(spaces=True)] * 2)
    impatient = replace(chat, timeout=0.3)
    begun = time.monotonic()
    (reply,) = impatient.complete(ask("a"), heard)
    assert (reply.reason, reply.message) == ("timeout", "no answer within 0.3 s")
    assert time.monotonic() - begun < 4
    openai.script("embeddings", [Reply(spaces=True)])
    model = OpenAIEmbedding("e", openai.base_url, "test-key", max_retries=0, timeout=0.3)
    with pytest.raises(ModelError, match=r"no answer within 0\.3 s"):
        model.embed(["a"], heard)
    impatient.endpoint.client.close()
    model.endpoint.client.close()


def test_an_answer_without_a_reply_costs_what_the_endpoint_says(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer
):
    usage = b'"usage": {"prompt_tokens": 50, "completion_tokens": 7, "total_tokens": 57}'
    openai.script("chat", [Reply(raw=b'{"choices": [], ' + usage + b"}")])
    (reply,) = replace(chat, max_retries=0, input_price=1.0, output_price=2.0).complete(
        ask("a"), heard
    )
    assert reply.reason == "server_error"
    (used,) = heard.usages
    assert (used.outcome, used.input_tokens, used.output_tokens) == ("server_error", 50, 7)
    assert used.cost == pytest.approx(64 / 1e6)


@pytest.mark.parametrize(
    ("status", "halved"), [(429, True), (500, True), (503, True), (409, False)]
)
def test_an_overloaded_endpoint_gets_fewer_calls_at_a_time(
    chat: OpenAIChat, openai: OpenAIServer, status: int, halved: bool
):
    openai.script("chat", [Reply(status=status, headers=NOW)])
    many = replace(chat, concurrency=8)
    many.complete(ask("a"))
    assert (many.limiter.allowed < 8) is halved


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_permanent_failure_is_not_retried(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer, status: int
):
    openai.script("chat", [Reply("no", status=status)])
    (reply,) = chat.complete(ask("a"), heard)
    assert heard.outcomes == [reply.reason]
    assert openai.count("chat") == 1


@pytest.mark.parametrize(
    ("refusal", "error"),
    [(Reply(status=401), AuthError), (Reply("Insufficient Balance", status=402), ModelError)],
)
def test_a_call_that_ends_the_work_is_counted_too(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer, refusal: Reply, error: type[Exception]
):
    openai.script("chat", [refusal])
    with pytest.raises(error):
        replace(chat, concurrency=1).complete(ask("a", "b"), heard)
    assert len(heard.usages) == openai.count("chat") == 1


def test_every_attempt_is_a_row_and_the_sums_are_the_servers(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer
):
    openai.faults = Faults(seed=3, error=0.1, truncated=0.1, malformed=0.1)
    openai.limits = Limits(requests_per_minute=40, minute=0.3)
    priced = replace(chat, input_price=1.0, output_price=3.0, concurrency=8)
    replies = priced.complete(ask(*map(str, range(150))), heard)
    assert len(replies) == 150
    sent = openai.requests
    statuses = {"ok": 200, "truncated": 200, "throttled": 429, "server_error": 500}
    assert Counter(statuses[outcome] for outcome in heard.outcomes) == Counter(
        request.status for request in sent
    )
    assert set(statuses) == set(heard.outcomes)
    assert sum(usage.calls for usage in heard.usages) == len(sent)
    input_tokens = sum(request.prompt_tokens for request in sent)
    output_tokens = sum(request.completion_tokens for request in sent)
    assert sum(usage.input_tokens for usage in heard.usages) == input_tokens
    assert sum(usage.output_tokens for usage in heard.usages) == output_tokens
    costs = [usage.cost or 0 for usage in heard.usages]
    assert sum(costs) == pytest.approx((input_tokens + 3 * output_tokens) / 1e6)


def test_every_attempt_of_an_embedding_call_is_counted(openai: OpenAIServer, heard: Hearer):
    model = OpenAIEmbedding("e", openai.base_url, "test-key", batch_size=4, max_retries=1)
    openai.script("embeddings", [Reply(status=429, headers=NOW), Reply(status=500, headers=NOW)])
    model.embed(list("abcdef"), heard)
    assert Counter(heard.outcomes) == {"throttled": 1, "server_error": 1, "ok": 2}
    assert sorted(usage.texts for usage in heard.usages if usage.outcome == "ok") == [2, 4]
    assert sum(usage.input_tokens for usage in heard.usages) == sum(
        r.prompt_tokens for r in openai.requests
    )
    model.endpoint.client.close()


def test_a_rate_keeps_the_endpoint_from_refusing(
    chat: OpenAIChat, openai: OpenAIServer, heard: Hearer
):
    openai.limits = Limits(requests_per_minute=20, minute=1.0)
    paced = replace(chat, rate=Rate(requests_per_minute=20 * 60, tokens_per_minute=10**9))
    begun = time.monotonic()
    paced.complete(ask(*map(str, range(50))), heard)
    assert time.monotonic() - begun > 2
    assert heard.outcomes.count("throttled") <= 5
    assert heard.outcomes.count("ok") == 50


def test_a_server_that_starts_again_in_the_middle_is_waited_for(heard: Hearer):
    stack = ExitStack()
    server = stack.enter_context(openai_server())
    port = server.server_address[1]
    model = OpenAIChat("m", server.base_url, "test-key", max_retries=5, timeout=5)
    again = threading.Timer(0.5, lambda: stack.enter_context(openai_server(port)))

    def talk() -> Talk[ChatReply]:
        yield ask("a")
        server.close()
        again.start()
        (reply,) = yield ask("b")
        return reply

    with stack:
        (reply,) = model.converse([talk()], heard)
        again.join()
        assert reply.reason is None
        assert set(heard.outcomes) == {"ok", "server_error"}
        model.endpoint.client.close()


def test_a_backoff_doubles_up_to_a_minute_and_is_never_nothing():
    for attempt in range(1, 40):
        longest = min(LONGEST_WAIT, 0.5 * 2 ** (attempt - 1))
        assert all(longest / 2 <= backoff(attempt) <= longest for _ in range(20))
    # A call that is refused as one too many may be sent again for an hour.
    assert LONGEST_WAIT / 2 <= backoff(5_000) <= LONGEST_WAIT
