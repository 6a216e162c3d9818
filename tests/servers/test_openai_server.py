import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openai as openai_library
import pytest
from openai import OpenAI

from pipeline.contract.prompts import read_prompt
from pipeline.models.parse.graph_format import RECORDS_FORMAT
from tests.servers.openai_replies import Reply, UsageReport, count_tokens
from tests.servers.openai_server import OpenAIServer, openai_server

PROMPTS = Path(__file__).parents[2] / "prompts"
TEXT = "Ada Lovelace wrote to Charles Babbage about the engine. He lived in London."
EXTRACT = f'Write ("entity"<|>name...) records, end with <|COMPLETE|>\n\nText:\n{TEXT}'


@pytest.fixture
def client(openai: OpenAIServer):
    with OpenAI(base_url=openai.base_url, api_key="test-key", max_retries=2) as client:
        yield client


def user(prompt: str) -> list[Any]:
    return [{"role": "user", "content": prompt}]


def ask(client: OpenAI, prompt: str, options: Any = openai_library.omit) -> str:
    answer = client.chat.completions.create(
        model="m", messages=user(prompt), response_format=options
    )
    return answer.choices[0].message.content or ""


def test_chat_answers_and_is_written_down_with_its_tokens(openai: OpenAIServer, client: OpenAI):
    messages = user("Question: who was Ada Lovelace?")
    answer = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
    text = answer.choices[0].message.content
    assert text == "The sources tell of Ada Lovelace [ref:1]."
    [request] = openai.requests
    assert (request.kind, request.model, request.status, request.messages) == (
        "chat",
        "gpt-4o-mini",
        200,
        messages,
    )
    assert (request.prompt_tokens, request.completion_tokens) == (8, count_tokens(text))
    assert answer.usage is not None
    assert answer.usage.total_tokens == request.prompt_tokens + request.completion_tokens


def test_a_stream_carries_the_same_text_and_ends_with_the_usage(
    openai: OpenAIServer, client: OpenAI
):
    stream = client.chat.completions.create(
        model="m",
        messages=user("Who was Ada Lovelace?"),
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == ask(client, "Who was Ada Lovelace?")
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == count_tokens(text)
    assert chunks[-1].choices == []


def test_one_connection_serves_many_requests(openai: OpenAIServer, client: OpenAI):
    for _ in range(3):
        list(client.chat.completions.create(model="m", messages=[], stream=True))
        client.models.list()
    assert len(openai._connections) == 1


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_embeddings_are_near_for_texts_that_share_words(client: OpenAI, encoding):
    texts = [
        "the old mill by the river",
        "an old mill near the river",
        "quarterly bond yields fell",
    ]
    answer = client.embeddings.create(
        model="e", input=texts, encoding_format=encoding, dimensions=96
    )
    vectors = [item.embedding for item in answer.data]
    if encoding == "base64":
        vectors = [np.frombuffer(base64.b64decode(str(v)), dtype="<f4") for v in vectors]
    first, second, third = np.array(vectors, dtype=np.float32)
    assert len(first) == 96
    assert first @ first == pytest.approx(1, abs=1e-6)
    assert first @ second > 0.5 > first @ third


def test_embeddings_do_not_depend_on_the_batch_or_the_encoding(client: OpenAI):
    alone = (
        client.embeddings.create(model="e", input="two", encoding_format="float").data[0].embedding
    )
    batch = client.embeddings.create(model="e", input=["one", "two"]).data[1].embedding
    assert batch == pytest.approx(alone, abs=1e-7)


def test_an_empty_text_cannot_be_embedded(client: OpenAI):
    with pytest.raises(openai_library.BadRequestError, match="empty"):
        client.embeddings.create(model="e", input=["a", ""])


def test_a_wrong_key_is_refused(openai: OpenAIServer):
    refused = pytest.raises(openai_library.AuthenticationError, match="Incorrect API key")
    with OpenAI(base_url=openai.base_url, api_key="wrong") as client, refused:
        client.models.list()
    assert openai.count("models", status=401) == 1


def test_an_unknown_path_is_not_found(openai: OpenAIServer, client: OpenAI):
    with pytest.raises(openai_library.NotFoundError):
        client.fine_tuning.jobs.list()


def test_scripted_failures_come_first_and_the_client_tries_again(
    openai: OpenAIServer, client: OpenAI
):
    openai.script("chat", [Reply(status=429, headers={"Retry-After": "0.05"}), 500])
    assert ask(client, "hello")
    assert [request.status for request in openai.requests] == [429, 500, 200]
    assert [request.completion_tokens > 0 for request in openai.requests] == [False, False, True]


def test_a_dropped_connection_is_an_error_for_the_client(openai: OpenAIServer, client: OpenAI):
    openai.script("chat", [Reply(drop=True)])
    with pytest.raises(openai_library.APIConnectionError):
        ask(client.with_options(max_retries=0), "hello")
    assert openai.requests[0].status == 0


def test_a_stream_can_break_in_its_middle(openai: OpenAIServer, client: OpenAI):
    openai.script("chat", [Reply("a long answer " * 10, drop=True)])
    stream = client.chat.completions.create(model="m", messages=[], stream=True)
    text = ""

    def read() -> None:
        nonlocal text
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""

    with pytest.raises(openai_library.APIConnectionError):
        read()
    assert text.startswith("a long answer")


def test_a_reply_can_be_cut_off_or_no_json_or_too_few(openai: OpenAIServer, client: OpenAI):
    whole = ask(client, EXTRACT)
    openai.script(
        "chat", [Reply(finish_reason="length"), Reply(raw=b"<html>"), Reply("as told", usage=False)]
    )
    answer = client.chat.completions.create(model="m", messages=user(EXTRACT))
    assert answer.choices[0].finish_reason == "length"
    assert whole.startswith(answer.choices[0].message.content or "?")
    with pytest.raises(json.JSONDecodeError):
        ask(client, "hello")
    assert client.chat.completions.create(model="m", messages=[]).usage is None
    openai.script("embeddings", [Reply(missing_vectors=1)])
    assert len(client.embeddings.create(model="e", input=["a", "b", "c"]).data) == 2


def test_delay_and_the_most_requests_at_once(openai: OpenAIServer, client: OpenAI):
    openai.delay = 0.2
    start = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: ask(client, f"hello {n}"), range(4)))
    assert 0.2 <= time.monotonic() - start < 2
    assert openai.peak == 4


def test_after_its_end_nothing_answers_even_on_an_open_connection():
    with openai_server() as server:
        client = OpenAI(base_url=server.base_url, api_key="test-key", max_retries=0)
        client.models.list()
    with client, pytest.raises(openai_library.APIConnectionError):
        client.models.list()


def test_a_reply_function_decides(client: OpenAI, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(f"{body['model']}: {messages[-1]['content']}")
    assert ask(client, "echo") == "m: echo"


def test_extraction_prompts_get_records_of_their_text(client: OpenAI):
    said = ask(client, EXTRACT)
    records = said.removesuffix("<|COMPLETE|>").split("##\n")
    fields = [record.strip("()").split("<|>") for record in records]
    assert said.endswith("<|COMPLETE|>")
    assert [f[1] for f in fields if f[0] == '"entity"'] == [
        "Ada Lovelace",
        "Charles Babbage",
        "London",
    ]
    [link] = [f for f in fields if f[0] == '"relationship"']
    sentence = "Ada Lovelace wrote to Charles Babbage about the engine."
    assert link[1:5] == ["Ada Lovelace", "Charles Babbage", sentence, "engine"]
    assert 1 <= int(link[5]) <= 10


def test_the_prompts_of_the_project_are_known(client: OpenAI):
    def prompt(name: str, /, **values: str) -> str:
        blanks = dict.fromkeys(read_prompt(PROMPTS, name, {}).fields, "any") | {
            "format": RECORDS_FORMAT
        }
        return read_prompt(PROMPTS, name, blanks).render(**values)

    told = ask(client, prompt("extract_graph", text=f"{TEXT}\nText: Mary Somerville taught."))
    assert told.startswith('("entity"<|>Ada Lovelace<|>')
    assert "<|>Mary Somerville<|>" in told
    assert '("entity"<|>Quorin Vale' not in told
    keywords = json.loads(
        ask(client, prompt("extract_keywords", query="What linked Ada Lovelace with engines?"))
    )
    assert keywords == {
        "high_level_keywords": ["linked", "engines"],
        "low_level_keywords": ["Ada Lovelace"],
    }
    descriptions = "Ada wrote notes.\nAda knew Babbage.\nAda died young."
    said = ask(client, prompt("summarize_descriptions", name="Ada", descriptions=descriptions))
    assert said == "Ada wrote notes. Ada knew Babbage."
    for name, header in [
        ("answer_graph", "id,entity,type,description,rank"),
        ("answer_chunks", "id,content"),
    ]:
        context = prompt(name, context=f"{header}\n1,a summary of the descriptions")
        assert ask(client, f"{context}\nWho was Ada Lovelace?").endswith("[ref:1].")


def test_gleaning_finds_nothing_more(client: OpenAI):
    messages: list[Any] = [
        {"role": "user", "content": EXTRACT},
        {"role": "assistant", "content": "<|COMPLETE|>"},
        {"role": "user", "content": "What was missed?"},
    ]
    answer = client.chat.completions.create(model="m", messages=messages)
    assert answer.choices[0].message.content == "<|COMPLETE|>"


def test_the_same_graph_comes_as_json_when_asked_so(client: OpenAI):
    prompt = f"List entities and relationships as JSON.\n\nText:\n{TEXT}"
    graph = json.loads(ask(client, prompt, {"type": "json_object"}))
    assert [entity["name"] for entity in graph["entities"]] == [
        "Ada Lovelace",
        "Charles Babbage",
        "London",
    ]
    assert list(graph["relationships"][0]) == [
        "source",
        "target",
        "description",
        "keywords",
        "strength",
    ]


def test_chinese_names_are_found(client: OpenAI):
    said = ask(
        client, "End with <|COMPLETE|>\nText:\n林徽因在北京大学教书。《城南旧事》由林海音写成。"
    )
    assert "<|>城南旧事<|>" in said
    assert said.count('("entity"') >= 2


def test_keyword_and_summary_prompts(client: OpenAI):
    keywords = json.loads(
        ask(
            client,
            'Return {"high_level_keywords": [...]}.\nQuery: How did the Silver Mill influence'
            " fishing?",
        )
    )
    assert keywords == {
        "high_level_keywords": ["influence", "fishing"],
        "low_level_keywords": ["Silver Mill"],
    }
    summary = ask(
        client, "Summarize the descriptions.\nDescription List:\nFirst one. Second one.\nThird."
    )
    assert summary == "First one. Second one."


@pytest.mark.parametrize(("mode", "reported"), [("tokens", True), ("none", None), ("zeros", False)])
def test_every_answer_reports_its_tokens_as_the_server_is_set(
    openai: OpenAIServer, client: OpenAI, mode: UsageReport, reported: bool | None
):
    openai.usage = mode
    messages: Any = [{"role": "user", "content": "How many tokens has this?"}]
    plain = client.chat.completions.create(model="m", messages=messages).usage
    embedded = getattr(client.embeddings.create(model="e", input=["one"]), "usage", None)
    options: Any = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            model="m", messages=messages, stream=True, stream_options=options
        )
    )
    for usage in (plain, embedded, chunks[-1].usage):
        assert (None if usage is None else usage.total_tokens > 0) is reported
    assert all(request.prompt_tokens for request in openai.requests)
