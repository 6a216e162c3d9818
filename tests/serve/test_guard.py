"""Who may ask, from where, and how much."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import httpx2
import pytest

from pipeline.project import Project
from pipeline.serve.guard import LARGEST_OPEN
from tests.projects import ProjectFolder
from tests.serve.serving import QUESTION, Serving, serving

KEY = "a-long-kéy-of-ours"
ORIGIN = "https://wiki.example.org"
ADDRESSES = map("192.0.2.{}".format, count())


@pytest.fixture(scope="module")
def guarded(folder: ProjectFolder) -> Iterator[Serving]:
    settings = [f"serve.api_key={KEY}", "serve.max_body_kb=4", f"serve.cors_origins=['{ORIGIN}']"]
    with folder.open(*settings) as project, serving(project) as served:
        yield served


@pytest.fixture(scope="module")
def stranger(guarded: Serving) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=guarded.url, timeout=30) as client:
        yield client


def given(**headers: str) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]


@pytest.mark.parametrize(
    "headers",
    [
        given(),
        given(authorization="Bearer wrong"),
        given(authorization=f"Basic {KEY}"),
        given(authorization="Bearer"),
        given(authorization=f"Bearer {KEY}x"),
        given(x_api_key=KEY[:-1]),
        given(x_api_key=""),
    ],
)
def test_without_the_key_nothing_is_told(stranger: httpx2.Client, headers: Any):
    headers = [
        *headers,
        *given(x_forwarded_for=next(ADDRESSES)),
    ]  # wrong keys are counted by address
    for path in ("/query", "/query/data", "/query/stream"):
        answer = stranger.post(path, content=b"{", headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert KEY not in answer.text
    for path in ("/openapi.json", "/docs", "/nothing"):
        assert stranger.get(path, headers=headers).status_code == 401


@pytest.mark.parametrize("headers", [given(authorization=f"bearer  {KEY}"), given(x_api_key=KEY)])
def test_with_the_key(stranger: httpx2.Client, headers: Any):
    assert (
        stranger.post("/query/data", json={"query": QUESTION}, headers=headers).status_code == 200
    )
    assert stranger.get("/openapi.json", headers=headers).status_code == 200


def test_health_wants_no_key(stranger: httpx2.Client):
    answer = stranger.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


def test_a_body_that_is_too_large(guarded: Serving):
    for path in ("/query", "/query/data", "/query/stream"):
        answer = guarded.ask(path, query="long " * 1000)
        assert (answer.status_code, answer.json()["error"]["type"]) == (413, "too_large")
        assert "4 KB (serve.max_body_kb)" in answer.json()["error"]["message"]

    def pieces() -> Iterator[bytes]:
        yield b'{"query": "'
        for _ in range(100):
            yield b"x" * 1000

    answer = guarded.client.post(
        "/query", content=pieces(), headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "too_large")
    assert guarded.ask("/query/data").status_code == 200


def test_a_form_that_needs_no_key_is_small(served: Serving, project: Project):
    """The event loop reads a form, and a large one would stop all other requests meanwhile."""
    form = b"key=" + b"%" * (LARGEST_OPEN - 4)
    own_page = {"Sec-Fetch-Site": "same-origin"}
    assert served.client.post("/login", content=form, headers=own_page).status_code == 303
    answer = served.client.post("/login", content=form + b"%", headers=own_page)
    assert answer.status_code == 413
    assert "larger than 16 KB" in answer.json()["error"]["message"]
    assert served.ask("/query/data", query="Who? " + " " * 2 * LARGEST_OPEN).status_code == 200


def test_pages_of_the_origins_in_settings_may_ask(
    guarded: Serving, stranger: httpx2.Client, served: Serving
):
    method, names = "Access-Control-Request-Method", "Access-Control-Request-Headers"
    ask_first = {"Origin": ORIGIN, method: "POST", names: "x-api-key"}
    allowed = stranger.options("/query", headers=ask_first)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, ORIGIN)
    refused = stranger.post("/query", json={}, headers={"Origin": ORIGIN})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, ORIGIN)
    other = stranger.options("/query", headers={**ask_first, "Origin": "https://other.example.org"})
    assert "access-control-allow-origin" not in other.headers
    for answer in (
        served.client.options("/query", headers=ask_first),
        served.client.post("/query/data", json={"query": QUESTION}, headers={"Origin": ORIGIN}),
    ):
        assert "access-control-allow-origin" not in answer.headers


def test_a_page_whose_name_is_made_to_point_here_cannot_ask(served: Serving, guarded: Serving):
    for host in ("evil.example.org", "evil.example.org:8020", "127.0.0.1.evil.example.org", ""):
        answer = served.client.post("/query", json={"query": QUESTION}, headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["type"]) == (421, "wrong_host")
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8020", "[::1]"):
        assert served.client.get("/health", headers={"Host": host}).status_code == 200
    assert guarded.client.get("/health", headers={"Host": "proxied.example.org"}).status_code == 200


FROM_ELSEWHERE = [
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"},
    {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:1"},
]  # fmt: skip


@pytest.mark.parametrize("headers", FROM_ELSEWHERE)
def test_without_a_key_no_page_of_another_server_may_ask(served: Serving, headers: Any):
    """A page of another site could not read the answer, but it could make the server work."""
    for path in ("/runs/plan", "/documents", "/ui/state", "/openapi.json"):
        refused = served.client.get(path, headers=headers)
        assert (refused.status_code, refused.json()["error"]["type"]) == (403, "failed"), path
    assert (
        served.client.post("/query/data", json={"query": QUESTION}, headers=headers).status_code
        == 403
    )
    # A link that a person follows leads to a page of our own, which leads on.
    linked = served.client.get("/documents", headers={**headers, "Accept": "text/html"})
    assert (linked.status_code, linked.headers["location"]) == (303, "./login?next=documents")
    assert (
        served.client.get("/login", headers={**headers, "Accept": "text/html"}).status_code == 200
    )


def test_without_a_key_our_own_pages_programs_and_named_origins_may_ask(
    served: Serving, project: Project
):
    for headers in (
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": served.url},
    ):
        assert served.client.get("/ui/state", headers=headers).status_code == 200
    folder_settings = project.settings.serve.model_copy(update={"cors_origins": (ORIGIN,)})
    named = replace(
        project, settings=project.settings.model_copy(update={"serve": folder_settings})
    )
    with named, serving(named) as open_to_wiki:
        for origin, status in ((ORIGIN, 200), ("https://other.example.org", 403)):
            headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
            answer = open_to_wiki.client.post(
                "/query/data", json={"query": QUESTION}, headers=headers
            )
            assert answer.status_code == status
