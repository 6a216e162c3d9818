"""Streamed answers in the forms that servers and gateways send."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import ModelError, PromptTooLongError
from pipeline.models.base import ChatReply, ChatRequest
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.chat import OpenAIChat
from pipeline.models.endpoint.streams import UNSTATED, lines_in_time
from tests.servers.openai_server import OpenAIServer, Reply
from tests.talking import Hearer

REQUEST = ChatRequest(
    "answer", ({"role": "user", "content": "what is the tide clock"},), check=lambda text: None
)
EVENT_STREAM = {"Content-Type": "text/event-stream"}


@pytest.fixture
def chat(openai: OpenAIServer, tmp_path: Path) -> Iterator[OpenAIChat]:
    openai.reply = lambda messages, body: Reply("A clock that the tide drives.")
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    model = OpenAIChat("gpt-4o-mini", openai.base_url, openai.key, cache, timeout=5, max_retries=2)
    yield model
    model.endpoint.client.close()
    cache.close()


def streamed(chat: OpenAIChat, heard: Hearer | None = None) -> tuple[list[str], ChatReply]:
    pieces: list[str] = []
    stream = chat.stream(REQUEST, heard)
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return pieces, end.value


def events(*said: object, end: bytes = b"") -> Reply:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in said)
    return Reply(raw=body + end, headers=EVENT_STREAM)


def text(content: str) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]}


def test_plain_json_in_answer_to_a_streamed_question_is_one_piece(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.streams = False
    heard = Hearer()
    pieces, reply = streamed(chat, heard)
    assert pieces == [reply.text] == ["A clock that the tide drives."]
    [sent], [usage] = openai.requests, heard.usages
    assert sent.body["stream"] is True
    assert (usage.outcome, usage.input_tokens, usage.output_tokens) == (
        "ok", sent.prompt_tokens, sent.completion_tokens,
    )  # fmt: skip
    again, known = streamed(chat)
    assert (again, known) == (pieces, replace(reply, cached=True))
    assert openai.count("chat") == 1


def test_an_error_in_plain_json_is_said_in_its_words(chat: OpenAIChat, openai: OpenAIServer):
    openai.script("chat", [Reply(raw=b'{"error": {"message": "the worker has gone away"}}')])
    with pytest.raises(ModelError, match=r"the worker has gone away; ask again"):
        streamed(chat)


def test_an_end_mark_without_a_finish_reason_ends_the_answer_and_is_told(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.script("chat", [Reply("A clock.", finish_reason=None)])
    pieces, reply = streamed(chat)
    assert ("".join(pieces), reply.text, reply.finish_reason) == ("A clock.", "A clock.", UNSTATED)
    assert reply.good


def test_a_stream_that_ends_with_neither_broke_off(chat: OpenAIChat, openai: OpenAIServer):
    openai.script("chat", [events(text("A clock"))])
    with pytest.raises(ModelError, match="broke off"):
        streamed(chat)
    assert streamed(chat)[1].text == "A clock that the tide drives."


def test_a_stream_that_ends_with_nothing_but_its_end_mark_is_an_empty_reply(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.script("chat", [events(end=b"data: [DONE]\n\n")])
    _, reply = streamed(chat)
    assert reply.reason == "empty"


def test_an_error_that_is_sent_as_an_event_is_said_in_its_words(
    chat: OpenAIChat, openai: OpenAIServer
):
    overloaded = {"error": {"message": "the model is overloaded", "code": 503}}
    openai.script("chat", [events(overloaded), events(text("A clock"), overloaded)])
    with pytest.raises(ModelError, match=r"HTTP 503: 503 the model is overloaded; ask again"):
        streamed(chat)
    with pytest.raises(
        ModelError, match=r"the model is overloaded; the answer is cut off there: ask again"
    ):
        streamed(chat)


def test_a_prompt_that_is_refused_in_an_event_is_too_long(chat: OpenAIChat, openai: OpenAIServer):
    said = "the request exceeds the available context size. try increasing it"
    openai.script(
        "chat",
        [events({"error": {"code": 400, "message": said, "n_ctx": 512, "n_prompt_tokens": 900}})],
    )
    with pytest.raises(
        PromptTooLongError, match=r"n_ctx: 512, n_prompt_tokens: 900.*lower query\.max_total_tokens"
    ):
        streamed(chat)


def test_white_space_for_longer_than_the_timeout_is_no_answer(
    chat: OpenAIChat, openai: OpenAIServer
):
    openai.script("chat", [Reply(spaces=True)])
    hasty = OpenAIChat("gpt-4o-mini", openai.base_url, openai.key, timeout=0.2, max_retries=0)
    with pytest.raises(ModelError, match=r"no answer within 0\.2 s"):
        streamed(hasty)
    hasty.endpoint.client.close()


def test_lines_end_at_line_feeds_alone_wherever_the_pieces_are_cut():
    body = "data: a\u2028b\r\n\ndata: \u00e9".encode()
    pieces = [bytes([byte]) for byte in body]
    assert list(lines_in_time(pieces, 5)) == ["data: a\u2028b\r", "", "data: \u00e9"]


def test_pieces_whose_text_is_a_list_of_parts_are_read(chat: OpenAIChat, openai: OpenAIServer):
    parts = [{"type": "text", "text": "A clock "}, {"type": "text", "text": "of tides."}]
    said = {"choices": [{"index": 0, "delta": {"content": parts}, "finish_reason": "stop"}]}
    openai.reply = lambda messages, body: events(said, end=b"data: [DONE]\n\n")
    assert streamed(chat)[1].text == "A clock of tides."
