"""A key with ``where`` is told what it would be told if no other document had ever been loaded.

Corpora are drawn. Each is loaded whole, and once more without the documents that a key may not see;
every answer of that key is compared with the answer of the second project, byte by byte, in every
endpoint.
"""

import asyncio
import csv
import io
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from pipeline.contract.conditions import holds
from pipeline.project import Project
from pipeline.query.request import as_operators
from pipeline.serve.mcp import http_app
from pipeline.serve.queries import Queries
from pipeline.serve.server import Server, address_of, listen
from tests.projects import ProjectFolder, new_project
from tests.serve.route_cases import (
    CASES,
    DEEDS,
    NAMES,
    THINGS,
    WHERE,
    Ids,
    compared,
    ids_of,
    questions,
    routes_of,
    send,
    steady,
)
from tests.serve.serving import in_thread, serving
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.sizes import size

CORPORA, VIEWS = size((3, 3), (20, 5))
"""Corpora that are drawn, and keys of each: one pair of projects is compared for each key."""
DOCUMENTS = 24


@dataclass(frozen=True)
class View:
    """What a key may see of the whole corpus, and the folder of a project of these documents
    alone."""

    where: Mapping[str, Any]
    folder: ProjectFolder


@dataclass(frozen=True)
class Corpus:
    folder: ProjectFolder
    views: Sequence[View]
    ids: Ids


def drawn_text(draw: random.Random) -> str:
    sentences = [
        f"{draw.choice(NAMES)} {draw.choice(DEEDS)} the {draw.choice(THINGS)} of"
        f" {draw.choice(NAMES)} and the {' '.join(draw.choices(THINGS, k=draw.randint(1, 4)))}."
        for _ in range(draw.randint(1, 5))
    ]
    # A text of many sentences has several text units.
    return " ".join(sentences) * draw.choice([1, 1, 1, 1, 12])


def drawn_rows(draw: random.Random) -> list[dict[str, Any]]:
    """Draw documents: some repeat the text of others, and their fields differ in kind or are
    missing."""
    rows: list[dict[str, Any]] = []
    for number in range(DOCUMENTS):
        text = draw.choice(rows)["text"] if rows and draw.random() < 0.3 else drawn_text(draw)
        row = {
            "id": f"id{number}",
            "title": f"{draw.choice(THINGS)} of {draw.choice(NAMES)}",
            "text": text,
        }
        fields = {
            "department": draw.choice(["sales", "public", "board", ["sales", "board"]]),
            "year": draw.choice([1840, 1870, 1870.5, "1871", "unknown", None]),
            "secret": draw.choice([True, False]),
            "pages": draw.choice([3, "three"]),
        }
        rows.append(row | {name: value for name, value in fields.items() if draw.random() < 0.8})
    return rows


def write(folder: ProjectFolder, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write two thirds of the documents as JSON Lines and the others as CSV, in which all values
    are texts."""
    lines = [json.dumps(row) + "\n" for row in rows if int(row["id"][2:]) % 3]
    folder.write("lines.jsonl", "".join(lines))
    table = io.StringIO()
    names = ["id", "title", "text", "department", "year", "secret"]
    writer = csv.DictWriter(table, names, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(row for row in rows if not int(row["id"][2:]) % 3)
    folder.write("table.csv", table.getvalue())


def visible_names(project: Project, where: Mapping[str, Any]) -> set[str]:
    """Return the ids, as the files have them, of the documents that satisfy the conditions."""
    conditions = as_operators(where)
    loaded = project.table("documents").itertuples()
    fields = [
        {**json.loads(row.metadata), "id": row.id, "title": row.title, "source": row.source}
        for row in loaded
    ]
    return {each["source"].rpartition("#")[2] for each in fields if holds(conditions, each)}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def small_limits() -> Iterator[None]:
    """Limits that a large corpus would meet: many documents are visible, and more texts have a word
    than are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.stores.postgres.conditions.FEW", 5)
        patch.setattr(
            "pipeline.stores.postgres.hnsw._needs_index", lambda live, rows, hnsw: rows > 0
        )
        for name, number in {"SAMPLE": 6, "FOLLOWED": 3, "LIKELY": 6, "CANDIDATES": 4}.items():
            patch.setattr(f"pipeline.stores.postgres.lexical.{name}", number)
        patch.setattr("pipeline.query.reading.PASSAGES", 5)
        patch.setattr("pipeline.serve.ui.documents.DOCUMENTS", 5)
        yield


@pytest.fixture(scope="module", params=range(CORPORA))
def corpus(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres_url: str
) -> Corpus:
    draw, number = random.Random(request.param), request.param
    root = tmp_path_factory.mktemp(f"rights{number}")
    stores = {
        "postgres": {"url": postgres_url, "hnsw": {"m": 2, "ef_construction": 4, "ef_search": 1}}
    }

    def loaded(name: str, rows: Sequence[Mapping[str, Any]]) -> ProjectFolder:
        folder = new_project(root / name, postgres_url, {}, stores=stores)
        write(folder, rows)
        with folder.open() as project:
            project.run("fast")
        return folder

    rows = drawn_rows(draw)
    folder, views = loaded("all", rows), []
    with folder.open() as project:
        # Each corpus begins with the condition after those of the last one.
        begin = number * VIEWS % len(WHERE)
        for where in (*WHERE[begin:], *WHERE[:begin]):
            visible = visible_names(project, where)
            if 0 < len(visible) < len(rows) and len(views) < VIEWS:
                views.append(
                    View(
                        where,
                        loaded(f"view{len(views)}", [row for row in rows if row["id"] in visible]),
                    )
                )
        ids = ids_of(project)
    assert len(views) == VIEWS
    if len(WHERE) == CORPORA * VIEWS:
        # No condition was passed over, so each of them is that of a key.
        assert [view.where for view in views] == list(WHERE[begin : begin + VIEWS])
    return Corpus(folder, views, ids)


FAILED = ("/oidc/",)
"""Routes that fail here for both, as the provider is none that answers; they read no document."""
REFUSED = (
    "/graph", "/ui/graph", "/runs", "/ui/runs", "/ui/pin", "/ui/correct", "/ui/run",
    "/ui/retry", "/corrections", "/v1/documents", "/v1/runs",
)  # fmt: skip
TOOLS = {
    "query_data": {
        "query", "mode", "chunk_top_k", "top_k", "max_total_tokens", "ll_keywords", "hl_keywords",
        "where",
    },
    "query": {"query", "mode", "chunk_top_k", "top_k", "where"},
}  # fmt: skip
"""Tool for assistants -> the arguments that are compared. A new tool or argument fails below until
it stands here."""
OIDC = {
    "issuer": "http://127.0.0.1:9",
    "client_id": "c",
    "client_secret": "s",
    "public_url": "http://127.0.0.1:9",
}


def opened(folder: ProjectFolder, view: View, endpoint: OpenAIServer, stack: ExitStack) -> Project:
    key = {"key": "k", "where": view.where, "modes": ["naive", "graph", "local", "bypass"]}
    settings = [
        f"models.chat.default.base_url={endpoint.base_url}",
        f"models.chat.default.api_key={endpoint.key}",
        f"serve.keys.reader={json.dumps(key)}", "serve.allow.cost_per_day=unlimited", "cache=''",
        f"serve.users.oidc={json.dumps(OIDC)}", f"serve.users.groups={json.dumps({'all': {}})}",
    ]  # fmt: skip
    return stack.enter_context(folder.open(*settings))


@pytest.mark.parametrize("number", range(VIEWS))
def test_every_answer_of_a_key_is_that_of_a_project_without_the_hidden_documents(
    corpus: Corpus, endpoint: OpenAIServer, number: int
):
    view, statuses = corpus.views[number], dict[tuple[str, str], set[int]]()
    with ExitStack() as stack:
        clients = []
        for folder in (corpus.folder, view.folder):
            project = opened(folder, view, endpoint, stack)
            served = stack.enter_context(serving(project))
            assert routes_of(served.api.app) == set(CASES)
            client = stack.enter_context(httpx2.Client(base_url=served.url, timeout=60))
            clients.append((client, project.settings.workspace))
        for route, requests in CASES.items():
            for ask in requests(random.Random(number), corpus.ids):
                [whole, alone] = [
                    compared(send(client, ask), workspace) for client, workspace in clients
                ]
                assert whole == alone, ask
                statuses.setdefault(route, set()).add(whole[0])
    refused = {path for (_, path), found in statuses.items() if found == {403}}
    assert refused == {path for _, path in CASES if path.startswith(REFUSED)}
    answered = {path for (_, path), found in statuses.items() if found & {200, 303}}
    failed = {path for _, path in CASES if path.startswith(FAILED)}
    assert answered | refused | failed == {path for _, path in CASES}


def told_by_tools(project: Project, number: int) -> list[Any]:
    """Return the list of tools, and what each of them answers to drawn questions."""

    async def talk(url: str) -> list[Any]:
        http = httpx2.AsyncClient(headers={"X-API-Key": "k"}, timeout=60)
        async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name: set(tool.input_schema["properties"]) for tool in tools} == TOOLS
            results: list[Any] = [tools]
            for tool, arguments in TOOLS.items():
                for question in questions(random.Random(number)):
                    given = {name: value for name, value in question.items() if name in arguments}
                    results.append(await client.call_tool(tool, given))
            return results

    with listen("127.0.0.1", 0) as listening:
        queries = Queries(project.settings.serve)
        server = Server(
            http_app(project, queries, any_host=False), project.settings.serve, queries.end
        )
        with in_thread(server, listening):
            results = asyncio.run(talk(address_of(listening)))
        asyncio.run(queries.close())
    return results


def test_every_answer_of_a_tool_is_that_of_a_project_without_the_hidden_documents(
    corpus: Corpus, endpoint: OpenAIServer
):
    for number, view in enumerate(corpus.views[:2]):
        with ExitStack() as stack:
            projects = [
                opened(folder, view, endpoint, stack) for folder in (corpus.folder, view.folder)
            ]
            told = [
                [
                    steady(str(result), project.settings.workspace)
                    for result in told_by_tools(project, number)
                ]
                for project in projects
            ]
        assert told[0] == told[1]
        assert any("is_error=False" in result for result in told[0])
