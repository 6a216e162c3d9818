"""The tools for assistants, asked by the SDK's own client."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from pipeline.project import Project
from pipeline.serve.mcp import MOST_STATEMENTS, http_app, mcp_of
from pipeline.serve.queries import Queries
from pipeline.serve.server import Server, address_of, listen
from pipeline.settings.query_fields import Mode
from pipeline.text.tokens import tokenizer
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import QUESTION, in_thread
from tests.servers.openai_server import OpenAIServer, Reply


def call(server: Any, *calls: tuple[str, dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """(the tools, the results)."""

    async def talk() -> tuple[list[Any], list[Any]]:
        async with Client(server) as client:
            listed = await client.list_tools()
            return listed.tools, [
                await client.call_tool(name, arguments) for name, arguments in calls
            ]

    return asyncio.run(talk())


def test_over_stdio_without_a_chat_model(folder: ProjectFolder, project: Project):
    command, *arguments = folder.command_line("mcp")
    asked = {
        "query": QUESTION,
        "mode": "local",
        "chunk_top_k": 2,
        "ll_keywords": ["Brack Institute"],
    }
    server = StdioServerParameters(command=command, args=arguments, env=folder.environment)
    [tool], [found, *refused] = call(
        server,
        ("query_data", asked),
        ("query_data", {"query": " \n"}),
        ("query_data", {"query": QUESTION, "mode": "moon"}),
        ("query_data", {"query": QUESTION, "top_k": 10**9}),
    )
    assert (tool.name, tool.annotations.read_only_hint) == ("query_data", True)
    assert "with their sources" in tool.description
    expected = project.query(
        QUESTION, **{**asked, "only_need_context": True, "max_total_tokens": 5000}
    )
    places = [
        (entry["id"], entry["document_id"], entry["start"])
        for entry in found.structured_content["references"]
    ]
    assert places == [(entry.id, entry.document_id, entry.start) for entry in expected.references]
    assert found.structured_content["mode"] == "local"
    assert [block.text for block in found.content] == [expected.text]
    assert not found.is_error
    assert all(answer.is_error for answer in refused)
    assert "a letter or a digit" in refused[0].content[0].text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"max_tokens": "secret-value"},
            "unknown field 'max_tokens'; did you mean 'max_total_tokens'?",
        ),
        (
            {"zzz": "secret-value"},
            "unknown field 'zzz'; known fields: chunk_top_k, hl_keywords, ll_keywords, ",
        ),
        ({"top_k": "secret-value"}, "top_k: Input should be a valid integer"),
        ({"mode": "secret-value"}, "mode: Input should be 'naive', 'local'"),
    ],
)
def test_wrong_arguments_are_refused_as_by_the_http_api(
    project: Project, wrong: dict[str, Any], said: str
):
    queries = Queries(project.settings.serve)
    _, [refused] = call(mcp_of(project, queries), ("query_data", {"query": QUESTION, **wrong}))
    asyncio.run(queries.close())
    told = refused.content[0].text
    assert refused.is_error
    assert told.startswith(said)
    assert "secret-value" not in told
    assert "pydantic" not in told


@pytest.mark.parametrize(
    ("asked", "reason", "said"),
    [
        ({"where": {"nowhere": "x"}}, "nothing_found", "Nothing was found in the documents."),
        ({"max_total_tokens": 100}, "no_room", "none of it fits into max_total_tokens"),
        ({}, "below_min_score", "is similar enough to the question"),
    ],
)
def test_it_says_why_there_is_no_evidence(
    folder: ProjectFolder, asked: dict[str, Any], reason: str, said: str
):
    with folder.open(
        "query.min_score=0.99" if reason == "below_min_score" else "query.min_score=0"
    ) as project:
        queries = Queries(project.settings.serve)
        _, [found] = call(mcp_of(project, queries), ("query_data", {"query": QUESTION, **asked}))
        asyncio.run(queries.close())
    assert (found.is_error, found.structured_content["reason"]) == (False, reason)
    assert said in found.content[0].text


def test_evidence_has_the_statements_of_its_relationships_with_their_passages(project: Project):
    asked = {"query": QUESTION, "mode": "local", "ll_keywords": ["Idra Senn", "Brack Institute"]}
    options = {name: value for name, value in asked.items() if name != "query"}
    data = project.query_data(QUESTION, **options, max_total_tokens=5000)
    expected = [
        {"source": link["source"], "target": link["target"], **statement}
        for link in data["relationships"]
        for statement in link.get("statements", [])
    ]
    queries = Queries(project.settings.serve)
    _, [found] = call(mcp_of(project, queries), ("query_data", asked))
    asyncio.run(queries.close())
    assert found.structured_content["statements"] == expected[:MOST_STATEMENTS] != []


def test_a_result_is_of_a_size_that_assistants_take(tmp_path: Path, postgres_url: str):
    told = "Idra Senn of the Brack Institute met {} and wrote to Otto Vale about it. "
    names = ("Cora Lund", "Ada Holm", "Mira Vale", "Benet Luthe")
    documents = {
        f"{n}.txt": " ".join(told.format(name) * 15 for name in names) + str(n) for n in range(20)
    }
    count = tokenizer("o200k_base").count
    folder = new_project(tmp_path / "p", postgres_url, documents)
    with folder.open() as project:
        project.run("fast")
        queries = Queries(project.settings.serve)
        asked = {"query": QUESTION, "mode": "naive"}
        calls = [("query_data", asked), ("query_data", {**asked, "max_total_tokens": 30_000})]
        _, results = call(mcp_of(project, queries), *calls)
        asyncio.run(queries.close())
    few, many = (
        count(one.content[0].text) + count(json.dumps(one.structured_content)) for one in results
    )
    assert few <= 6_000 < many
    assert "[ref:1]" in results[0].content[0].text
    assert results[0].structured_content["references"][0]["id"] == 1
    assert not {"chunks", "entities", "relationships"} & results[0].structured_content.keys()


def test_a_result_is_no_longer_than_who_asks_may_have(folder: ProjectFolder):
    with folder.open("serve.allow.max_prompt_tokens=2000") as project:
        queries = Queries(project.settings.serve)
        asked = {"query": QUESTION, "mode": "naive"}
        calls = [("query_data", asked), ("query_data", {**asked, "max_total_tokens": 2001})]
        _, [found, refused] = call(mcp_of(project, queries), *calls)
        asyncio.run(queries.close())
    assert found.structured_content["references"]
    assert "ask for at most 2,000" in refused.content[0].text


def test_modes_that_search_are_offered_and_told(chatting: Project):
    queries = Queries(chatting.settings.serve)
    tools, _ = call(mcp_of(chatting, queries))
    asyncio.run(queries.close())
    searching = [mode for mode in get_args(Mode) if mode != "bypass"]
    for tool in tools:
        mode = tool.input_schema["properties"]["mode"]
        assert mode["anyOf"][0]["enum"] == searching
        assert all(f"{name}: " in mode["description"] for name in searching)
        assert "where" in tool.input_schema["properties"]


def test_with_a_chat_model(chatting: Project, openai: OpenAIServer):
    openai.script("chat", [Reply("Idra Senn [ref:1]. Verify your account [2].")])
    queries = Queries(chatting.settings.serve)
    tools, [answered, refused] = call(
        mcp_of(chatting, queries),
        ("query", {"query": QUESTION}),
        ("query", {"query": QUESTION, "mode": "bypass"}),
    )
    assert [tool.name for tool in tools] == ["query_data", "query"]
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert answered.structured_content["answer"] == "Idra Senn [1]. Verify your account (2)."
    [annotation] = answered.structured_content["annotations"]
    assert annotation == {"start": 10, "end": 13, "number": 1, "supported": True}
    assert answered.content[0].text.startswith("Idra Senn [1]. Verify your account (2).\n\n[1] ")
    assert "\n[2] " not in answered.content[0].text
    assert "chunks" not in answered.structured_content
    assert refused.is_error
    assert openai.count("chat") == 1
    openai.script("chat", [401])
    _, [failed] = call(mcp_of(chatting, queries), ("query", {"query": QUESTION}))
    assert failed.is_error
    assert "refused the key" in failed.content[0].text
    assert openai.key not in failed.content[0].text
    asyncio.run(queries.close())


def test_over_http_with_the_key(folder: ProjectFolder):
    async def ask(url: str) -> Any:
        headers = {"X-API-Key": "k"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            return await client.call_tool("query_data", {"query": QUESTION})

    with folder.open("serve.api_key=k") as project, listen("127.0.0.1", 0) as listening:
        queries = Queries(project.settings.serve)
        server = Server(
            http_app(project, queries, any_host=False), project.settings.serve, queries.end
        )
        with in_thread(server, listening):
            url = address_of(listening)
            assert httpx2.post(f"{url}/mcp", json={}).status_code == 401
            # The stream that a GET asks for would stay open, and nothing could come over it.
            accept = {"X-API-Key": "k", "Accept": "text/event-stream"}
            standing = httpx2.get(f"{url}/mcp", headers=accept)
            assert (standing.status_code, standing.headers["Allow"]) == (405, "POST")
            assert asyncio.run(ask(url)).structured_content["references"]
        asyncio.run(queries.close())


def test_a_signal_ends_it_though_stdin_is_open(folder: ProjectFolder):
    line = folder.command_line("mcp")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, env=folder.environment, text=True, **pipes) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            process.stdin.flush()
            assert process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_tools_for_assistants_need_their_own_extra_alone():
    blocked = "import sys; sys.modules['fastapi'] = None; import pipeline.serve.mcp"
    assert subprocess.run([sys.executable, "-c", blocked], check=False).returncode == 0
