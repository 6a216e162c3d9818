"""Ollama's own protocol, against a server that implements it and cuts long prompts like Ollama."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ModelError, NoSuchModelError
from pipeline.models.base import ChatReply, ChatRequest
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.ollama import OllamaChat, OllamaEndpoint, native_address
from pipeline.runs.adapters import chat_model
from pipeline.settings.schema import ChatSettings, ModelsSettings, Settings
from tests.servers.ollama_server import OllamaServer, ollama_server
from tests.servers.openai_replies import Reply
from tests.talking import Hearer

SCHEMA = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}}
ANSWER = "The tide clock is driven by the tide."


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with ollama_server(lambda messages, body: Reply(ANSWER)) as started:
        yield started


@pytest.fixture
def chat(server: OllamaServer, tmp_path: Path) -> Iterator[OllamaChat]:
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    settings = Settings(models=ModelsSettings(chat={"default": ChatSettings(
        provider="ollama", base_url=f"{server.address}/v1", model="llama3.2", num_ctx=1024,
        keep_alive="-1",
        temperature=0, max_tokens=500, timeout=5, max_retries=1,
    )}))  # fmt: skip
    model = chat_model(settings, "default", cache)
    assert isinstance(model, OllamaChat)
    yield model
    model.endpoint.client.close()
    cache.close()


def ask(text: str, **more: Any) -> ChatRequest:
    return ChatRequest("row", ({"role": "user", "content": text},), check=lambda said: None, **more)


def streamed(chat: OllamaChat, request: ChatRequest) -> tuple[list[str], ChatReply]:
    pieces: list[str] = []
    stream = chat.stream(request)
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return pieces, end.value


def test_settings_reach_the_server_by_its_own_names(chat: OllamaChat, server: OllamaServer):
    schema = {"type": "json_schema", "json_schema": {"name": "graph", "schema": SCHEMA}}
    heard = Hearer()
    [reply] = chat.complete([ask("what is it", response_format=schema)], heard)
    [sent] = server.chats
    assert sent["options"] == {"num_ctx": 1024, "temperature": 0, "num_predict": 500}
    assert (sent["keep_alive"], sent["stream"], sent["truncate"], sent["format"]) == (
        -1,
        False,
        False,
        SCHEMA,
    )
    assert (reply.text, reply.finish_reason, reply.reason) == (ANSWER, "stop", None)
    [usage] = heard.usages
    assert (
        (usage.input_tokens, usage.output_tokens)
        == (reply.input_tokens, reply.output_tokens)
        == (3, 10)
    )


def test_a_known_reply_asks_nothing_whatever_the_window_and_the_address_are(
    chat: OllamaChat, server: OllamaServer
):
    chat.complete([ask("what is it")])
    elsewhere = replace(chat, num_ctx=4096, keep_alive="5m", base_url="http://127.0.0.1:9")
    assert elsewhere.complete([ask("what is it")])[0].cached
    assert chat.identity == {
        "model": "llama3.2",
        "provider": "ollama",
        "temperature": 0,
        "max_tokens": 500,
    }


def test_a_stream_comes_in_pieces_with_its_counts(chat: OllamaChat, server: OllamaServer):
    pieces, reply = streamed(chat, ask("what is it"))
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text == ANSWER
    assert (reply.finish_reason, reply.input_tokens, reply.output_tokens) == ("stop", 3, 10)
    assert server.chats[0]["stream"] is True
    assert streamed(chat, ask("what is it"))[1].cached


@pytest.mark.parametrize("knows_truncate", [True, False])
def test_a_prompt_that_does_not_fit_is_too_long_and_no_reply_to_a_part_of_it_is_kept(
    chat: OllamaChat, server: OllamaServer, knows_truncate: bool
):
    server.knows_truncate = knows_truncate
    [reply] = chat.complete([ask("tide " * 3000)])
    assert (reply.reason, reply.text) == ("too_long", "")
    larger = replace(chat, num_ctx=16_384)
    [whole] = larger.complete([ask("tide " * 3000)])
    assert (whole.text, whole.cached) == (ANSWER, False)


def test_a_reply_to_a_part_of_a_prompt_is_billed_and_asked_for_once(
    chat: OllamaChat, server: OllamaServer
):
    server.knows_truncate = False
    limited = replace(chat, options={})  # so that the limit of the request is sent
    hearer = Hearer()
    schema = {"type": "json_schema", "json_schema": {"name": "names", "schema": SCHEMA}}
    request = ask("tide " * 3000, response_format=schema, bounded_format=schema, max_tokens=400)
    [reply] = limited.complete([request], hearer)
    assert reply.reason == "too_long"
    assert "HTTP" not in reply.message  # the server has refused nothing
    [usage] = hearer.usages
    assert (usage.outcome, usage.input_tokens, usage.estimated) == ("too_long", 512, False)
    assert usage.output_tokens > 0
    assert len(server.chats) == 1


def test_a_streamed_answer_to_a_part_of_a_prompt_is_told_and_billed_and_not_kept(
    chat: OllamaChat, server: OllamaServer
):
    server.knows_truncate = False
    hearer = Hearer()
    pieces: list[str] = []
    with pytest.raises(
        ModelError, match=r"rests on a part of what was found; lower query\.max_total_tokens"
    ):
        pieces.extend(chat.stream(ask("tide " * 3000), hearer))
    assert "".join(pieces) == ANSWER
    [usage] = hearer.usages
    assert (usage.outcome, usage.input_tokens, usage.estimated) == ("too_long", 512, False)
    [reply] = chat.complete([ask("tide " * 3000)])
    assert (reply.reason, reply.cached) == ("too_long", False)


def test_a_reply_that_fills_the_window_was_cut_off(chat: OllamaChat, server: OllamaServer):
    server.reply = lambda messages, body: Reply("word " * 5000)
    [reply] = replace(chat, options={}).complete([ask("what is it")])
    assert reply.finish_reason == "length"
    assert not reply.good


def test_a_model_that_is_not_pulled_says_how_to_pull_it(chat: OllamaChat, server: OllamaServer):
    other = replace(chat, model="qwen3:4b")
    for attempt in (
        other.preflight,
        lambda: other.complete([ask("a")]),
        lambda: list(other.stream(ask("a"))),
    ):
        with pytest.raises(
            NoSuchModelError,
            match=r"has not pulled the model 'qwen3:4b'; run 'ollama pull qwen3:4b'",
        ):
            attempt()
    chat.preflight()


def test_a_server_that_is_not_ollama_is_told_from_a_missing_model(server: OllamaServer):
    connect = partial(OllamaEndpoint, base_url=f"{server.address}/proxy")
    with pytest.raises(NoSuchModelError, match=r"is no Ollama server .*correct base_url"):
        connect(where="models.chat.default", model="llama3.2", api_key="", timeout=5).preflight()


def test_a_busy_server_is_asked_again(chat: OllamaChat, server: OllamaServer):
    server.scripted = [(503, "server busy, please try again.  maximum pending requests exceeded")]
    heard = Hearer()
    [reply] = chat.complete([ask("what is it")], heard)
    assert reply.text == ANSWER
    assert [usage.outcome for usage in heard.usages] == ["server_error", "ok"]


def test_an_error_in_the_middle_of_a_stream_ends_it_and_nothing_is_kept(
    chat: OllamaChat, server: OllamaServer
):
    server.breaks = "an error was encountered while running the model"
    with pytest.raises(
        ModelError, match=r"encountered while running the model; the answer is cut off there"
    ):
        streamed(chat, ask("what is it"))
    server.breaks = ""
    assert streamed(chat, ask("what is it"))[1].text == ANSWER


def test_the_model_tells_its_own_context_length(chat: OllamaChat):
    assert isinstance(chat.endpoint, OllamaEndpoint)
    assert chat.endpoint.context_length() == 131_072
    assert chat.window == 1024


@pytest.mark.parametrize(
    "base_url", ["http://h:11434", "http://h:11434/", "http://h:11434/v1", "http://h:11434/api/"]
)
def test_the_path_of_a_protocol_is_left_off(base_url: str):
    assert native_address(base_url) == "http://h:11434"


def test_the_address_is_this_machine_by_default():
    assert native_address("") == "http://localhost:11434"
    assert ChatSettings(provider="ollama").configured


def test_a_window_in_extra_body_is_the_one_that_counts(chat: OllamaChat, server: OllamaServer):
    larger = replace(chat, options={"extra_body": {"options": {"num_ctx": 4096}}})
    assert larger.window == 4096
    (reply,) = larger.complete([ask("tide " * 1500)])  # more than the 1,024 tokens of num_ctx
    assert (reply.text, reply.finish_reason, reply.reason) == (ANSWER, "stop", None)
    [sent] = server.chats
    assert sent["options"]["num_ctx"] == 4096
