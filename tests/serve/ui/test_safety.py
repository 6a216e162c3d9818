"""What every answer tells a browser, and that nothing of a page leads elsewhere or is anything but
text."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from pipeline.pages.environment import environment, whole_page
from pipeline.project import Project
from pipeline.serve.ui.assets import Assets, read_assets
from tests.projects import ProjectFolder
from tests.serve.serving import Serving, serving

PAGE = {"Accept": "text/html"}
UI = Path(__file__).parents[3] / "pipeline" / "serve" / "ui"
PAGES = Path(__file__).parents[3] / "pipeline" / "pages"
OURS = [
    *(file for folder in (UI / "static", UI / "templates",
        PAGES) for file in folder.rglob("*") if file.is_file()),
]  # fmt: skip
HOSTILE = "<script>alert(1)</script><img src=//evil.example onerror=x>\"'{{ 7*7 }}${x}"


def routes_of(served: Serving) -> list[tuple[str, str]]:
    app: Any = served.api.app
    while not isinstance(app, FastAPI):
        app = app.app
    routers = [getattr(one, "original_router", None) for one in app.routes]
    routes = [*app.routes, *(route for router in routers if router for route in router.routes)]
    found = [
        (method, route.path)
        for route in routes
        if isinstance(route, APIRoute)
        for method in route.methods
    ]
    return [*found, ("GET", "/openapi.json"), ("GET", "/nothing")]


@pytest.fixture(scope="module")
def guarded(folder: ProjectFolder) -> Iterator[Serving]:
    with folder.open("serve.api_key=k") as project, serving(project) as served:
        yield served


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
@pytest.mark.parametrize("known", [True, False])
def test_every_answer_tells_the_browser_to_load_nothing_from_elsewhere(
    guarded: Serving, accept: str, known: bool
):
    asked = routes_of(guarded)
    assert {path for _, path in asked} >= {
        "/",
        "/graph",
        "/documents",
        "/runs",
        "/corrections",
        "/docs",
        "/query",
        "/ui/pin",
        "/ui/corrections/suspects",
        "/ui/corrections/said",
        "/ui/corrections/apply",
    }
    with httpx2.Client(base_url=guarded.url, timeout=60, headers={"Accept": accept}) as client:
        for method, path in asked:
            answer = client.request(method, path, headers={"x-api-key": "k"} if known else {})
            told = answer.headers
            policy = dict(
                part.split(" ", 1) for part in told["content-security-policy"].split("; ")
            )
            assert (
                policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
            ), path
            assert (
                policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            ), path
            assert told["x-content-type-options"] == "nosniff"
            assert told["referrer-policy"] == "same-origin"
            assert (
                told["cross-origin-opener-policy"]
                == told["cross-origin-resource-policy"]
                == "same-origin"
            )
            assert told["cache-control"] == "no-store" or path.startswith("/assets/")
            assert answer.status_code != 500
            assert known or answer.status_code in (200, 303, 401, 403, 404, 405, 422), path
            assert (
                known or answer.status_code != 200 or path in ("/login", "/session", "/health")
            ), path


def test_assets_are_kept_for_good_and_packed(served: Serving):
    assets = read_assets()
    for name, asset in assets.files.items():
        answer = served.client.get(f"/{assets.folder}{name}")
        assert (answer.status_code, answer.content == asset.content) == (200, True), name
        assert answer.headers["cache-control"].endswith("immutable")
        assert answer.headers.get("content-encoding") == ("gzip" if asset.packs else None)
        plain = served.client.get(
            f"/{assets.folder}{name}", headers={"Accept-Encoding": "identity"}
        )
        assert (plain.content == asset.content, "content-encoding" in plain.headers) == (
            True,
            False,
        )


@pytest.mark.parametrize(
    "path",
    ["{folder}nothing.js", "assets/0/shell.js", "{folder}../view.py", "{folder}..%2fview.py",
        "{folder}%2e%2e/view.py",
     "{folder}vendor/index.json", "{folder}/etc/passwd"],
)  # fmt: skip
def test_nothing_but_assets_is_one(served: Serving, path: str):
    assert served.client.get("/" + path.format(folder=read_assets().folder)).status_code == 404


def test_a_version_stands_for_all_of_them():
    first = read_assets()
    assert re.fullmatch("[0-9a-f]{12}", first.version)
    assert read_assets().version == first.version
    assert isinstance(first, Assets)
    assert {"style.css", "texts.js", "shell.js", "theme.js", "icon.svg"} <= set(first.files)


def test_nothing_of_ours_names_another_host():
    """But for the names of namespaces, which nobody asks."""
    named = {
        f"{file.name}: {address}"
        for file in OURS
        if file.suffix != ".pyc"
        for address in re.findall(
            r"(?:https?:)?//[a-z0-9-]+\.[a-z]{2,}[^\s\"')]*", file.read_text(encoding="utf-8")
        )
    }
    assert {one for one in named if not one.endswith("http://www.w3.org/2000/svg")} == set()


@pytest.mark.parametrize(
    "view", ["/", "/graph", "/documents", "/runs", "/corrections", "/docs", "/login", "/nothing"]
)
def test_a_page_holds_no_script_and_no_style(served: Serving, view: str):
    page = served.client.get(view, headers=PAGE, follow_redirects=True).text
    assert "<h1" in page
    assert not re.findall(r"<style|style=|javascript:|<base|<iframe|<object", page)
    assert not re.findall(r"<[^>]+\son\w+=", page)
    for script in re.findall(r"<script[^>]*>[^<]*", page):
        assert re.fullmatch(
            r'<script(?: type="module")? src="(?:\./|\.\./)assets/[^"]+">', script.strip()
        ), script
    for address in re.findall(r'(?:src|href|action)="([^"]*)"', page):
        assert re.fullmatch(r"(?:#|\.{1,2}/|\w)(?!\w*:).*", address), (
            address
        )  # relative, of no scheme


def test_every_template_escapes_what_it_is_given():
    made = environment()
    page = made.from_string(
        "<p title='{{ text }}'>{{ text }}</p>{{ texts.shell.signed_in | fill(name=text) }}"
    )
    shown = page.render(text=HOSTILE)
    assert "<script" not in shown
    assert "<img" not in shown
    assert "49" not in shown
    assert shown.count("'") == 2
    assert all(
        made.get_template(name).environment.autoescape is True
        for name in made.list_templates(["j2"])
    )


def test_what_is_no_character_is_left_out():
    assert (
        environment().from_string("{{ text }}").render(text="a\x00b\x1b[31m\ufdd0\ud800c")
        == "ab[31mc"
    )


def test_no_template_trusts_a_text():
    told = [
        file.name
        for file in OURS
        if file.suffix == ".j2" and re.search(r"\|\s*safe\b|autoescape", file.read_text())
    ]
    assert told == []
    scripts = [file for file in OURS if file.suffix == ".js"]
    markup = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    )
    assert {file.name for file in scripts if markup.search(file.read_text())} == set()


def test_a_page_in_one_file_loads_nothing(tmp_path: Path):
    (tmp_path / "one.html.j2").write_text(
        '{% extends "alone.html.j2" %}{% block title %}{{ text }}{% endblock %}{% block main %}{{'
        " text }}{% endblock %}"
    )
    page = whole_page(environment(tmp_path), "one.html.j2", text=HOSTILE)
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "<script" not in page
    assert not re.findall(r"\s(?:src|href|action)=(?!//evil)", page)


def test_the_failure_of_a_page_is_a_page(served: Serving):
    answer = served.client.get("/nothing", headers=PAGE)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert served.client.get("/nothing").json()["error"]["type"] == "not_found"


@pytest.mark.parametrize(
    "path",
    ["graph?entity=%00", "graph?community=%00&document=%00", "graph?document=a%00",
        "graph/entity?id=a%00",
     "graph/relationship?id=a%00", "passage?unit=a%00"],
)  # fmt: skip
def test_what_no_store_takes_is_not_brought_to_one(served: Serving, path: str):
    assert served.client.get(f"/ui/{path}").status_code in (200, 404, 422)


@pytest.mark.parametrize(("text", "status"), [("\0", 422), ("no such\0name", 200)])
@pytest.mark.parametrize("path", ["find", "documents"])
def test_what_no_store_takes_is_not_looked_for(served: Serving, path: str, text: str, status: int):
    assert served.client.post(f"/ui/graph/{path}", json={"text": text}).status_code == status


def test_without_the_page_there_is_the_api_alone(project: Project, folder: ProjectFolder):
    with folder.open("serve.page=false") as bare, serving(bare) as served:
        for path in ("/", "/graph", "/login", "/docs", "/ui/state"):
            assert served.client.get(path, headers=PAGE).status_code == 404
        assert served.client.get("/openapi.json").status_code == 200
