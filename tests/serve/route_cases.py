"""Requests that reach all of every route of a server, and how two answers are compared."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Route

from pipeline.project import Project
from pipeline.serve.ui.assets import read_assets
from pipeline.settings.query_fields import PASSAGE_MODES, SHARED_DATA_MODES
from tests.sizes import size

QUESTIONS = size(2, 20)
NAMES = [
    "Mira Vale",
    "Anselm Torr",
    "Governor Pell",
    "Idra Senn",
    "Kessary Bank",
    "Project Nightingale",
    "灯塔",
]
THINGS = [
    "harbour",
    "lighthouse",
    "ledger",
    "takeover",
    "lens",
    "quay",
    "sea",
    "lanterns",
    "puppies",
]
DEEDS = ["built", "sold", "inspected", "dismissed", "paid for", "wrote of"]
WHERE: Sequence[Mapping[str, Any]] = [
    {"secret": False},
    {"department": ["sales", "public"]},
    {"department": {"!=": "board"}},
    {"department": "public", "secret": {"!=": True}},
    {"year": {">=": 1870}},
    {"year": {"exists": False}},
    {"title": {"matches": "*of M*"}},
    {"source": {"matches": "table.csv#*"}},
    {"id": {"matches": "*[0-7]"}},
]
CHANGES = [
    (r'"timings_ms": ?\{[^}]*\}', '"timings_ms"'),
    (r'"question_id": ?"[^"]*"', '"question_id"'),
    (r'"(run|began)": ?"[^"]*"', r'"\1"'),
    (r'"id": ?"chatcmpl-[^"]*"', '"id"'),
    (r'"created": ?[0-9]+', '"created"'),
    (r"'question_id': '[^']*'", "'question_id'"),
]
"""Parts of an answer that differ between two answers to the same question: times and ids of
questions and runs."""
TASK = {
    "role": "user",
    "content": (
        '### Task:\nGenerate a title.\n### Output:\nJSON format: { "title": "..." }\n### Chat'
        " History:\n<chat_history>\nUSER: Who sold the ledger?\n</chat_history>"
    ),
}
"""A chat front end's request for a title."""
UNSTEADY_HEADERS = {"date", "content-length", "set-cookie"}


@dataclass(frozen=True)
class Ask:
    """One request; ``key`` says whether it is sent with the key, in a header."""

    method: str
    path: str
    body: Any = None
    form: Mapping[str, str] | None = None
    accept: str = "application/json"
    key: bool = True


@dataclass(frozen=True)
class Ids:
    """Ids of all that the whole corpus has, hidden and visible."""

    documents: Sequence[str]
    text_units: Sequence[str]
    entities: Sequence[str]
    relationships: Sequence[str]
    runs: Sequence[str]


def ids_of(project: Project) -> Ids:
    """Return all ids of the project."""
    tables = ("documents", "text_units", "entities", "relationships")
    return Ids(*(list(project.table(name)["id"]) for name in tables), project.runs.known_ids())


def questions(draw: random.Random) -> list[dict[str, Any]]:
    """Draw questions, with options that change what is found or shown; one is in a mode that is
    refused."""
    found: list[dict[str, Any]] = [
        {"query": "Mira Vale", "mode": draw.choice(sorted(SHARED_DATA_MODES))}
    ]
    for _ in range(QUESTIONS):
        words = [draw.choice(NAMES), draw.choice(THINGS), draw.choice(DEEDS), "xyzzy"]
        wishes = {
            "mode": draw.choice([*PASSAGE_MODES, "bypass"]),
            "where": draw.choice(WHERE),
            "top_k": draw.choice([1, 60]),
            "chunk_top_k": draw.choice([1, 3, 20]),
            "max_total_tokens": draw.choice([700, 1500, 4000]),
            "ll_keywords": [draw.choice(NAMES)],
            "hl_keywords": [draw.choice(THINGS)],
            "min_score": draw.choice([0.1, 0.4, 0.9]),
            "include_chunk_content": True,
            "only_need_prompt": True,
            "only_need_context": True,
            "context": "graphrag",
            "kg_chunk_pick_method": draw.choice(["RELATION", "WEIGHT", "VECTOR"]),
            "conversation_history": [
                {"role": "user", "content": f"Tell me of {draw.choice(NAMES)}"},
                {"role": "assistant", "content": f"It is about the {draw.choice(THINGS)}."},
            ],
        }
        chosen = draw.sample(sorted(wishes), draw.randint(0, 5))
        query = " ".join(draw.sample(words, draw.randint(1, 4)))
        found.append({"query": query, **{name: wishes[name] for name in chosen}})
    return found


def asked(path: str) -> Callable[[random.Random, Ids], list[Ask]]:
    return lambda draw, ids: [Ask("POST", path, one) for one in questions(draw)]


def looked(*paths: str, accept: str = "text/html") -> Callable[[random.Random, Ids], list[Ask]]:
    return lambda draw, ids: [Ask("GET", path, accept=accept) for path in paths]


def posted(path: str, *bodies: Mapping[str, Any]) -> Callable[[random.Random, Ids], list[Ask]]:
    return lambda draw, ids: [Ask("POST", path, body) for body in bodies]


def chats(draw: random.Random, ids: Ids) -> list[Ask]:
    """Questions as chat clients ask them, in the caller's own workspace, and a task of one."""
    asks = [Ask("POST", "/v1/chat/completions", {"model": "none", "messages": [TASK]})]
    asks.append(Ask("POST", "/v1/chat/completions", {"messages": [TASK]}))
    for place, question in enumerate(questions(draw)):
        messages = [
            {"role": "system", "content": "Be brief."},
            *question.get("conversation_history", []),
            {"role": "user", "content": question["query"]},
        ]
        mode = question.get("mode", PASSAGE_MODES[0])
        body = {"model": f":{mode}", "messages": messages, "stream": place % 2 == 0}
        asks.append(Ask("POST", "/v1/chat/completions", body))
    return asks


def listings(draw: random.Random, ids: Ids) -> list[Ask]:
    words = draw.sample(
        [*NAMES, *THINGS, "e", "id1", "Mira Vale sold the ledger", "takeover quay"], 5
    )
    texts = [{"q": word, "in": "texts"} for word in words]
    names = [{"q": word, "in": "names"} for word in words[:2]]
    pages = [{"page": str(page)} for page in (1, 2, 9)]
    lines = [
        {"where": line}
        for line in draw.sample(["secret=true", "department=board", "year>=0", "secret"], 2)
    ]
    both = [
        {"q": "Mira Vale", "in": within, "where": "secret!=true"} for within in ("texts", "names")
    ]
    return [
        Ask("GET", f"/documents?{httpx2.QueryParams(each)}", accept="text/html")
        for each in [*texts, *names, *pages, *lines, *both]
    ]


def documents(draw: random.Random, ids: Ids) -> list[Ask]:
    more = ["", "?page=2", f"?at={ids.text_units[0]}"]
    opened = [f"/documents/{id}{draw.choice(more)}" for id in ids.documents]
    return [Ask("GET", path, accept="text/html") for path in [*opened, "/documents/none"]]


def passages(draw: random.Random, ids: Ids) -> list[Ask]:
    return [Ask("GET", f"/ui/passage?unit={id}") for id in [*ids.text_units, "none"]]


def of_ids(
    path: str, ids_of: Callable[[Ids], Sequence[str]]
) -> Callable[[random.Random, Ids], list[Ask]]:
    return lambda draw, ids: [Ask("GET", path.format(id)) for id in [*ids_of(ids)[:1], "none"]]


def signed_in(draw: random.Random, ids: Ids) -> list[Ask]:
    forms = [{"key": key, "next": "documents"} for key in ("k", "wrong")]
    return [Ask("POST", "/login", form=form, accept="text/html", key=False) for form in forms]


CASES: Mapping[tuple[str, str], Callable[[random.Random, Ids], list[Ask]]] = {
    ("POST", "/query"): asked("/query"),
    ("POST", "/query/data"): asked("/query/data"),
    ("POST", "/query/stream"): lambda draw, ids: [
        Ask("POST", f"/query/stream{evidence}", one)
        for one, evidence in zip(questions(draw), 99 * ["", "?include=evidence"], strict=False)
    ],
    ("GET", "/health"): looked("/health"),
    ("GET", "/openapi.json"): looked("/openapi.json"),
    ("GET", "/docs"): looked("/docs"),
    ("GET", "/"): looked("/"),
    ("GET", "/ui/state"): looked("/ui/state", accept="application/json"),
    ("GET", "/ui/passage"): passages,
    ("GET", "/documents"): listings,
    ("GET", "/documents/{id}"): documents,
    ("GET", "/graph"): looked("/graph"),
    ("GET", "/ui/graph"): lambda draw, ids: [
        Ask("GET", f"/ui/graph{more}")
        for more in (
            "",
            f"?entity={ids.entities[0]}",
            f"?document={ids.documents[0]}",
            "?community=0",
            "?limit=x",
        )
    ],
    ("POST", "/ui/graph/find"): posted(
        "/ui/graph/find", {"text": "Mira"}, {"text": "takeover", "by": "meaning"}, {"none": 1}
    ),
    ("POST", "/ui/graph/documents"): posted("/ui/graph/documents", {"text": "e"}, {"text": ""}),
    ("GET", "/ui/graph/entity"): of_ids("/ui/graph/entity?id={}", lambda ids: ids.entities),
    ("GET", "/ui/graph/relationship"): of_ids(
        "/ui/graph/relationship?id={}", lambda ids: ids.relationships
    ),
    ("GET", "/runs"): looked("/runs", "/runs?page=2"),
    ("GET", "/runs/plan"): looked("/runs/plan"),
    ("GET", "/runs/{run}"): of_ids("/runs/{}", lambda ids: ids.runs),
    ("GET", "/ui/runs/{run}"): of_ids("/ui/runs/{}", lambda ids: ids.runs),
    ("POST", "/ui/pin"): posted(
        "/ui/pin", {"decision": "same", "a": "Mira Vale", "b": "Idra Senn"}, {}
    ),
    ("GET", "/corrections"): looked("/corrections"),
    ("GET", "/ui/corrections"): looked("/ui/corrections"),
    ("GET", "/ui/corrections/suspects"): looked("/ui/corrections/suspects"),
    ("GET", "/ui/corrections/said"): looked(
        "/ui/corrections/said?entity=Mira%20Vale",
        "/ui/corrections/said?entity=Mira%20Vale&target=Idra%20Senn",
    ),
    ("POST", "/ui/corrections/apply"): posted("/ui/corrections/apply", {}, {"none": 1}),
    ("POST", "/ui/correct"): posted(
        "/ui/correct", {"kind": "delete_entity", "entity": "Mira Vale"}, {"kind": "none"}
    ),
    ("POST", "/ui/correct/undo"): posted("/ui/correct/undo", {"id": "0"}, {}),
    ("POST", "/ui/run"): posted("/ui/run", {}, {"max_cost": -1}),
    ("POST", "/ui/retry"): posted("/ui/retry", {"workflow": "fast"}, {}),
    ("GET", "/v1/documents"): looked("/v1/documents", accept="application/json"),
    ("GET", "/v1/documents/{id}"): looked("/v1/documents/harbour.txt", accept="application/json"),
    ("POST", "/v1/documents"): posted("/v1/documents", {"documents": [{"text": "t"}]}, {}),
    ("PUT", "/v1/documents/{id}"): lambda draw, ids: [Ask("PUT", "/v1/documents/a", {"text": "t"})],
    ("DELETE", "/v1/documents/{id}"): lambda draw, ids: [Ask("DELETE", "/v1/documents/a")],
    ("POST", "/v1/runs"): posted("/v1/runs", {}, {"max_cost": 1}),
    ("GET", "/v1/runs/{id}"): looked("/v1/runs/none", accept="application/json"),
    ("GET", "/v1/models"): looked("/v1/models", "/v1/models?modes=true", accept="application/json"),
    ("POST", "/v1/chat/completions"): chats,
    ("GET", "/login"): looked("/login?next=documents"),
    ("POST", "/login"): signed_in,
    ("POST", "/logout"): posted("/logout", {}),
    ("GET", "/session"): looked("/session"),
    ("GET", "/oidc/login"): looked("/oidc/login?next=documents"),
    ("GET", "/oidc/callback"): looked("/oidc/callback?code=1&state=2"),
    ("GET", "/assets/{version}/{name:path}"): looked(
        f"/{read_assets().folder}shell.js", "/assets/none/none"
    ),
}
"""Route -> the requests that are compared. A new route fails the tests until it has requests that
reach all of it."""


def routes_of(app: Any) -> set[tuple[str, str]]:
    while not isinstance(app, FastAPI):
        app = app.app
    routers = [getattr(one, "original_router", None) for one in app.routes]
    routes: list[BaseRoute] = [
        *app.routes,
        *(route for router in routers if router for route in router.routes),
    ]
    found = set()
    for route in routes:
        assert isinstance(route, Route | APIRoute) or hasattr(route, "original_router"), (
            f"a new kind: {route}"
        )
        methods = getattr(route, "methods", None) or ()
        found |= {(method, route.path) for method in methods if method != "HEAD"}
    return found


def steady(text: str, workspace: str) -> str:
    """Return an answer without what differs between any two answers, and between two projects of
    any content."""
    text = text.replace(workspace, "WORKSPACE")
    for pattern, instead in CHANGES:
        text = re.sub(pattern, instead, text)
    return text


def compared(answer: httpx2.Response, workspace: str) -> tuple[int, dict[str, str], str]:
    headers = {
        name: value for name, value in answer.headers.items() if name not in UNSTEADY_HEADERS
    }
    return answer.status_code, headers, steady(answer.text, workspace)


def send(client: httpx2.Client, ask: Ask, key: str = "k") -> httpx2.Response:
    headers = {"Accept": ask.accept, "Sec-Fetch-Site": "same-origin"}
    if ask.key:
        headers["X-API-Key"] = key
    return client.request(ask.method, ask.path, json=ask.body, data=ask.form, headers=headers)
