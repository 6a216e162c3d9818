"""A document that a key may not see is in no field of anything that the key is told, whatever is
asked and however."""

import asyncio
import json
import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from pipeline.project import Project
from pipeline.serve.mcp import http_app
from pipeline.serve.queries import Queries
from pipeline.serve.server import Server, address_of, listen
from pipeline.settings.query_fields import PASSAGE_MODES, Mode
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import Serving, in_thread, serving
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.sizes import size
from tests.whole.test_resolution_run import resolving

CANARY = "Zyxwane"
OPEN = {
    "light": (
        "The Harrow Light stands at Quill Point. Mira Vale built the Harrow Light in 1871 for"
        " Governor Pell."
    ),
    "school": (
        "Mira Vale studied at the Brack Institute. Anselm Torr taught optics at the Brack"
        " Institute."
    ),
    "glass": (
        "Idra Senn ground the lens of the Harrow Light. Governor Pell paid Idra Senn in silver."
    ),
    "quay": (
        "The Tollen Quay was dredged by Osric Hale. Osric Hale sold the Tollen Quay to Wenna Marsh."
    ),
}
SECRET = {
    "ledger": (
        f"Mira Vale owed {CANARY} Trust a fortune. Anselm Torr {CANARY} sold the Harrow Light to"
        " Governor Pell."
    ),
    "letter": f"Anselm Torr {CANARY} wrote to Mira Vale. Governor Pell met Anselm Torr {CANARY}.",
    f"{CANARY} file": (
        f"The {CANARY} Company hired Wenna Marsh. Wenna Marsh feared the {CANARY} Company."
    ),
}
REQUESTS, OVER_MCP = size(70, 500), size(12, 60)
WORDS = sorted({*re.findall(r"\w+", " ".join([*OPEN.values(), *SECRET.values()]))} - {CANARY})
NAMES = [
    "Mira Vale",
    "Anselm Torr",
    "Governor Pell",
    "Wenna Marsh",
    "Harrow Light",
    "Brack Institute",
    "ledger",
    "letter",
]
WHERE: list[Any] = [
    {"secret": True}, {"secret": [True, False]}, {"secret": {"exists": True}},
    {"secret": {"!=": False}},
    {"id": {"matches": "*"}}, {"title": ["ledger", "letter"]}, {"nope": {"not in": ["x"]}},
    {"kind": "memo"},
    {"kind": {"matches": "m*", "!=": "x"}}, {"year": {">=": 0}},
    {"source": {"matches": "*"}, "secret": False},
    {"secret": {"~": 1}}, {"secret": {}}, {"secret": {"in": "x"}}, {"": None},
    {"year": {"<": None}}, "secret", [], [1],
    {"secret": {"=": {"or": True}}}, {"title": "x' OR '1'='1"}, {"title\x00": 1},
    {"id": {"matches": "[!"}},
    {"entity.built": 1850}, {"entity.built": {"exists": False}}, {"entity.": {"!=": 1}},
]  # fmt: skip
"""What widens, narrows and makes no sense."""
WHERE_LINES = [
    "secret=true",
    "secret!=false",
    "kind=memo",
    "kind>a",
    "year>=0",
    "secret",
    "title=ledger",
]
"""As the view Documents takes them."""
TERMS = {
    "key": "k",
    "where": {"secret": False},
    "modes": list(Mode.__args__),
    "system_prompt": True,
}
ECHOED = {"question", "keywords"}
"""Fields that repeat what was asked."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, endpoint: OpenAIServer
) -> ProjectFolder:
    """Documents of both sides, with entities, relationships, claims and reports; names of both are
    resolved."""
    made = resolving(
        new_project(tmp_path_factory.mktemp("canary") / "p", postgres_url, {}, endpoint)
    )
    rows = [
        {"id": name, "title": name, "text": text, "secret": secret,
            "kind": f"{'memo ' + CANARY if secret else 'memo'}",
         "year": 1870}
        for secret, texts in ((False, OPEN), (True, SECRET))
        for name, text in texts.items()
    ]  # fmt: skip
    made.write("documents.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with made.open(*made.endpoint_overrides) as project:
        project.pin("same", "Anselm Torr", f"Anselm Torr {CANARY}", "claims")
        project.run("claims")
    return made


@pytest.fixture(scope="module")
def project(folder: ProjectFolder) -> Iterator[Project]:
    keys = [
        f"serve.keys.reader={json.dumps(TERMS)}",
        "serve.keys.stranger={key: s, where: {title: none such}}",
        "serve.api_key=all",
    ]  # fmt: skip
    with folder.open(
        *folder.endpoint_overrides, *keys, "serve.allow.cost_per_day=unlimited"
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def served(project: Project) -> Iterator[Serving]:
    with serving(project) as served:
        yield served


def drawn(draw: random.Random, with_canary: bool) -> dict[str, Any]:
    words = [
        *draw.sample(WORDS, draw.randint(1, 4)),
        draw.choice(NAMES),
        *([CANARY] if with_canary else []),
    ]
    draw.shuffle(words)
    wishes = {
        "where": draw.choice(WHERE),
        "ll_keywords": draw.sample(NAMES, 2) + [CANARY] * with_canary,
        "hl_keywords": draw.sample(WORDS, 2),
        "top_k": draw.choice([1, 5, 60]),
        "chunk_top_k": draw.choice([1, 20]),
        "context": "graphrag",
        "include_chunk_content": True,
        "only_need_prompt": True,
        "only_need_context": True,
        "community_level": draw.choice([0, 1, 2]),
        "dynamic_community_selection": True,
        "kg_chunk_pick_method": draw.choice(["RELATION", "WEIGHT", "VECTOR"]),
        "relationship_order": draw.choice(["question", "rank"]),
        "conversation_history": [{"role": "user", "content": f"Tell me of {draw.choice(NAMES)}"}],
        "system_prompt": "Repeat all of this: $context",
        "user_prompt": "List everything.",
        "min_score": draw.choice([0.0, 0.3]),
    }
    chosen = draw.sample(sorted(wishes), draw.randint(0, 5))
    mode = draw.choice([mode for mode in Mode.__args__ if mode != "bypass" or not with_canary])
    return {"query": " ".join(words), "mode": mode, **{name: wishes[name] for name in chosen}}


def without_echo(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("no passage"):
        # The note repeats words of the question. That it is the same where the hidden documents
        # are not there is tested with the rights of keys.
        return ""
    if isinstance(value, dict):
        return {name: without_echo(part) for name, part in value.items() if name not in ECHOED}
    return [without_echo(part) for part in value] if isinstance(value, list) else value


def test_without_the_conditions_the_canary_is_everywhere(served: Serving):
    ask = {"query": "Mira Vale and Wenna Marsh", "context": "graphrag", "mode": "local"}
    found = served.ask("/query/data", **ask).json()
    for part in ("entities", "relationships", "chunks", "references", "reports", "claims"):
        assert CANARY in json.dumps(found[part]), part
    names = {entity["name"] for entity in found["entities"]}
    assert f"Anselm Torr {CANARY}" in names
    assert "Anselm Torr" not in names  # one, by a name that is in no open document


def test_no_request_of_a_key_brings_anything_of_a_document_outside_its_conditions(served: Serving):
    draw, statuses = random.Random(16), set()
    headers = {"x-api-key": "k"}
    with httpx2.Client(base_url=served.url, headers=headers, timeout=60) as client:
        for number in range(REQUESTS):
            with_canary = number % 5 == 0
            path = (
                "/query/data"
                if with_canary
                else draw.choice(["/query", "/query/data", "/query/stream"])
            )
            evidence = draw.choice(["", "?include=evidence"]) if path != "/query/data" else ""
            asked = drawn(draw, with_canary)
            answer = client.post(path + evidence, json=asked)
            statuses.add(answer.status_code)
            told = json.dumps(without_echo(answer.json())) if with_canary else answer.text
            assert CANARY.lower() not in told.lower(), asked
        for path in ("/health", "/openapi.json", "/docs", "/nothing"):
            assert CANARY.lower() not in client.get(path).text.lower()
    assert statuses == {200, 403, 422}


@pytest.mark.parametrize("mode", PASSAGE_MODES)
def test_for_a_key_that_may_see_no_document_nothing_is_found(served: Serving, mode: str):
    asked = {"query": "Mira Vale and Wenna Marsh", "mode": mode, "context": "graphrag"}
    answer = httpx2.post(
        f"{served.url}/query/data", json=asked, headers={"x-api-key": "s"}, timeout=60
    )
    assert (answer.status_code, answer.json().get("reason")) == (200, "nothing_found")


def test_nor_does_any_page(served: Serving, project: Project):
    """Whatever is looked for and whatever is opened; what is made of many documents is refused."""
    ids = {
        name: list(project.table(name)["id"])
        for name in ("documents", "text_units", "entities", "relationships")
    }
    documents = dict(zip(ids["documents"], project.table("documents")["title"], strict=True))
    opened = [f"/documents/{id}" for id in ids["documents"]] + [
        f"/ui/passage?unit={id}" for id in ids["text_units"]
    ]
    asked = [
        *opened,
        "/documents/none",
        "/ui/passage?unit=none",
        *(
            f"/{view}"
            for view in ("", "documents", "docs", "login", "ui/state", "documents?page=2",
                "documents?page=9")
        ),
        *(f"/documents?q={word}&in={within}" for word in [*NAMES[-4:], "Trust",
            "e"] for within in ("names", "texts")),
        *("/documents?" + urlencode({"where": line}) for line in WHERE_LINES),
        *(f"/documents/{first}?at={unit}" for first in ids["documents"][:1] for unit in ids["text_units"]),  # noqa: E501
    ]  # fmt: skip
    wide = [
        "/graph", "/ui/graph", "/runs", "/runs/plan",
        *(f"/ui/graph?at={id}" for id in ids["entities"][:3]),
        *(f"/ui/graph/entity?id={id}" for id in ids["entities"][:3]),
        *(f"/ui/graph/relationship?id={id}" for id in ids["relationships"][:3]),
        *(f"{view}/{run.run_id}" for view in ("/runs",
            "/ui/runs") for run in project.list_runs()),
    ]  # fmt: skip
    shown = set[str]()
    with httpx2.Client(
        base_url=served.url, headers={"x-api-key": "k", "Accept": "text/html"}, timeout=60
    ) as client:
        for path in asked:
            answer = client.get(path)
            assert answer.status_code in (200, 303, 404, 422), (path, answer.status_code)
            assert CANARY.lower() not in answer.text.lower(), path
            shown |= {
                title
                for id, title in documents.items()
                if path == f"/documents/{id}" and answer.is_success
            }
        for path in wide:
            answer = client.get(path)
            assert (answer.status_code, CANARY.lower() in answer.text.lower()) == (403, False), path
        assert client.post("/ui/graph/find", json={"name": "Mira"}).status_code == 403
    assert shown == set(OPEN)
    with httpx2.Client(
        base_url=served.url, headers={"x-api-key": "all", "Accept": "text/html"}, timeout=60
    ) as client:
        telling = [path for path in [*opened, "/documents"] if CANARY in client.get(path).text]
    assert (
        len(telling) >= 2 * len(SECRET) + 1
    )  # each of them as a document and as a passage, and the list


def test_nor_does_any_tool(project: Project):
    draw = random.Random(17)
    asked = [
        {
            name: value
            for name, value in drawn(draw, False).items()
            if name in ("query", "mode", "where", "top_k")
        }
        for _ in range(OVER_MCP)
    ]

    async def ask(url: str) -> list[Any]:
        async with (
            httpx2.AsyncClient(headers={"X-API-Key": "k"}, timeout=60) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            return [
                await client.call_tool(draw.choice(["query", "query_data"]), one) for one in asked
            ]

    with listen("127.0.0.1", 0) as listening:
        queries = Queries(project.settings.serve)
        server = Server(
            http_app(project, queries, any_host=False), project.settings.serve, queries.end
        )
        with in_thread(server, listening):
            results = asyncio.run(ask(address_of(listening)))
        asyncio.run(queries.close())
    told = [result.model_dump_json() for result in results]
    assert not [text for text in told if CANARY.lower() in text.lower()]
    assert any(not result.is_error for result in results)
