"""A run and a retry that an editor begins from the page: each is the command, in a process of its
own."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from pipeline.runs.reports import Runs
from tests.projects import ProjectFolder, new_project, workspace_of
from tests.serve.serving import Serving, serving, wait_until
from tests.serve.ui.axe import grave_faults
from tests.serve.ui.conftest import Look

EDIT, READ, AWAY = "edit-key", "read-key", "away-key"
KEYS = [
    f"serve.keys.editor={{key: {EDIT}, editor: true}}", f"serve.keys.reader={{key: {READ}}}",
    "serve.api_key=all",
    f"serve.keys.away={{key: {AWAY}, editor: true, workspace: elsewhere}}",
]  # fmt: skip
BOTH = [("/ui/run", {}), ("/ui/retry", {"workflow": "fast"})]
LOST = 120
"""Seconds after which a process of its own has surely failed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """One run, which left a file out, and a document that is new since."""
    folder = new_project(
        tmp_path_factory.mktemp("begin") / "p", postgres_url, workflow="fast", max_reject_ratio=1
    )
    folder.write("broken.pdf", "no PDF")
    folder.invoke("run")
    folder.write("quay.txt", "Osric Hale dredged the Tollen Quay in 1901.")
    return folder


@pytest.fixture
def writable(folder: ProjectFolder) -> Iterator[Serving]:
    with (
        folder.open(*KEYS, "serve.read_only=false") as project,
        serving(project, ready=False) as served,
    ):
        yield served


def post(served: Serving, key: str, path: str, **body: object) -> httpx2.Response:
    return httpx2.post(f"{served.url}{path}", headers={"x-api-key": key}, json=body, timeout=60)


def page(served: Serving, key: str, path: str) -> str:
    return httpx2.get(
        f"{served.url}/{path}", headers={"x-api-key": key, "Accept": "text/html"}, timeout=60
    ).text


def said(answer: httpx2.Response) -> str:
    return answer.json()["error"]["message"]


def test_an_editor_alone_is_offered_to_begin(writable: Serving, folder: ProjectFolder):
    [run] = Runs.of(folder.root).known_ids()
    for address, form in (
        ("runs/plan", 'data-path="ui/run"'),
        (f"runs/{run}", 'data-path="ui/retry" data-workflow="fast"'),
    ):
        assert form in page(writable, EDIT, address)
        assert "<form id" not in page(writable, READ, address)
    assert "an editor's key can" in page(writable, READ, "runs/plan").replace("&#39;", "'")
    assert "Run now" in page(writable, EDIT, "runs")
    assert "Run now" not in page(writable, READ, "runs")


@pytest.mark.parametrize("key", [READ, AWAY, "all", ""])
@pytest.mark.parametrize(("path", "body"), BOTH)
def test_nobody_else_begins_anything(
    writable: Serving, folder: ProjectFolder, path: str, body: Mapping[str, str], key: str
):
    before = Runs.of(folder.root).known_ids()
    assert post(writable, key, path, **body).status_code == (403 if key else 401)
    assert Runs.of(folder.root).known_ids() == before


@pytest.mark.parametrize(
    ("settings", "told"), [(KEYS, "serve.read_only"), (["serve.read_only=false"], "editor's key")]
)
def test_nothing_is_begun_where_settings_do_not_let_it(
    folder: ProjectFolder, settings: list[str], told: str
):
    with folder.open(*settings) as project, serving(project, ready=False) as served:
        for path, body in BOTH:
            refused = post(served, EDIT, path, **body)
            assert (refused.status_code, told in said(refused)) == (403, True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 409), ({"Sec-Fetch-Site": "cross-site"}, 401),
        ({"Origin": "null"}, 401),
        ({}, 401),
    ],
)  # fmt: skip
def test_an_editors_session_begins_from_our_own_page_alone(
    writable: Serving, folder: ProjectFolder, headers: Mapping[str, str], status: int
):
    """While a run holds the project: who would be let in is told of that."""
    own = {"Sec-Fetch-Site": "same-origin"}
    with Runs.of(folder.root).alone(), httpx2.Client(base_url=writable.url, timeout=60) as browser:
        browser.post("/login", data={"key": EDIT}, headers=own)
        for path, body in BOTH:
            assert browser.post(path, data=body, headers=own).status_code == 422
            assert browser.post(path, content=json.dumps(body), headers=own).status_code == 422
            assert browser.post(path, json=body, headers=headers).status_code == status


def test_what_stands_in_the_way_is_said(writable: Serving, folder: ProjectFolder):
    before = Runs.of(folder.root).known_ids()
    with Runs.of(folder.root).alone():
        for path, body in BOTH:
            refused = post(writable, EDIT, path, **body)
            assert (refused.status_code, "is under way" in said(refused)) == (409, True)
        assert "<form id" not in page(writable, EDIT, "runs/plan")
    assert post(writable, EDIT, "/ui/retry", workflow="../settings").status_code == 404
    assert post(writable, EDIT, "/ui/retry").status_code == 422
    assert post(writable, EDIT, "/ui/run", max_cost=-1).status_code == 422
    settings = folder.root / "settings.yaml"
    away = settings.rename(folder.root / "away.yaml")
    try:
        refused = post(writable, EDIT, "/ui/run")
    finally:
        away.rename(settings)
    assert (refused.status_code, "no settings here" in said(refused)) == (409, True)
    assert Runs.of(folder.root).known_ids() == before


def test_a_command_that_is_refused_says_why(writable: Serving, folder: ProjectFolder):
    workflow = folder.root / "workflows" / "fast.yaml"
    text = workflow.read_text()
    workflow.write_text("steps: nonsense")
    try:
        refused = post(writable, EDIT, "/ui/run")
    finally:
        workflow.write_text(text)
    assert refused.status_code == 409
    assert said(refused).startswith("It did not begin: ")
    assert "fast.yaml" in said(refused)


def test_no_setting_of_the_server_is_among_the_words_of_the_command(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Which all users of a machine see."""
    program, words = tmp_path / "python", tmp_path / "words"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{words}"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    secret = "stores.neo4j.password=canary"
    with (
        folder.open(*KEYS, "serve.read_only=false", secret) as project,
        serving(project, ready=False) as served,
    ):
        assert post(served, EDIT, "/ui/run").status_code == 409
    assert "run" in words.read_text().splitlines()
    assert not [given for given in ("canary", EDIT) if given in words.read_text()]


def test_a_retry_outlives_the_server_and_is_of_the_settings_that_it_was_given(
    folder: ProjectFolder,
):
    runs, other = Runs.of(folder.root), f"{workspace_of(folder.root)}-2"
    overrides = [*KEYS, "serve.read_only=false", f"workspace={other}"]
    with folder.open(*overrides) as project, serving(project, ready=False) as served:
        run = post(served, EDIT, "/ui/retry", workflow="fast").json()["run"]
        assert run in runs.known_ids()
    wait_until(lambda: runs.report(run) is not None, LOST)
    report = runs.report(run)
    assert report is not None
    assert (report["outcome"], report["workflow"]) == ("completed_with_rejects", "fast")
    assert report["steps"][0]["reason"] == "retry"
    with folder.open(f"workspace={other}") as project:
        assert project.stores.live() is not None


def test_a_run_from_the_click_to_its_end(writable: Serving, folder: ProjectFolder, look: Look):
    folder.write("mole.txt", "Idra Senn built the Tollen Mole in 1902.")
    page = look(writable.url).page
    page.get_by_label("Key").fill(EDIT)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("link", name="Run now").click()
    expect(page.get_by_role("main")).to_contain_text("new")
    assert grave_faults(page) == []
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Run of ")
    expect(page.get_by_role("heading", name="Steps")).to_be_visible(timeout=LOST * 1000)
    newest = Runs.of(folder.root).report(Runs.of(folder.root).known_ids()[0])
    assert newest is not None
    assert page.url.endswith(f"/runs/{newest['run_id']}")
    assert newest["outcome"] == "completed_with_rejects"
