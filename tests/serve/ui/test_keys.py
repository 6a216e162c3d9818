"""What each key sees and may do on the page: narrowed keys, keys of several workspaces, editors."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from pipeline.corrections.decisions import Different, Same
from pipeline.corrections.file import read_lines
from pipeline.errors import SettingsError
from pipeline.serve.access import access_list_of
from pipeline.serve.sessions import OneTimeToken
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import QUESTION, Serving, serving
from tests.whole.test_resolution_run import resolving

PAGE = {"Accept": "text/html"}
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
EDIT, READ, AWAY = "edit-key", "read-key", "away-key"


def get(served: Serving, key: str, path: str, **headers: str) -> httpx2.Response:
    return httpx2.get(f"{served.url}{path}", headers={"x-api-key": key, **headers}, timeout=60)


def post(served: Serving, key: str, path: str, **body: Any) -> httpx2.Response:
    return httpx2.post(f"{served.url}{path}", headers={"x-api-key": key}, json=body, timeout=60)


@pytest.fixture(scope="module")
def two(folder: ProjectFolder) -> Iterator[Serving]:
    """Another workspace of the same stores has one document less."""
    workspace = read_workspace(folder)
    other = f"{workspace}-two"
    text = folder.root / "data/input/harbour.txt"
    kept = text.read_text()
    text.unlink()
    try:
        with folder.open(f"workspace={other}") as project:
            project.run("fast")
    finally:
        text.write_text(kept)
    keys = [
        f"serve.keys.both={{key: b, workspace: [{other}, {workspace}]}}",
        f"serve.keys.second={{key: s, workspace: {other}}}", "serve.keys.one={key: o}",
        "serve.keys.narrow={key: n, where: {source: institute.txt}}",
    ]  # fmt: skip
    with folder.open(*keys) as project, serving(project) as served:
        yield served


def read_workspace(folder: ProjectFolder) -> str:
    with folder.open() as project:
        return project.settings.workspace


def sources(answer: httpx2.Response) -> set[str]:
    return {chunk["source"] for chunk in answer.json()["chunks"]}


def test_an_address_says_which_workspace(two: Serving, folder: ProjectFolder):
    first = read_workspace(folder)
    second = f"{first}-two"
    state = get(two, "b", "/ui/state").json()
    assert (state["workspace"], state["workspaces"]) == (second, [second, first])
    assert get(two, "b", f"/w/{first}/ui/state").json()["workspace"] == first
    asked = {"query": "Mira Vale and the Harrow Light", "mode": "naive"}
    assert "harbour.txt" not in sources(post(two, "b", "/query/data", **asked))
    assert "harbour.txt" in sources(post(two, "b", f"/w/{first}/query/data", **asked))
    page = get(two, "b", f"/w/{first}/graph", **PAGE).text
    assert f"<option selected>{first}</option>" in page
    assert f"<option>{second}</option>" in page
    assert '<a href="./documents">' in page  # of the same workspace
    asset = page.split('<link rel="stylesheet" href="./')[1].split('"')[0]
    assert get(two, "b", f"/w/{first}/{asset}").status_code == 200


def test_a_key_leads_to_no_workspace_but_its_own(two: Serving, folder: ProjectFolder):
    first = read_workspace(folder)
    for key, workspace, status in (
        ("s", f"{first}-two", 200), ("s", first, 404), ("o", first, 200),
        ("o", f"{first}-two", 404),
        ("b", "none", 404), ("x", first, 401),
    ):  # fmt: skip
        assert get(two, key, f"/w/{workspace}/ui/state").status_code == status, (key, workspace)
        assert (
            post(two, key, f"/w/{workspace}/query/data", query=QUESTION, mode="naive").status_code
            == status
        )
    assert get(two, "s", "/ui/state").json()["workspaces"] == [f"{first}-two"]
    leads = get(two, "", f"/w/{first}/graph", **PAGE)
    assert (leads.status_code, leads.headers["location"]) == (303, "./login?next=graph")
    assert get(two, "", f"/w/{first}/login", **PAGE).status_code == 200


def test_of_another_workspace_the_projects_runs_tell_nothing(two: Serving, folder: ProjectFolder):
    first = read_workspace(folder)
    with folder.open() as project:
        run = project.runs.known_ids()[0]
    for key, below in (("s", ""), ("b", ""), ("b", f"/w/{first}-two")):
        for path in ("/runs", f"/runs/{run}", "/runs/plan", f"/ui/runs/{run}"):
            refused = get(two, key, below + path, **PAGE)
            assert (refused.status_code, run in refused.text) == (403, False), path
        assert 'href="./runs"' not in get(two, key, f"{below}/", **PAGE).text
        assert get(two, key, f"{below}/ui/state").json()["loaded"]["run"] == ""
        document = (
            get(two, key, f"{below}/documents", **PAGE)
            .text.split('href="documents/')[1]
            .split('"')[0]
        )
        assert (
            "What was left out of it is not known here."
            in get(two, key, f"{below}/documents/{document}").text
        )
    assert get(two, "b", f"/w/{first}/runs/{run}", **PAGE).status_code == 200
    assert get(two, "b", f"/w/{first}/ui/state").json()["loaded"]["run"]


def test_who_sees_some_documents_is_refused_what_is_made_of_all(two: Serving):
    for path in ("/graph", "/runs"):
        page = get(two, "n", path, **PAGE)
        assert (page.status_code, "see" in page.text) == (403, True)
        assert page.headers["content-type"].startswith("text/html")
    for path in ("/", "/documents"):
        page = get(two, "n", path, **PAGE)
        assert page.status_code == 200
        assert 'href="./documents"' in page.text
        assert 'href="./graph"' not in page.text
        assert 'href="./runs"' not in page.text
    assert get(two, "n", "/ui/state").json()["sees_all"] is False


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """Its workflow resolves names; nothing has been run."""
    return resolving(new_project(tmp_path_factory.mktemp("pins") / "p", postgres_url))


KEYS = [
    f"serve.keys.editor={{key: {EDIT}, editor: true}}", f"serve.keys.reader={{key: {READ}}}",
    "serve.api_key=all",
    f"serve.keys.away={{key: {AWAY}, editor: true, workspace: elsewhere}}", "workflow=claims",
]  # fmt: skip
PIN = {"decision": "same", "a": "IBM", "b": "International Business Machines"}


@pytest.fixture
def writable(resolved: ProjectFolder) -> Iterator[Serving]:
    with (
        resolved.open(*KEYS, "serve.read_only=false") as project,
        serving(project, ready=False) as served,
    ):
        yield served


def pins(folder: ProjectFolder) -> str:
    """Return the pins as lines of decision and names, in the order of the file."""
    decisions = [line.decision for line in read_lines(folder.root / "corrections.jsonl")]
    return "\n".join(
        f"{one.kind},{one.a},{one.b}" for one in decisions if isinstance(one, Same | Different)
    )


def test_an_editor_pins(writable: Serving, resolved: ProjectFolder):
    answer = post(writable, EDIT, "/ui/pin", **PIN)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "done": "pinned same",
        "unknown": [],
        "then": "The next run applies it.",
    }
    assert "same,IBM,International Business Machines" in pins(resolved)
    assert (
        post(writable, EDIT, "/ui/pin", **{**PIN, "decision": "different"}).json()["done"]
        == "pinned different"
    )
    assert "different,IBM" in pins(resolved)
    assert "same,IBM" not in pins(resolved)
    assert (
        post(writable, EDIT, "/ui/pin", **{**PIN, "decision": "undo"}).json()["done"]
        == "pin removed"
    )
    assert "IBM" not in pins(resolved)


def test_an_editor_corrects_the_graph_and_takes_it_back(writable: Serving, resolved: ProjectFolder):
    line = {"kind": "set_type", "entity": "Mira Vale", "to": "BUILDER", "why": "she built"}
    answer = post(writable, EDIT, "/ui/correct", **line)
    assert answer.status_code == 200, answer.text
    assert answer.json()["then"] == "The next run applies it."
    (listed,) = [
        one
        for one in get(writable, EDIT, "/ui/corrections").json()["corrections"]
        if one["kind"] == "set_type"
    ]
    assert (listed["to"], listed["by"]) == ("BUILDER", "editor")
    other = post(writable, EDIT, "/ui/correct", **{**line, "to": "SAILOR"})
    assert other.status_code == 422
    assert "contradict each other" in other.json()["error"]["message"]
    assert post(writable, READ, "/ui/correct", **line).status_code == 403
    assert get(writable, READ, "/ui/corrections").status_code == 403
    undone = post(writable, EDIT, "/ui/correct/undo", id=listed["id"])
    assert undone.json()["id"] == listed["id"]
    assert "BUILDER" not in (resolved.root / "corrections.jsonl").read_text(encoding="utf-8")


def test_editors_that_decide_at_once_lose_nothing(writable: Serving, resolved: ProjectFolder):
    pairs = [(f"Left {number}", f"Right {number}") for number in range(12)]
    with ThreadPoolExecutor(12) as editors:
        answers = list(
            editors.map(
                lambda two: post(writable, EDIT, "/ui/pin", decision="same", a=two[0], b=two[1]),
                pairs,
            )
        )
    assert [answer.status_code for answer in answers] == [200] * len(pairs)
    assert {f"same,{a},{b}" for a, b in pairs} <= set(pins(resolved).splitlines())


def test_what_cannot_be_pinned_is_said(writable: Serving):
    same = post(writable, EDIT, "/ui/pin", decision="same", a="IBM", b="I.B.M.", more=1)
    assert (same.status_code, same.json()["error"]["type"]) == (422, "invalid_request")
    assert same.json()["error"]["message"] == "unknown field 'more'; known fields: a, b, decision"
    for one, other in (("IBM", "ibm"), ("", "x"), ("x" * 1001, "y")):
        answer = post(writable, EDIT, "/ui/pin", decision="same", a=one, b=other)
        assert answer.status_code == 422, answer.text
    for pair in (("A", "B"), ("B", "C")):
        assert (
            post(writable, EDIT, "/ui/pin", decision="same", a=pair[0], b=pair[1]).status_code
            == 200
        )
    contradiction = post(writable, EDIT, "/ui/pin", decision="different", a="A", b="C")
    assert contradiction.status_code == 422
    assert "one entity and two" in contradiction.json()["error"]["message"]


def test_a_pin_that_contradicts_the_csv_file_is_written_to_neither(
    writable: Serving, resolved: ProjectFolder
):
    of_old = resolved.root / "resolutions.csv"
    lines = "same,Ode,Odeon\nsame,Odeon,Odessa\ndifferent,Ode,Rome\n"
    of_old.write_text(lines, encoding="utf-8")
    try:
        answer = post(writable, EDIT, "/ui/pin", decision="different", a="Ode", b="Odessa")
        assert answer.status_code == 422
        assert "pinned different, and the same" in answer.json()["error"]["message"]
        assert "Odessa" not in pins(resolved)
        assert post(writable, EDIT, "/ui/pin", decision="same", a="Ode", b="Rome").is_success
        assert "Rome" not in of_old.read_text(encoding="utf-8")
    finally:
        of_old.unlink()


def test_decisions_are_signed_by_the_key_and_at_this_machine_by_the_account(
    resolved: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LOGNAME", "somebody")
    correction = {"kind": "set_type", "entity": "Anselm Torr", "to": "SMITH"}
    token = OneTimeToken(renewed=[].append)
    with resolved.open(*KEYS) as project, serving(project, ready=False, token=token) as served:
        with httpx2.Client(base_url=served.url, headers=OWN_PAGE, timeout=60) as browser:
            browser.post("/login", data={"key": token.value})
            assert browser.post("/ui/pin", json={**PIN, "a": "Pell"}).is_success
            corrected = browser.post("/ui/correct", json=correction)
            assert corrected.is_success, corrected.text
        assert post(served, EDIT, "/ui/pin", **{**PIN, "a": "Senn"}).status_code == 403
    with (
        resolved.open(*KEYS, "serve.read_only=false") as project,
        serving(project, ready=False) as served,
    ):
        assert post(served, EDIT, "/ui/pin", **{**PIN, "a": "Senn"}).is_success
    text = (resolved.root / "corrections.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    by = {line.get("a", line.get("entity")): line["by"] for line in lines}
    assert (by["Pell"], by["Anselm Torr"], by["Senn"]) == ("somebody", "somebody", "editor")


@pytest.mark.parametrize("key", [READ, AWAY, "all", ""])
def test_nobody_else_changes_anything(writable: Serving, resolved: ProjectFolder, key: str):
    before = pins(resolved)
    answer = post(writable, key, "/ui/pin", **PIN)
    assert answer.status_code == (403 if key else 401)
    assert pins(resolved) == before


@pytest.mark.parametrize(
    ("settings", "said"),
    [([*KEYS], "serve.read_only"), (["serve.read_only=false", "workflow=claims"], "editor's key")],
)
def test_nothing_is_changed_where_settings_do_not_let_it(
    resolved: ProjectFolder, settings: list[str], said: str
):
    before = pins(resolved)
    with resolved.open(*settings) as project, serving(project, ready=False) as served:
        answer = post(served, EDIT, "/ui/pin", **PIN)
        state = get(served, EDIT, "/ui/state").json()
    assert (answer.status_code, state["editor"]) == (403, False)
    assert said in answer.json()["error"]["message"]
    assert said in state["locked"]
    assert pins(resolved) == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 401),
        ({"Origin": "null"}, 401),
        ({}, 401),
    ],
)
def test_an_editors_session_pins_from_our_own_page_alone(
    writable: Serving, resolved: ProjectFolder, headers: Mapping[str, str], status: int
):
    before = pins(resolved)
    pair = {"decision": "same", "a": "Ada", "b": f"Ada {len(headers)}{status}"}
    with httpx2.Client(base_url=writable.url, timeout=60) as browser:
        browser.post("/login", data={"key": EDIT}, headers={"Sec-Fetch-Site": "same-origin"})
        as_form = browser.post("/ui/pin", data=pair, headers={"Sec-Fetch-Site": "same-origin"})
        as_text = browser.post(
            "/ui/pin", content=json.dumps(pair), headers={"Sec-Fetch-Site": "same-origin"}
        )
        assert (as_form.status_code, as_text.status_code) == (422, 422)
        assert pins(resolved) == before
        assert browser.post("/ui/pin", json=pair, headers=headers).status_code == status
    assert (pins(resolved) != before) == (status == 200)


def test_an_editor_sees_all_documents(folder: ProjectFolder):
    with pytest.raises(
        SettingsError, match="an editor sees all documents; remove editor, or where"
    ):
        access_list_of(folder.open("serve.keys.x={key: k, editor: true, where: {source: a}}"))
