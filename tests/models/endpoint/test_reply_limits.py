"""Limits of replies: a reply without end stops at the limit, however an endpoint handles the
limit."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.models.base import ChatRequest
from pipeline.models.cache.lookup import completion_key
from pipeline.models.cache.replies import Completion, ReplyCache
from pipeline.models.endpoint.batch import BatchChat, BatchOptions
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.reply_limits import is_only_thinking
from tests.servers.openai_machine import OutputRules
from tests.servers.openai_server import OpenAIServer, Reply
from tests.talking import Hearer

LIMIT = 50


@pytest.fixture
def chat(openai: OpenAIServer, tmp_path: Path) -> Iterator[OpenAIChat]:
    openai.reply = lambda messages, body: Reply(f"reply to {messages[-1]['content']}")
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    model = OpenAIChat("m", openai.base_url, "test-key", cache, timeout=5, max_retries=0)
    yield model
    model.endpoint.client.close()
    cache.close()


def ask(*texts: str) -> list[ChatRequest]:
    return [
        ChatRequest(f"row-{text}", ({"role": "user", "content": text},), max_tokens=LIMIT)
        for text in texts
    ]


def limits_of(openai: OpenAIServer) -> list[tuple[str, int]]:
    names = ("max_tokens", "max_completion_tokens")
    return [
        (name, request.body[name])
        for request in openai.requests
        for name in names
        if name in request.body
    ]


def test_a_reply_without_end_stops_at_the_limit_and_is_not_good(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.reply = lambda messages, body: Reply(endless=True)
    heard = Hearer()
    (reply,) = chat.complete(ask("a"), heard)
    assert (reply.good, reply.finish_reason, reply.output_tokens) == (False, "length", LIMIT)
    assert heard.outcomes == ["truncated"]
    openai.reply = lambda messages, body: Reply("better")
    assert chat.complete(ask("a"))[0].text == "better"


def test_the_limit_is_in_no_key_and_a_reply_that_was_paid_for_is_served(
    chat: OpenAIChat, openai: OpenAIServer
):
    (request,) = ask("a")
    (without,) = [replace(request, max_tokens=None)]
    assert completion_key(chat.identity, request) == completion_key(chat.identity, without)
    assert request == without
    chat.complete([without])
    assert chat.complete([request])[0].cached
    assert limits_of(openai) == []


@pytest.mark.parametrize(
    "options", [{"max_tokens": 7}, {"max_completion_tokens": 7}, {"extra_body": {"max_tokens": 7}}]
)
def test_limits_of_the_settings_are_sent_unchanged(
    chat: OpenAIChat, openai: OpenAIServer, options: dict[str, object]
):
    replace(chat, options=options).complete(ask("a"))
    assert [tokens for _, tokens in limits_of(openai)] == [7]


def test_a_model_that_is_told_to_think_gets_no_limit(chat: OpenAIChat, openai: OpenAIServer):
    replace(chat, options={"reasoning_effort": "low"}).complete(ask("a"))
    assert limits_of(openai) == []


def test_a_refused_name_is_replaced_at_once_and_remembered(chat: OpenAIChat, openai: OpenAIServer):
    openai.output = OutputRules(unsupported=("max_tokens",))
    heard = Hearer()
    one_by_one = replace(chat, concurrency=1, input_price=1.0)
    replies = one_by_one.complete(ask("a", "b", "c"), heard)
    assert [reply.text for reply in replies] == ["reply to a", "reply to b", "reply to c"]
    assert [name for name, _ in limits_of(openai)] == ["max_tokens", *["max_completion_tokens"] * 3]
    assert heard.usages[0].cost == 0


@pytest.mark.parametrize("rules", [OutputRules(most=40), OutputRules(unsupported=(
    "max_tokens", "max_completion_tokens"))])  # fmt: skip
def test_a_limit_that_is_refused_in_any_form_loses_no_row(
    chat: OpenAIChat, openai: OpenAIServer, rules: OutputRules
):
    openai.output = rules
    one_by_one = replace(chat, concurrency=1)
    replies = one_by_one.complete(ask("a", "b", "c"))
    assert [reply.reason for reply in replies] == [None] * 3
    assert len(limits_of(openai)) <= 2


def test_a_prompt_that_is_too_long_by_itself_is_still_told(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(
        "This model's maximum context length is 8 tokens.", status=400
    )
    (reply,) = chat.complete(ask("a"))
    assert reply.reason == "too_long"
    assert openai.count("chat") == 2
    assert chat.reply_limits.name == "max_tokens"


@pytest.mark.parametrize("status", [413, 429])
def test_a_limit_that_is_counted_among_the_tokens_of_a_minute_loses_no_row(
    chat: OpenAIChat, openai: OpenAIServer, status: int
):
    said = "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 8100"
    openai.reply = lambda messages, body: (
        Reply(said, status=status) if "max_tokens" in body else Reply("here")
    )
    heard = Hearer()
    (reply,) = chat.complete(ask("a"), heard)
    assert (reply.text, heard.outcomes) == ("here", ["too_long", "ok"])


def test_hidden_thinking_that_uses_the_limit_up_ends_all_limits(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.output = OutputRules(thinking=2 * LIMIT)
    heard = Hearer()
    one_by_one = replace(chat, concurrency=1)
    replies = one_by_one.complete(ask("a", "b"), heard)
    assert [reply.text for reply in replies] == ["reply to a", "reply to b"]
    assert heard.outcomes == ["truncated", "ok", "ok"]
    assert len(limits_of(openai)) == 1


def test_a_request_whose_stored_reply_was_longer_gets_more_room(
    chat: OpenAIChat, openai: OpenAIServer
):
    (request,) = ask("a")
    key = completion_key(chat.identity, request)
    chat.cache.store_completion(key, "m", Completion("long", "stop", 10, 4000))
    chat.cache.flag({key: False})
    chat.complete([request])
    assert limits_of(openai) == [("max_tokens", 8000)]


def test_a_batch_has_the_limits_and_a_refused_one_is_sent_again_as_a_batch(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.output = OutputRules(unsupported=("max_tokens",))
    batches = BatchChat(chat, BatchOptions(poll_seconds=0.01, least=2, failed="reject"))
    replies = batches.complete(ask("a", "b", "c"))
    assert [reply.text for reply in replies] == ["reply to a", "reply to b", "reply to c"]
    rows = [request.body for request in openai.requests if request.kind == "batch"]
    assert [sorted({"max_tokens", "max_completion_tokens"} & set(body)) for body in rows] == [
        *[["max_tokens"]] * 3, *[["max_completion_tokens"]] * 3,
    ]  # fmt: skip
    assert openai.count("chat") == 0


def test_an_empty_reply_of_a_batch_that_used_its_limit_up_is_asked_for_directly_if_it_is_alone(
    chat: OpenAIChat, openai: OpenAIServer
):
    def reply(messages: list[dict[str, str]], body: dict[str, object]) -> Reply:
        text = messages[-1]["content"]
        used_up = text == "a" and "max_tokens" in body
        return Reply("", finish_reason="length") if used_up else Reply(f"reply to {text}")

    openai.reply = reply  # type: ignore[assignment]
    batches = BatchChat(chat, BatchOptions(poll_seconds=0.01, least=2))
    replies = batches.complete(ask("a", "b"))
    assert [reply.text for reply in replies] == ["reply to a", "reply to b"]
    assert openai.count("chat") == 1


def window_of_sixty(chat: OpenAIChat, openai: OpenAIServer) -> list[ChatRequest]:
    """Return a request that leaves no room for its limit in a window of 60 tokens, and one that
    does."""
    openai.output = OutputRules(window=60)
    return ask("long " * 20, "b")


def test_a_limit_that_does_not_fit_beside_one_prompt_is_left_out_of_that_request_alone(
    chat: OpenAIChat, openai: OpenAIServer
):
    long, short = window_of_sixty(chat, openai)
    one_by_one = replace(chat, concurrency=1)
    replies = one_by_one.complete([long, short, *ask("c")])
    assert [reply.reason for reply in replies] == [None] * 3
    assert ["max_tokens" in request.body for request in openai.requests] == [
        True,
        False,
        True,
        True,
    ]


def test_a_batch_leaves_out_a_limit_that_does_not_fit_beside_its_prompt(
    chat: OpenAIChat, openai: OpenAIServer
):
    batches = BatchChat(chat, BatchOptions(poll_seconds=0.01, least=2, failed="reject"))
    replies = batches.complete(window_of_sixty(chat, openai))
    assert [reply.reason for reply in replies] == [None, None]
    assert batches.chat.reply_limits.name == "max_tokens"


@pytest.mark.parametrize(
    "refusal",
    [
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 50. This model's maximum context"
            " length is 60 tokens and your request has 30 input tokens (50 > 60 - 30)."
        ),
        (
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 60. Given: 30"
            " `inputs` tokens"
        ),
    ],
)
def test_the_words_of_vllm_and_tgi_for_a_full_window_end_no_limits(
    chat: OpenAIChat, openai: OpenAIServer, refusal: str
):
    def reply(messages: list[dict[str, str]], body: dict[str, object]) -> Reply:
        full = messages[-1]["content"] == "a" and "max_tokens" in body
        return Reply(refusal, status=400) if full else Reply("yes")

    openai.reply = reply  # type: ignore[assignment]
    replies = replace(chat, concurrency=1).complete(ask("a", "b"))
    assert [reply.text for reply in replies] == ["yes", "yes"]
    assert ["max_tokens" in request.body for request in openai.requests] == [True, False, True]


def test_a_loop_of_white_space_is_no_thinking(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(" " * 4 * LIMIT * 2)
    heard = Hearer()
    one_by_one = replace(chat, concurrency=1)
    replies = one_by_one.complete(ask("a", "b"), heard)
    assert [reply.reason for reply in replies] == ["empty", "empty"]
    assert limits_of(openai) == [("max_tokens", LIMIT)] * 2
    assert heard.outcomes == ["truncated", "truncated"]


@pytest.mark.parametrize(
    ("text", "thinks"),
    [("", True), ("<think>So", True), ("<think>So</think>", False), ("\n \n", False)],
)
def test_only_no_text_or_an_open_think_tag_is_hidden_thinking(text: str, thinks: bool):
    assert is_only_thinking(text) == thinks


def test_every_reply_that_ended_at_a_limit_has_the_outcome_truncated(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.reply = lambda messages, body: Reply("half a", finish_reason="length")
    without = [replace(request, max_tokens=None) for request in ask("a", "b")]
    heard = Hearer()
    chat.complete(without[:1], heard)
    list(chat.stream(without[1], heard))
    batches = BatchChat(chat, BatchOptions(poll_seconds=0.01, least=2))
    batches.complete([replace(request, max_tokens=None) for request in ask("c", "d")], heard)
    assert heard.outcomes == ["truncated"] * 4


def test_a_streamed_reply_has_the_limit_and_is_asked_for_without_a_refused_one(
    chat: OpenAIChat, openai: OpenAIServer
):
    assert "".join(chat.stream(ask("a")[0])) == "reply to a"
    openai.output = OutputRules(unsupported=("max_tokens",))
    assert "".join(chat.stream(ask("b")[0])) == "reply to b"
    assert ["max_tokens" in request.body for request in openai.requests] == [True, True, False]
