"""JSON schemas with limits: they are sent to servers that accept them, and no other server loses a
row."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.models.base import ChatRequest
from pipeline.models.cache.lookup import completion_key
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.parse.graph_format import BOUNDED_GRAPH_JSON_FORMAT, GRAPH_JSON_FORMAT
from tests.servers.openai_replies import Messages, Reply
from tests.servers.openai_server import OpenAIServer

GRAPH = '{"entities": [], "relationships": []}'


def asked(text: str) -> ChatRequest:
    messages = ({"role": "user", "content": text},)
    return ChatRequest(text, messages, GRAPH_JSON_FORMAT, bounded_format=BOUNDED_GRAPH_JSON_FORMAT)


def has_limits(body: Mapping[str, Any]) -> bool:
    return "maxItems" in json.dumps(body.get("response_format"))


def refusing(message: str, status: int = 400) -> Any:
    """Make a server that refuses schemas with limits."""

    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        return Reply(message, status=status) if has_limits(body) else Reply(GRAPH)

    return reply


@pytest.fixture
def chat(openai: OpenAIServer, tmp_path: Path) -> Iterator[OpenAIChat]:
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    model = OpenAIChat(
        "m", openai.base_url, "test-key", cache, timeout=10, max_retries=0, concurrency=1
    )
    yield model
    model.endpoint.client.close()
    cache.close()


def test_a_server_that_takes_limits_gets_them(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(GRAPH)
    assert [reply.text for reply in chat.complete([asked("a"), asked("b")])] == [GRAPH, GRAPH]
    assert [has_limits(request.body) for request in openai.requests] == [True, True]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (
            (
                "Invalid schema for response_format 'graph': In context=('items',), 'maxLength' is"
                " not permitted."
            ),
            400,
        ),
        ("Bad request.", 400),
        ("Unprocessable: maxItems", 422),
        ("failed to parse grammar", 500),
        ("The keyword for a maximum length is no part of the schema subset.", 400),
    ],
)
def test_a_server_that_refuses_limits_is_asked_without_them_and_only_the_first_row_is_refused(
    chat: OpenAIChat, openai: OpenAIServer, message: str, status: int
):
    openai.reply = refusing(message, status)
    replies = chat.complete([asked("a"), asked("b"), asked("c")])
    assert [reply.text for reply in replies] == [GRAPH] * 3
    assert [has_limits(request.body) for request in openai.requests] == [True, False, False, False]


def test_a_server_that_takes_no_schema_at_all_fails_each_row_with_what_it_says(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.reply = lambda messages, body: Reply("'response_format' is not supported", status=400)
    replies = chat.complete([asked("a"), asked("b")])
    assert [reply.reason for reply in replies] == ["bad_request"] * 2
    assert all("is not supported" in reply.message for reply in replies)
    assert openai.count("chat") == 3


def test_a_prompt_that_is_too_long_is_not_sent_twice(chat: OpenAIChat, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(
        "This model's maximum context length is 10 tokens.", status=400
    )
    (reply,) = chat.complete([asked("a")])
    assert reply.reason == "too_long"
    assert openai.count("chat") == 1


def test_limits_are_not_in_the_key_of_a_reply(chat: OpenAIChat, openai: OpenAIServer):
    plain = ChatRequest("a", asked("a").messages, GRAPH_JSON_FORMAT)
    assert completion_key(chat.identity, asked("a")) == completion_key(chat.identity, plain)
    openai.reply = lambda messages, body: Reply(GRAPH)
    chat.complete([plain])
    (reply,) = chat.complete([asked("a")])
    assert reply.cached
