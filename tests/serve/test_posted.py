"""Documents and runs over HTTP: who may write, what is refused, and the state of each until it is
found."""

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from pipeline.errors import SettingsError
from pipeline.runs.audit import AuditLog
from pipeline.runs.reports import Runs
from pipeline.runs.requested import RequestedRuns
from pipeline.serve.new_runs import Starter
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import Serving, serving, wait_until

WRITE, READ, EDIT, FRONT = "write-key", "read-key", "edit-key", "front-key"
SETTINGS = [
    f"serve.keys.writer={{key: {WRITE}, writer: true}}",
    f"serve.keys.front={{key: {FRONT}, writer: true, acts_for_users: true}}",
    f"serve.keys.reader={{key: {READ}}}",
    f"serve.keys.editor={{key: {EDIT}, editor: true}}",
    "serve.documents={max_request_mb: 2, max_documents: 5, max_total_mb: 1, max_files: 50}",
    "serve.audit={enabled: true, texts: text}", "serve.max_body_kb=16",
]  # fmt: skip
TEXT = "Osric Hale dredged the Tollen Quay in 1901."
LOST = 120
"""Seconds after which a process of its own has surely failed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    folder = new_project(
        tmp_path_factory.mktemp("posted") / "p", postgres_url, workflow="fast", max_reject_ratio=1
    )
    with folder.open() as project:
        project.run()
    return folder


@pytest.fixture(scope="module")
def served(folder: ProjectFolder) -> Iterator[Serving]:
    workflows = "serve.runs.workflows=[fast, index, none]"
    with (
        folder.open(*SETTINGS, workflows, "serve.read_only=false") as project,
        serving(project) as served,
    ):
        yield served


def ask(served: Serving, method: str, path: str, key: str = WRITE, **more: Any) -> httpx2.Response:
    headers = {"X-API-Key": key, **more.pop("headers", {})}
    return httpx2.request(method, f"{served.url}{path}", headers=headers, timeout=60, **more)


def post(served: Serving, *documents: dict[str, Any], **headers: str) -> httpx2.Response:
    return ask(served, "POST", "/v1/documents", json={"documents": documents}, headers=headers)


def said(answer: httpx2.Response) -> str:
    return answer.json()["error"]["message"]


def run_to_its_end(served: Serving, **body: Any) -> dict[str, Any]:
    asked = ask(served, "POST", "/v1/runs", json=body)
    assert asked.status_code == 202, asked.text
    path = f"/v1/runs/{asked.json()['id']}"
    wait_until(lambda: ask(served, "GET", path).json()["state"] not in ("waiting", "running"), LOST)
    return ask(served, "GET", path).json()


def state(served: Serving, id: str) -> dict[str, Any]:
    return ask(served, "GET", f"/v1/documents/{id}").json()


@pytest.mark.parametrize("key", [READ, EDIT, ""])
def test_only_a_writer_reads_and_changes_documents(served: Serving, key: str):
    for method, path in (
        ("GET", "/v1/documents"), ("GET", "/v1/documents/a"), ("DELETE", "/v1/documents/a"),
        ("POST", "/v1/documents"), ("PUT", "/v1/documents/a"), ("POST", "/v1/runs"),
        ("GET", "/v1/runs/a"),
    ):  # fmt: skip
        answer = ask(served, method, path, key, json={} if method in ("POST", "PUT") else None)
        assert answer.status_code == (403 if key else 401), (method, path)


def test_nothing_is_written_where_settings_are_read_only(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    started: list[Starter] = []
    monkeypatch.setattr(Starter, "start", started.append)
    with folder.open(*SETTINGS) as project, serving(project, ready=False) as served:
        refused = post(served, {"text": TEXT})
        assert (refused.status_code, "serve.read_only" in said(refused)) == (403, True)
    assert started == []
    assert not (folder.root / "data" / "input" / "posted").exists()


def test_documents_from_the_answer_202_to_the_answer_that_cites_them(
    served: Serving, folder: ProjectFolder
):
    assert ask(served, "POST", "/v1/documents", READ, json={}).status_code == 403
    sent = post(served, {"id": "quay", "text": TEXT, "title": "The quay", "metadata": {"year": 9}})
    assert sent.status_code == 202
    assert sent.json()["documents"] == [{"id": "quay.md", "changed": True}]
    files = [("files", ("broken.pdf", b"no PDF")), ("files", ("mole.txt", b"Ada Kell built it."))]
    uploaded = ask(served, "POST", "/v1/documents", files=files)
    assert [one["id"] for one in uploaded.json()["documents"]] == ["broken.pdf", "mole.txt"]
    listed = ask(served, "GET", "/v1/documents?limit=2").json()
    assert [(one["id"], one["state"]) for one in listed["documents"]] == [
        ("broken.pdf", "waiting"),
        ("mole.txt", "waiting"),
    ]
    assert listed["next"] == "mole.txt"
    ended = run_to_its_end(served)
    assert (ended["state"], ended["outcome"]) == ("ended", "completed_with_rejects")
    assert ended["documents"]["new"] == 2
    found = state(served, "quay")
    assert (found["state"], found["run"], found["since"] != "") == ("in", ended["run"], True)
    assert len(found["document_ids"]) == 1
    broken = state(served, "broken.pdf")
    assert broken["state"] == "left_out"
    assert broken["left_out"][0]["step"] == "load_documents"
    evidence = ask(
        served, "POST", "/query/data", json={"query": "Who dredged the quay?", "mode": "naive"}
    )
    cited = {one["source"]: one["metadata"] for one in evidence.json()["references"]}
    assert cited["posted/quay.md"] == {"year": 9}
    # A load alone reads no document.
    post(served, {"id": "unread", "text": "Not read."})
    with folder.open() as project:
        project.load()
    assert state(served, "unread")["state"] == "waiting"
    # The time of a file that has the content which was read tells nothing.
    os.utime(folder.root / "data" / "input" / "posted" / "quay.md")
    assert (state(served, "quay")["state"], found["run"]) == ("in", ended["run"])
    ask(served, "DELETE", "/v1/documents/unread")
    # An edit waits for the next run, and a document that is gone is gone at once here.
    ask(served, "PUT", "/v1/documents/quay", json={"text": f"{TEXT} It silted up."})
    assert state(served, "quay")["state"] == "waiting"
    assert ask(served, "DELETE", "/v1/documents/mole.txt").status_code == 202
    assert ask(served, "GET", "/v1/documents/mole.txt").status_code == 404
    assert ask(served, "DELETE", "/v1/documents/mole.txt").status_code == 404
    ended = run_to_its_end(served)
    assert ended["documents"] == {"new": 0, "edited": 1, "gone": 1, "all": 4}
    assert state(served, "quay")["run"] == ended["run"]
    lines = [one for one in AuditLog(folder.root / "data" / "audit").lines() if "/v1" in str(one)]
    texts = {(one["path"], one["status"], one.get("text")) for one in lines}
    assert ("/v1/documents", 202, "add quay.md") in texts
    assert ("/v1/documents/mole.txt", 202, "delete mole.txt") in texts
    assert ("/v1/documents", 403, None) in texts
    assert ("/v1/runs", 202, "run max_cost=None allow_deletes=False") in texts
    assert not [one for one in lines if one["kind"] != "edit"]


def test_a_put_of_an_unchanged_document_costs_nothing_and_makes_no_run_work(
    served: Serving, folder: ProjectFolder
):
    stone = {"text": "The mole is of stone.", "title": "The mole", "metadata": {"year": 1902}}

    def put() -> bool:
        answer = ask(served, "PUT", "/v1/documents/stone", json=stone)
        assert answer.status_code == 202
        [document] = answer.json()["documents"]
        return document["changed"]

    assert put()
    run_to_its_end(served)
    before = state(served, "stone")
    assert before["state"] == "in"
    assert not put()
    assert state(served, "stone") == before
    ended = run_to_its_end(served)
    assert (ended["documents"]["new"], ended["documents"]["edited"]) == (0, 0)
    report = Runs.of(folder.root).last()
    assert report
    assert {step["action"] for step in report["steps"]} == {"reused"}
    assert report["totals"]["calls"] == 0
    assert state(served, "stone") == before


def test_the_same_key_of_a_request_is_answered_the_same_and_works_once(
    served: Serving, monkeypatch: pytest.MonkeyPatch
):
    one, other = {"id": "once", "text": "First."}, {"id": "once", "text": "Second."}
    again = {"Idempotency-Key": "n1"}
    first = post(served, one, **again)
    ask(served, "DELETE", "/v1/documents/once")
    second = post(served, one, **again)
    assert (second.status_code, second.json()) == (202, first.json())
    assert ask(served, "GET", "/v1/documents/once").status_code == 404
    refused = post(served, other, **again)
    assert (refused.status_code, "Idempotency-Key" in said(refused)) == (422, True)
    monkeypatch.setattr("pipeline.serve.once.MOST_KEYS", 1)
    refused = post(served, one, **{"Idempotency-Key": "n2"})
    assert (refused.status_code, "without one" in said(refused)) == (422, True)
    assert post(served, one, **again).json() == first.json()


@pytest.mark.parametrize(
    ("sent", "status", "told"),
    [
        ({"json": {"documents": [{"id": "../x", "text": "t"}]}}, 422, "id: "),
        ({"json": {"documents": []}}, 422, "documents"),
        ({"json": {"documents": [{"text": " \n"}]}}, 422, "text: empty"),
        ({"json": {"documents": [{"text": "t", "titel": "x"}]}}, 422, "titel"),
        ({"json": {"documents": [{"id": "a", "text": "1"}, {"id": "a", "text": "2"}]}}, 422,
         "twice"),
        ({"json": {"documents": [{"text": str(n)} for n in range(6)]}}, 422, "max_documents"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 422, "not JSON"),
        ({"content": b"[" * 9000, "headers": {"Content-Type": "application/json"}}, 422, "JSON"),
        ({"content": b"t", "headers": {"Content-Type": "text/plain"}}, 415, "content-type"),
        ({"files": [("f", ("x.exe", b"t"))]}, 422, "not read"),
        ({"files": [("f", ("../../settings.yaml", b"t"))]}, 422, "id: "),
        ({"files": [("f", (f"{n}.txt", b"t")) for n in range(6)]}, 400, "files"),
        ({"content": b"--x", "headers": {"Content-Type": "multipart/form-data; boundary=y"}}, 400,
         ""),
        ({"json": {"documents": [{"text": "t" * 1_200_000}]}}, 413, "max_total_mb"),
        ({"json": {"documents": [{"text": "t" * 2_200_000}]}}, 413, "max_request_mb"),
    ],
)  # fmt: skip
def test_a_body_that_makes_no_sense_is_refused_and_nothing_is_written(
    served: Serving, folder: ProjectFolder, sent: dict[str, Any], status: int, told: str
):
    before = sorted(path.name for path in (folder.root / "data" / "input").rglob("*"))
    answer = ask(served, "POST", "/v1/documents", **sent)
    assert (answer.status_code, told in said(answer)) == (status, True), answer.text
    assert sorted(path.name for path in (folder.root / "data" / "input").rglob("*")) == before


def test_others_may_not_send_a_large_body(served: Serving):
    answer = ask(served, "POST", "/v1/documents", READ, json={"documents": ["t" * 20_000]})
    assert (answer.status_code, "max_body_kb" in said(answer)) == (413, True)
    assert post(served, {"id": "large", "text": "t" * 20_000}).status_code == 202
    assert ask(served, "DELETE", "/v1/documents/large").status_code == 202


def test_runs_requested_while_one_is_going_become_one_after_it(
    served: Serving, folder: ProjectFolder
):
    with Runs.of(folder.root).alone():
        # Users that a front end names count as its key, for it could make them up.
        user = {"X-Forwarded-User": "somebody"}
        asked = [
            ask(served, "POST", "/v1/runs", FRONT, json={}, headers=user).json() for _ in range(3)
        ]
        assert RequestedRuns.of(folder.root).waiting()[0].keys == ("front",)
        # Long enough for the thread to have tried.
        time.sleep(1)
        assert {one["state"] for one in asked} == {"waiting"}
        assert len({one["id"] for one in asked}) == 1
        again = ask(served, "POST", "/v1/runs", json={}).json()
        assert again["id"] == asked[0]["id"]
        before = Runs.of(folder.root).known_ids()
    path = f"/v1/runs/{asked[0]['id']}"
    wait_until(lambda: ask(served, "GET", path).json()["state"] == "ended", LOST)
    assert len(Runs.of(folder.root).known_ids()) == len(before) + 1
    assert RequestedRuns.of(folder.root).waiting() == []


def test_a_run_that_cannot_begin_says_why(served: Serving, folder: ProjectFolder):
    assert "there is no 'none'" in said(ask(served, "POST", "/v1/runs", json={"workflow": "none"}))
    for name in ("../fast", "", "a/b"):
        assert ask(served, "POST", "/v1/runs", json={"workflow": name}).status_code == 422
    # The workflow "index" asks a model with a price.
    refused = ask(served, "POST", "/v1/runs", json={"workflow": "index"})
    assert (refused.status_code, "serve.runs.cost_per_run" in said(refused)) == (422, True)
    settings = folder.root / "settings.yaml"
    away = settings.rename(folder.root / "away.yaml")
    try:
        ended = run_to_its_end(served)
    finally:
        away.rename(settings)
    assert (ended["state"], "no settings here" in ended["message"]) == ("refused", True)
    assert ask(served, "GET", "/v1/runs/none").status_code == 404


def test_the_ceiling_of_a_day_is_told_as_spent(folder: ProjectFolder):
    limits = ["serve.read_only=false", "serve.runs={cost_per_day: 0, workflows: [index]}"]
    with folder.open(*SETTINGS, *limits) as project, serving(project, ready=False) as served:
        refused = ask(served, "POST", "/v1/runs", json={"workflow": "index", "max_cost": 1})
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "spent")
        assert "Retry-After" in refused.headers
        for no_amount in (0, True, "1"):
            asked = {"workflow": "index", "max_cost": no_amount}
            assert ask(served, "POST", "/v1/runs", json=asked).status_code == 422


def test_a_run_whose_model_has_no_price_is_refused_at_once(folder: ProjectFolder):
    elsewhere = "models.chat.default={base_url: 'http://127.0.0.1:9/v1', model: own}"
    limits = ["serve.read_only=false", "serve.runs={workflows: [index]}"]
    with (
        folder.open(*SETTINGS, *limits, elsewhere) as project,
        serving(project, ready=False) as served,
    ):
        refused = ask(served, "POST", "/v1/runs", json={"workflow": "index", "max_cost": 1})
        assert (refused.status_code, "'own' has no price" in said(refused)) == (422, True)
        assert "--max-tokens" not in said(refused)
        assert RequestedRuns.of(folder.root).waiting() == []


def test_only_workflows_of_settings_can_be_requested_and_only_so_many_files_kept(
    folder: ProjectFolder,
):
    limits = ["serve.read_only=false", "serve.documents.max_files=1"]
    with folder.open(*SETTINGS, *limits) as project, serving(project, ready=False) as served:
        refused = ask(served, "POST", "/v1/runs", json={"workflow": "index"})
        assert (refused.status_code, "serve.runs.workflows" in said(refused)) == (422, True)
        refused = post(served, {"id": "n1", "text": "1"}, {"id": "n2", "text": "2"})
        assert (refused.status_code, "max_files" in said(refused)) == (413, True)


@pytest.mark.parametrize("rights", [{"where": {"a": 1}}, {"view": "v"}])
def test_a_writer_with_conditions_stops_the_server(folder: ProjectFolder, rights: dict[str, Any]):
    key = json.dumps({"key": "k", "writer": True, **rights})
    overrides = [f"serve.keys.narrow={key}", "serve.views={v: {where: {a: 1}}}"]
    with (
        folder.open(*overrides) as project,
        pytest.raises(SettingsError, match="a writer sees all"),
        serving(project, ready=False),
    ):
        pass
