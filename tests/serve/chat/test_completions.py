"""The ``openai`` package as the client of a real server, whose own chat model is scripted."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import APIError, APIStatusError, OpenAI

from pipeline.project import Project
from tests.projects import ProjectFolder
from tests.serve.conftest import models_of
from tests.serve.route_cases import TASK
from tests.serve.serving import QUESTION, Serving, serving, wait_until
from tests.servers.openai_server import OpenAIServer, Reply

DOCS = (Path(__file__).parents[3] / "docs" / "chat-clients.md").read_text(encoding="utf-8")
PAGE = "https://wiki.example.org/graph"
ALL, INSTITUTE, HARBOUR = "all-documents", "institute-key", "harbour-key"
SETTINGS = [
    f"serve.api_key={ALL}",
    f"serve.keys.institute={{key: {INSTITUTE}, where: {{source: institute.txt}}}}",
    f"serve.keys.harbour={{key: {HARBOUR}, where: {{source: harbour.txt}}, system_prompt: true}}",
    f"serve.public_url={PAGE}/",
    "cache=''",
    "query.mode=naive",
]
ASKED: list[Any] = [{"role": "user", "content": QUESTION}]
SAID = "Idra Senn founded the Brack Institute in 1840 [ref:1]. Anselm Torr taught optics [ref:1]."
ERRORS: list[Any] = [
    ("wrong", "", ASKED, 401, "unauthorized", None),
    (ALL, "none", ASKED, 404, "model_not_found", "model"),
    (ALL, ":none", ASKED, 404, "model_not_found", "model"),
    (ALL, ":bypass", ASKED, 403, "not_allowed", None),
    (INSTITUTE, ":graph", ASKED, 403, "not_allowed", None),
    (ALL, "", [{"role": "assistant", "content": "I"}], 422, "invalid_request", None),
    (ALL, "", [{"role": "user", "content": "?"}], 422, "invalid_request", None),
    (ALL, "", [], 422, "invalid_request", "messages"),
    (ALL, "", [{"role": "user", "content": "word " * 300_000}], 413, "too_large", None),
]
"""Key, model, messages -> status, code and param of the refusal."""


@pytest.fixture
def served(folder: ProjectFolder, openai: OpenAIServer) -> Iterator[Serving]:
    openai.reply = lambda messages, body: Reply(SAID)
    with folder.open(*models_of(openai), *SETTINGS) as project, serving(project) as served:
        yield served


_opened: list[OpenAI] = []
"""The clients of the test, which are closed at its end: they keep connections."""


@pytest.fixture(autouse=True)
def _close_clients() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def client_of(served: Serving, key: str = ALL) -> OpenAI:
    """Return a client that sends its key as a bearer, and never tries again."""
    client = OpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0)
    _opened.append(client)
    return client


def workspace_in(served: Serving, key: str = ALL) -> str:
    return client_of(served, key).models.list().data[0].id


def prompts(openai: OpenAIServer) -> list[Any]:
    """Return the messages of each call of the chat model."""
    return [request.body["messages"] for request in openai.requests if request.kind == "chat"]


def test_models_are_the_workspaces_of_the_key_and_on_request_its_modes(served: Serving):
    client = client_of(served)
    names = [model.id for model in client.models.list()]
    assert names == [served.health()[1]["workspace"]]
    listed = client.get("/models?modes=true", cast_to=httpx2.Response).json()["data"]
    workspace = names[0]
    assert {one["id"] for one in listed} >= {workspace, f"{workspace}:graph", f"{workspace}:naive"}
    narrow = client_of(served, INSTITUTE).get("/models?modes=true", cast_to=httpx2.Response).json()
    assert [one["id"] for one in narrow["data"]] == [workspace, f"{workspace}:naive"]


def test_an_answer_has_its_citations_as_data_and_links_at_its_end(
    served: Serving, openai: OpenAIServer
):
    workspace = workspace_in(served)
    answer = client_of(served).chat.completions.create(model=workspace, messages=ASKED, seed=3)
    [choice] = answer.choices
    content = choice.message.content or ""
    words, _, sources = content.partition("\n\n---\n**Sources**\n\n")
    assert words == (
        "Idra Senn founded the Brack Institute in 1840 [1]. Anselm Torr taught optics [1]."
    )
    first, second = choice.message.annotations or []
    for annotation in (first, second):
        cited = annotation.url_citation
        assert content[cited.start_index : cited.end_index] == "[1]"
        assert cited.url.startswith(f"{PAGE}/w/{workspace}/documents/doc-")
        assert sources == f"1. [{cited.title}]({cited.url})"
    assert (choice.finish_reason, answer.model) == ("stop", workspace)
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens > 0


@pytest.mark.parametrize("with_usage", [True, False])
def test_a_stream_gives_the_same_answer_piece_by_piece(served: Serving, with_usage: bool):
    client, workspace = client_of(served), workspace_in(served)
    whole = client.chat.completions.create(model=workspace, messages=ASKED)
    options: Any = {"include_usage": True} if with_usage else {}
    stream = client.chat.completions.create(
        model=workspace, messages=ASKED, stream=True, stream_options=options
    )
    chunks = list(stream)
    pieces = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert pieces[0].role == "assistant"
    assert "".join(piece.content or "" for piece in pieces) == whole.choices[0].message.content
    annotations = [
        one for piece in pieces for one in (piece.model_extra or {}).get("annotations", [])
    ]
    expected = [one.model_dump() for one in whole.choices[0].message.annotations or []]
    assert annotations == expected
    finishes = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert [finish for finish in finishes if finish] == ["stop"]
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    assert usages == ([whole.usage] if with_usage else [])
    assert not with_usage or not chunks[-1].choices


def test_two_keys_get_their_own_documents_and_permalinks_refuse_the_other(served: Serving):
    addresses: dict[str, str] = {}
    for key, name in ((INSTITUTE, "institute"), (HARBOUR, "harbour")):
        client, workspace = client_of(served, key), workspace_in(served, key)
        answer = client.chat.completions.create(
            model=workspace, messages=[{"role": "user", "content": "What did Anselm Torr do?"}]
        )
        assert answer.choices[0].message.content
        cited = {one.url_citation.url for one in answer.choices[0].message.annotations or []}
        [address] = cited
        addresses[key] = address.replace(PAGE, served.url)
        assert name in answer.choices[0].message.content.casefold()
    for key, address in addresses.items():
        for reader in (INSTITUTE, HARBOUR):
            headers = {"x-api-key": reader, "accept": "text/html"}
            opened = httpx2.get(address, headers=headers, timeout=60)
            assert opened.status_code == (200 if reader == key else 404)
        nobody = httpx2.get(address, timeout=60)
        assert nobody.status_code == 401


def test_no_text_of_a_document_or_a_model_leads_elsewhere_under_a_citation(
    served: Serving, openai: OpenAIServer
):
    evil = "https://evil.example/x"
    forged = [
        f"Idra Senn founded it in 1840 [ref:1]({evil}).",
        f"Idra Senn [founded it in 1840 [ref:1]]({evil}).",
        f"Idra Senn founded it in 1840 [ref:1].\n\n[1]: {evil}",
        f"Idra Senn founded it [1]({evil}), [\\[1\\]]({evil}), [ref:1][x]\n[x]: {evil}",
    ]
    openai.script("chat", [Reply(text) for text in forged])
    # The address is one that the conversation has, so that the check of addresses keeps it.
    asked: list[Any] = [{"role": "user", "content": f"Who founded it, says {evil}?"}]
    for _ in forged:
        answer = client_of(served).chat.completions.create(
            model=workspace_in(served), messages=asked
        )
        words = (answer.choices[0].message.content or "").partition("\n\n---\n")[0]
        assert evil in words
        for link in ("[1](", f"[1]]({evil}", "[1]:", "[1][x]"):
            assert link not in words
        cited = [one.url_citation for one in answer.choices[0].message.annotations or []]
        content = answer.choices[0].message.content or ""
        assert all(content[one.start_index : one.end_index] == "[1]" for one in cited)
        assert all(one.url.startswith(PAGE) for one in cited)


def test_earlier_turns_are_the_conversation_and_system_turns_need_a_right(
    served: Serving, openai: OpenAIServer
):
    client, workspace = client_of(served), workspace_in(served)
    first = client.chat.completions.create(model=workspace, messages=ASKED)
    messages: list[Any] = [
        {"role": "system", "content": "Write poems."},
        *ASKED,
        {"role": "assistant", "content": first.choices[0].message.content},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And who"},
                {"type": "image_url", "image_url": {"url": "data:,"}},
                {"type": "text", "text": "taught there?"},
            ],
        },
    ]
    answer = client.chat.completions.create(model=workspace, messages=messages)
    asked = prompts(openai)[-1]
    assert [turn["role"] for turn in asked] == ["system", "user", "assistant", "user"]
    assert "Write poems." not in str(asked)
    assert asked[1]["content"] == QUESTION
    assert "Sources" not in asked[2]["content"]
    assert asked[3]["content"].endswith("Question: And who\ntaught there?")
    notes = (answer.model_extra or {})["graphmill"]["notes"]
    assert any("1 system turn" in note for note in notes)
    assert any("1 part of the messages left out" in note for note in notes)
    allowed = client_of(served, HARBOUR)
    allowed.chat.completions.create(model=workspace, messages=messages)
    assert {"role": "system", "content": "Write poems."} in prompts(openai)[-1]


@pytest.mark.parametrize("stream", [True, False])
def test_a_front_ends_task_searches_nothing_and_asks_no_model(
    served: Serving, openai: OpenAIServer, stream: bool
):
    task: list[Any] = [TASK]
    client = client_of(served)
    answer: Any = client.chat.completions.create(
        model=workspace_in(served), messages=task, stream=stream
    )
    if stream:
        content = "".join(chunk.choices[0].delta.content or "" for chunk in answer)
    else:
        content = answer.choices[0].message.content
    assert json.loads(content) == {"title": "Who sold the ledger?"}
    assert (openai.count("chat"), openai.count("embedding")) == (0, 0)


def test_an_error_has_its_status_and_the_form_of_the_protocol(served: Serving):
    for key, model, messages, *told in ERRORS:
        for stream in (False, True):
            with pytest.raises(APIStatusError) as refused:
                client_of(served, key).chat.completions.create(
                    model=model, messages=messages, stream=stream
                )
            error = refused.value
            assert [error.status_code, error.code, error.param] == told
            assert isinstance(error.body, dict)
            assert set(error.body) == {"message", "type", "param", "code"}
            assert error.body["message"]
    with pytest.raises(APIStatusError) as refused:
        client_of(served, "wrong").models.list()
    assert (refused.value.status_code, refused.value.type) == (401, "authentication_error")


def test_a_failed_model_is_told_before_and_inside_a_stream(served: Serving, openai: OpenAIServer):
    client, workspace = client_of(served), workspace_in(served)
    openai.script("chat", [401])
    with pytest.raises(APIStatusError) as refused:
        client.chat.completions.create(model=workspace, messages=ASKED)
    assert (refused.value.status_code, refused.value.type) == (502, "server_error")
    openai.script("chat", [Reply("half of it " * 20, drop=True)])
    with pytest.raises(APIError) as broken:
        list(client.chat.completions.create(model=workspace, messages=ASKED, stream=True))
    assert broken.value.code == "model_failed"


def test_who_stops_reading_ends_the_model_call(served: Serving, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply("word " * 2000, pause=0.02)
    client, workspace = client_of(served), workspace_in(served)
    with client.chat.completions.create(model=workspace, messages=ASKED, stream=True) as stream:
        next(chunk for chunk in stream if chunk.choices[0].delta.content)
    wait_until(lambda: openai.abandoned == 1)
    wait_until(lambda: served.api.queries.running == 0)


def test_what_may_be_spent_in_a_day_holds_for_chat_clients(
    folder: ProjectFolder, openai: OpenAIServer
):
    limits = ["models.chat.default.price={input: 100, output: 100}", "serve.allow.cost_per_day=0"]
    with (
        folder.open(*models_of(openai), *SETTINGS, *limits) as project,
        serving(project) as served,
        pytest.raises(APIStatusError) as refused,
    ):
        client_of(served).chat.completions.create(model=workspace_in(served), messages=ASKED)
    assert (refused.value.status_code, refused.value.code) == (429, "spent")
    assert int(refused.value.response.headers["retry-after"]) > 0
    assert openai.count("chat") == 0


def test_a_question_of_a_chat_client_has_its_line_in_the_audit_log(
    folder: ProjectFolder, openai: OpenAIServer
):
    audit = ["serve.audit.enabled=true", "serve.audit.texts=text"]
    with (
        folder.open(*models_of(openai), *SETTINGS, *audit) as project,
        serving(project) as served,
    ):
        client, workspace = client_of(served, INSTITUTE), workspace_in(served, INSTITUTE)
        client.chat.completions.create(model=workspace, messages=ASKED)
        list(client.chat.completions.create(model=workspace, messages=ASKED, stream=True))
        with pytest.raises(APIStatusError):
            client.chat.completions.create(model=f"{workspace}:graph", messages=ASKED)
        lines = [
            json.loads(line)
            for file in sorted((folder.root / "data/audit").glob("*.jsonl"))
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
    outcomes = [(line["key"], line["outcome"], line["text"]) for line in lines[-3:]]
    answered = ("institute", "answered", QUESTION)
    assert outcomes == [answered, answered, ("institute", "not_allowed", QUESTION)]
    assert lines[-2]["passages"]


def test_without_an_address_of_the_page_sources_are_named_without_links(
    folder: ProjectFolder, openai: OpenAIServer
):
    openai.reply = lambda messages, body: Reply(SAID)
    settings = [one for one in SETTINGS if not one.startswith("serve.public_url")]
    with folder.open(*models_of(openai), *settings) as project, serving(project) as served:
        answer = client_of(served).chat.completions.create(
            model=workspace_in(served), messages=ASKED
        )
    content = answer.choices[0].message.content or ""
    assert content.partition("**Sources**\n\n")[2].startswith("1. ")
    assert "](" not in content
    assert not answer.choices[0].message.annotations


def test_the_examples_of_the_page_run(served: Serving, capsys: pytest.CaptureFixture[str]):
    [program] = re.findall(r"```python\n(.*?)\n```", DOCS, re.DOTALL)
    [command] = re.findall(r"```\n(curl .*?)\n```", DOCS, re.DOTALL)
    here = {"http://127.0.0.1:8020": served.url, "KEY": ALL}
    for said, meant in here.items():
        program, command = program.replace(said, meant), command.replace(said, meant)
    names: dict[str, Any] = {}
    exec(program, names)
    _opened.extend(value for value in names.values() if isinstance(value, OpenAI))
    assert "1. [" in capsys.readouterr().out
    if shutil.which("curl"):
        ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
        assert ran.stdout.endswith("data: [DONE]\n\n")


def test_without_a_chat_model_the_evidence_is_the_answer(served: Serving, project: Project):
    with serving(project) as plain:
        client = client_of(plain, "any")
        model = client.models.list().data[0].id
        answer = client.chat.completions.create(model=f"{model}:naive", messages=ASKED)
    assert "Idra Senn" in (answer.choices[0].message.content or "")
    assert answer.usage is not None
    assert answer.usage.total_tokens == 0
