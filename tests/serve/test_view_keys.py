"""A key of a view is answered, everywhere, as a key of a project that has the documents of the view
alone; and it reaches no other workspace."""

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pipeline.errors import SettingsError
from pipeline.project import Project
from pipeline.serve.access import access_list_of
from pipeline.serve.mcp import http_app
from pipeline.serve.queries import Queries
from pipeline.serve.server import Server, address_of, listen
from pipeline.settings.query_fields import Mode
from tests.projects import NO_STORE, new_project, workspace_of
from tests.serve.route_cases import CASES, Ids, compared, ids_of, routes_of, send
from tests.serve.serving import in_thread, serving
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.sizes import size
from tests.whole.test_views import CANARY, NAMES, VIEW, changed, first_rows, put

KEY, CONTROL = "k" * 20, "c" * 20
QUESTIONS = size(3, 20)
MODES = [mode for mode in Mode.__args__ if mode != "bypass"]
SERVE: dict[str, Any] = {
    "views": {VIEW: {"where": {"secret": False}}},
    "keys": {"reader": {"key": KEY, "view": VIEW, "modes": MODES}},
    "allow": {"cost_per_day": "unlimited"},
}
OF_TOOLS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
}
"""Headers of a request for a tool; other requests may have them too."""
FOR_ALL_DOCUMENTS = (
    "/v1/documents",
    "/v1/runs",
    "/runs",
    "/ui/runs",
    "/ui/pin",
    "/ui/correct",
    "/ui/run",
    "/ui/retry",
    "/corrections",
)
"""Routes that are only for keys of the whole project."""
TIMES = {"timings_ms", "question_id", "seconds", "began"}
"""Fields that no two requests have in common."""


@dataclass(frozen=True)
class Pair:
    """Who asks by the key of the view, and who asks the project that has its documents alone."""

    view: httpx2.Client
    alone: httpx2.Client
    workspaces: tuple[str, str]
    ids: Ids
    hidden: list[str]
    routes: set[tuple[str, str]]
    tools_url: str

    def told_by_tool(self, name: str, **arguments: Any) -> list[Any]:
        """What both are told by a tool for assistants."""
        return self.told(
            f"{self.tools_url}/mcp",
            jsonrpc="2.0",
            id=1,
            method="tools/call",
            params={"name": name, "arguments": arguments},
        )

    def told(self, path: str, **asked: Any) -> list[Any]:
        """What both are told, but for the times and the names of their workspaces."""
        answers = []
        for client, workspace in zip((self.view, self.alone), self.workspaces, strict=True):
            answer = client.post(path, json=asked) if asked else client.get(path)
            text = answer.text.replace(workspace, "WORKSPACE").replace("control", "reader")
            body = (
                without_times(json.loads(text))
                if "json" in answer.headers["content-type"]
                else text
            )
            answers.append((answer.status_code, body))
        return answers


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(part) for name, part in value.items() if name not in TIMES}
    return [without_times(part) for part in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, endpoint: OpenAIServer
) -> Iterator[Pair]:
    """After two nights of the project, and one of the other, whose workspace a second key of the
    same server asks."""
    root = tmp_path_factory.mktemp("views")
    single = new_project(root / "alone", postgres_url, {}, endpoint, max_reject_ratio=1)
    of_single = workspace_of(single.root)
    keys = {**SERVE["keys"], "control": {"key": CONTROL, "workspace": of_single, "modes": MODES}}
    serve = {**SERVE, "keys": keys}
    folder = new_project(root / "p", postgres_url, {}, endpoint, serve=serve, max_reject_ratio=1)
    first = first_rows(7)
    rows = changed(random.Random(7), first)
    put(single, rows, only_open=True)
    with single.open(*single.endpoint_overrides) as alone:
        alone.run("index")
    for night in (first, rows):
        put(folder, night)
        with folder.open(*folder.endpoint_overrides) as project:
            project.run("index")
    with folder.open(*folder.endpoint_overrides, "cache=''") as project, serving(project) as served:
        view, control = (
            httpx2.Client(base_url=served.url, headers={"x-api-key": key, **OF_TOOLS}, timeout=60)
            for key in (KEY, CONTROL)
        )
        hidden = hidden_ids(project)
        assert hidden
        workspaces = (project.settings.of_view(VIEW).workspace, of_single)
        ids = ids_of(project)
        routes = routes_of(served.api.app)
        with view, control, tools_of(project) as tools_url:
            yield Pair(view, control, workspaces, ids, hidden, routes, tools_url)


@contextmanager
def tools_of(project: Project) -> Iterator[str]:
    """Serve the tools for assistants over HTTP, and yield the address."""
    settings = project.settings.serve
    queries = Queries(settings)
    with listen("127.0.0.1", 0) as listening:
        app = http_app(project, queries, any_host=False)
        with in_thread(Server(app, settings, queries.end), listening):
            yield address_of(listening)
    asyncio.run(queries.close())


def hidden_ids(project: Project) -> list[str]:
    """Ids of documents, text units and entities that the view does not have."""
    tables = ("documents", "text_units", "entities")
    return [
        id
        for name in tables
        for id in sorted({*project.table(name)["id"]} - {*project.table(f"{name}@{VIEW}")["id"]})
    ]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_answers_as_the_project_of_these_documents_alone(pair: Pair, mode: str):
    draw = random.Random(mode)
    found = 0
    for _ in range(QUESTIONS):
        names = draw.sample([*NAMES, f"{CANARY} Trust"], 2)
        asked = {
            "query": f"What have {names[0]} and {names[1]} to do with each other?",
            "mode": mode,
        }
        for path in ("/query/data", "/query", "/query?include=evidence"):
            view, alone = pair.told(path, **asked)
            assert view == alone, asked
            found += len(view[1].get("chunks") or ())
        view, alone = pair.told(
            "/query/data", **asked, where={"title": {"matches": "*e*"}}, top_k=3
        )
        assert view == alone
    assert found or mode in ("community", "drift")  # which need reports, and no view has any


@pytest.mark.parametrize("mode", ["naive", "graph", "hybrid"])
@pytest.mark.parametrize("tool", ["query_data", "query"])
def test_tools_answer_as_the_project_of_these_documents_alone(pair: Pair, tool: str, mode: str):
    for question in (f"Who is {NAMES[0]}?", f"What has {CANARY} Trust to do with {NAMES[1]}?"):
        view, alone = pair.told_by_tool(tool, query=question, mode=mode)
        assert view == alone
        result = view[1]["result"]
        assert not result.get("isError")
        assert result["structuredContent"]["references"]
        assert not [id for id in pair.hidden if id in json.dumps(result)]


def test_every_page_shows_what_that_project_shows(pair: Pair):
    listed = pair.told("/documents")
    assert listed[0] == listed[1]
    assert CANARY not in listed[0][1]
    entities = pair.told("/query/data", query="Mira Vale", mode="local", only_need_context=True)[0][
        1
    ]["entities"]
    assert entities
    for path in (
        "/ui/graph", "/ui/graph?limit=3", f"/ui/graph?entity={entities[0]['id']}",
        f"/ui/graph/entity?id={entities[0]['id']}",
        *(f"/documents?q={word}&in={within}" for word in ("Mira", CANARY,
            "e") for within in ("names", "texts")),
        "/documents?where=secret=true", "/documents/none", "/ui/passage?unit=none",
    ):  # fmt: skip
        view, alone = pair.told(path)
        assert view == alone, path
    for by in ("name", "meaning"):
        view, alone = pair.told("/ui/graph/find", text="Mira", by=by)
        assert view == alone
        assert (view[0], bool(view[1]["entities"])) == (200, True)


def test_every_route_answers_as_the_project_of_these_documents_alone(pair: Pair):
    # The settings name no provider of OpenID Connect, so its routes do not exist here.
    cases = {route: asks for route, asks in CASES.items() if not route[1].startswith("/oidc/")}
    assert pair.routes == set(cases)
    answered = set[str]()
    for (_, route), requests in cases.items():
        for ask in requests(random.Random(route), pair.ids):
            told = []
            callers = ((pair.view, KEY), (pair.alone, CONTROL))
            for (client, key), workspace in zip(callers, pair.workspaces, strict=True):
                status, headers, text = compared(send(client, ask, key), workspace)
                text = text.replace("control", "reader").replace(f"index@{VIEW}", "index")
                told.append((status, headers, text))
            assert told[0] == told[1], ask
            if told[0][0] == 200:
                answered.add(route)
    # A session is needed to sign out, and the keys "k" and "wrong" are none here.
    refused = {route for _, route in cases if route.startswith(FOR_ALL_DOCUMENTS)}
    assert {route for _, route in cases} - answered == {*refused, "/login", "/logout"}


def test_nothing_reaches_another_workspace(pair: Pair):
    home = pair.workspaces[0].removesuffix(f"--{VIEW}")
    for workspace in (home, "default", pair.workspaces[1]):
        assert (
            pair.view.post(f"/w/{workspace}/query/data", json={"query": "Mira Vale"}).status_code
            == 404
        )
        assert pair.view.get(f"/w/{workspace}/documents").status_code == 404
    own = pair.view.post(f"/w/{pair.workspaces[0]}/query/data", json={"query": "Mira Vale"})
    assert own.status_code == 200
    for id in pair.hidden:
        for path in (f"/documents/{id}", f"/ui/passage?unit={id}", f"/ui/graph/entity?id={id}"):
            answer = pair.view.get(path)
            assert answer.status_code in (404, 422), path
            assert CANARY not in answer.text
    for path in ("/runs", "/runs/plan", "/ui/runs"):
        assert pair.view.get(path).status_code in (403, 404), path
    state = pair.view.get("/ui/state").json()
    assert (state["workspace"], state["workspaces"], state["editor"]) == (
        pair.workspaces[0],
        [pair.workspaces[0]],
        False,
    )


REFUSED = [
    ({"view": "nope"}, r"serve\.keys\.one\.view: serve\.views has no 'nope' \(has: open\)"),
    (
        {"view": VIEW, "where": {"secret": False}},
        "has both view and where; put the conditions into a view",
    ),
    ({"view": VIEW, "workspace": "other"}, "has both view and workspace"),
    ({"view": VIEW, "editor": True}, "an editor sees all documents; remove editor, or view"),
]


@pytest.mark.parametrize(("rights", "told"), REFUSED)
@pytest.mark.parametrize("place", ["keys", "users.groups"])
def test_what_a_key_or_a_group_of_a_view_cannot_have(
    tmp_path: Path, rights: dict[str, Any], told: str, place: str
):
    serve: dict[str, Any] = {"views": SERVE["views"], "keys": {"one": {"key": KEY}}}
    if place == "keys":
        serve["keys"]["one"] |= rights
    else:
        serve["users"] = {"groups": {"some": rights}, "proxies": ["127.0.0.1"]}
        told = told.replace(r"keys\.one", r"users\.groups\.some")
    folder = new_project(tmp_path / "p", NO_STORE, {}, serve=serve)
    with folder.open() as project, pytest.raises(SettingsError, match=told):
        access_list_of(project)


def test_a_front_end_with_a_view_gives_its_users_no_wider_rights(tmp_path: Path):
    keys = {"one": {"key": KEY, "view": VIEW, "acts_for_users": True}}
    serve = {"views": SERVE["views"], "keys": keys, "users": {"groups": {"*": {}}}}
    folder = new_project(tmp_path / "p", NO_STORE, {}, serve=serve)
    with (
        folder.open() as project,
        pytest.raises(SettingsError, match="its users may do what their groups may"),
    ):
        access_list_of(project)
