"""Endpoints that report no token counts, or zeros: the tokenizer counts, and the count is
marked."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.models.base import ChatRequest, Usage
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.batch import BatchChat, BatchOptions
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from pipeline.models.endpoint.limits import Rate
from pipeline.models.endpoint.rerank import EndpointReranker
from pipeline.text.tokens import tokenizer
from tests.servers.openai_replies import UsageReport
from tests.servers.openai_server import OpenAIServer, Reply
from tests.servers.rerank_server import rerank_server
from tests.talking import Hearer

MODEL = "gpt-4o-mini"
PROMPT = "Die Königin von Saba besuchte Jerusalem. 灯塔在北方。"
REPLY = "Sie brachte Gewürze, Gold und Edelsteine mit."
UNREPORTED: list[UsageReport] = ["none", "zeros"]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ReplyCache]:
    opened = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite", "w")
    yield opened
    opened.close()


@pytest.fixture
def chat(openai: OpenAIServer, cache: ReplyCache) -> Iterator[OpenAIChat]:
    openai.reply = lambda messages, body: Reply(REPLY)
    model = OpenAIChat(
        MODEL, openai.base_url, openai.key, cache, timeout=5, input_price=1.0, output_price=10.0
    )
    yield model
    model.endpoint.client.close()


def count(text: str) -> int:
    return tokenizer(MODEL).count(text)


def request(row: str = "row", text: str = PROMPT) -> ChatRequest:
    return ChatRequest(row, ({"role": "user", "content": text},))


def is_estimate(usage: Usage, chat: OpenAIChat, asked: ChatRequest, reply: str = REPLY) -> bool:
    tokens = (chat.count(asked), count(reply))
    cost = (tokens[0] * 1.0 + tokens[1] * 10.0) / 1e6
    return (
        usage.estimated
        and (usage.input_tokens, usage.output_tokens) == tokens
        and usage.cost == pytest.approx(cost)
    )


@pytest.mark.parametrize("mode", UNREPORTED)
def test_a_plain_reply_is_counted_and_the_cache_keeps_the_counts(
    chat: OpenAIChat, openai: OpenAIServer, mode: Any
):
    openai.usage = mode
    heard = Hearer()
    [first], [second] = chat.complete([request()], heard), chat.complete([request()], heard)
    assert is_estimate(heard.usages[0], chat, request())
    assert (second.cached, second.input_tokens, second.output_tokens) == (
        True,
        first.input_tokens,
        count(REPLY),
    )
    assert not heard.usages[1].estimated
    assert openai.count("chat") == 1


@pytest.mark.parametrize("mode", UNREPORTED)
def test_a_streamed_reply_is_counted_and_the_cache_keeps_the_counts(
    chat: OpenAIChat, openai: OpenAIServer, mode: Any
):
    openai.usage = mode
    heard = Hearer()
    assert "".join(chat.stream(request(), heard)) == REPLY
    assert is_estimate(heard.usages[0], chat, request())
    [known] = chat.complete([request()])
    assert (known.cached, known.input_tokens, known.output_tokens) == (
        True,
        chat.count(request()),
        count(REPLY),
    )


def test_a_stream_that_is_cut_is_counted_as_far_as_it_came(chat: OpenAIChat, openai: OpenAIServer):
    heard = Hearer()
    stream = chat.stream(request(), heard)
    first = next(stream)
    stream.close()
    [usage] = heard.usages
    assert usage.outcome == "cut"
    assert is_estimate(usage, chat, request(), first)


@pytest.mark.parametrize("mode", UNREPORTED)
def test_the_replies_of_a_batch_are_counted(chat: OpenAIChat, openai: OpenAIServer, mode: Any):
    openai.usage, openai.batch_polls = mode, 0
    batch = BatchChat(chat, BatchOptions(poll_seconds=0.01, wait_seconds=30, least=2, discount=0.0))
    requests = [request(f"row-{n}", f"{PROMPT} {n}") for n in range(3)]
    heard = Hearer()
    batch.complete(requests, heard)
    by_row = {usage.row_id: usage for usage in heard.usages}
    assert openai.count("batch") == 3
    assert all(is_estimate(by_row[asked.row_id], chat, asked) for asked in requests)


def test_a_batch_that_an_earlier_run_left_is_counted_too(chat: OpenAIChat, openai: OpenAIServer):
    openai.usage, openai.batch_polls = "none", 1
    no_wait = BatchOptions(poll_seconds=0.01, wait_seconds=0, least=2, discount=0.0)
    requests = [request(f"row-{n}", f"{PROMPT} {n}") for n in range(3)]
    with pytest.raises(Exception, match="not ready yet"):
        BatchChat(chat, no_wait).complete(requests)
    heard = Hearer()
    assert not BatchChat(chat, no_wait).settle(heard)
    assert len(heard.usages) == 3
    assert all(usage.estimated and usage.output_tokens == count(REPLY) for usage in heard.usages)
    assert sum(usage.input_tokens for usage in heard.usages) >= sum(map(chat.count, requests))


@pytest.mark.parametrize("mode", UNREPORTED)
def test_embedding_calls_are_counted(openai: OpenAIServer, mode: Any):
    openai.usage = mode
    model = OpenAIEmbedding(
        "text-embedding-3-small", openai.base_url, openai.key, timeout=5, input_price=2.0
    )
    heard = Hearer()
    model.embed([PROMPT, REPLY], heard)
    model.endpoint.client.close()
    [usage] = heard.usages
    tokens = sum(map(tokenizer(model.model).count, (PROMPT, REPLY)))
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (tokens, 0, True)
    assert usage.cost == pytest.approx(tokens * 2.0 / 1e6)


@pytest.mark.parametrize("mode", UNREPORTED)
def test_rerank_calls_are_counted_with_the_query_beside_each_text(mode: Any):
    with rerank_server() as server:
        server.usage = mode
        model = EndpointReranker("best", server.base_url, server.key, timeout=5, input_price=2.0)
        heard = Hearer()
        model.rerank(PROMPT, [REPLY, "rye"], heard)
        model.endpoint.client.close()
    [usage] = heard.usages
    tokens = 2 * tokenizer("best").count(PROMPT) + sum(map(tokenizer("best").count, (REPLY, "rye")))
    assert (usage.input_tokens, usage.estimated) == (tokens, True)


def answered(chat: OpenAIChat, openai: OpenAIServer, message: Any, **answer: Any) -> Usage:
    """Return the usage of a call with this message in its answer."""
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **answer}
    openai.script("chat", [Reply(raw=json.dumps(body).encode())])
    heard = Hearer()
    chat.complete([request()], heard)
    return heard.usages[0]


def test_reasoning_and_text_in_parts_are_counted_as_output(chat: OpenAIChat, openai: OpenAIServer):
    thought = "First I think of the queen."
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": REPLY}],
        "reasoning_content": thought,
    }
    assert answered(chat, openai, message).output_tokens == count(REPLY + thought)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 70, "completion_tokens": 9, "total_tokens": 79}, (70, 9, False)),
        ({"prompt_tokens": 70, "total_tokens": 79}, (70, 9, False)),
        ({"completion_tokens": 9, "total_tokens": 79}, (70, 9, False)),
        ({"prompt_tokens": 70, "completion_tokens": 0}, (70, count(REPLY), True)),
        ({"prompt_tokens": 70}, (70, count(REPLY), True)),
        ({"prompt_tokens": "70", "completion_tokens": 9}, (None, 9, True)),
        (
            {"prompt_tokens": -1, "completion_tokens": -1, "total_tokens": -1},
            (None, count(REPLY), True),
        ),
        ({"prompt_tokens": 1e30, "completion_tokens": 9}, (None, 9, True)),
        ({"prompt_tokens": 70, "completion_tokens": 2**63}, (70, count(REPLY), True)),
        ([], (None, count(REPLY), True)),
        (
            {
                "prompt_tokens": 70,
                "completion_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 60},
            },
            (70, 9, False),
        ),
        (
            {
                "prompt_tokens": 70,
                "completion_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 90},
            },
            (160, 9, False),
        ),
        (
            {
                "prompt_tokens": 70,
                "completion_tokens": 9,
                "total_tokens": 139,
                "prompt_tokens_details": {"cached_tokens": 60},
            },
            (130, 9, False),
        ),
    ],
)
def test_what_an_endpoint_reports_is_taken_and_only_the_rest_is_counted(
    chat: OpenAIChat, openai: OpenAIServer, usage: Any, tokens: tuple[int | None, int, bool]
):
    told = answered(chat, openai, {"role": "assistant", "content": REPLY}, usage=usage)
    prompt = chat.count(request()) if tokens[0] is None else tokens[0]
    assert (told.input_tokens, told.output_tokens, told.estimated) == (prompt, *tokens[1:])


def test_a_limit_of_tokens_a_minute_counts_the_estimate(
    chat: OpenAIChat, openai: OpenAIServer, cache: ReplyCache
):
    """Check that such a call keeps its share of the limit; without a count, it would return all of
    it."""
    openai.usage = "none"
    limited = replace(chat, rate=Rate(tokens_per_minute=1_000_000))
    corrections: list[float] = []
    bucket = limited.limiter.bucket
    usual = bucket.correct

    def correct(tokens: int) -> None:
        corrections.append(tokens)
        usual(tokens)

    object.__setattr__(bucket, "correct", correct)
    expected_reply = limited.length_of_a_reply(request())
    limited.complete([request()])
    limited.endpoint.client.close()
    assert corrections == [count(REPLY) - expected_reply]
