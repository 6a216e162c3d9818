"""The audit log: who has asked what, been shown what, changed what; and that it can be kept short
and clean."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pipeline.errors import StoreError
from pipeline.runs.audit import LONGEST_TEXT, AuditLog
from pipeline.serve.tries import TRIES
from tests.projects import ProjectFolder
from tests.serve.conftest import models_of
from tests.serve.serving import QUESTION, Serving, serving, wait_until
from tests.servers.openai_server import OpenAIServer

KEY, EDIT, FRONT = "a-key-of-some-length", "an-editor's-long-key", "a-front-end's-long-key"
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
ON = ["serve.audit.enabled=true", "serve.audit.texts=text"]
KEYS = [
    f"serve.keys.desk={{key: {KEY}, where: {{source: institute.txt}}}}",
    f"serve.keys.ed={{key: \"{EDIT}\", editor: true}}",
    f"serve.keys.front={{key: \"{FRONT}\", acts_for_users: true}}", "serve.read_only=false",
]  # fmt: skip


def log_in(folder: ProjectFolder) -> AuditLog:
    return AuditLog(folder.root / "data/audit")


@pytest.fixture
def audited(folder: ProjectFolder, openai: OpenAIServer) -> Iterator[Serving]:
    for file in log_in(folder).folder.glob("*"):
        file.unlink()
    price = "models.chat.default.price={input: 100, output: 100}"
    settings = [*ON, *KEYS, *models_of(openai), "cache=''", price]
    with folder.open(*settings) as project, serving(project) as served:
        yield served


def ask(served: Serving, path: str, key: str = KEY, **body: Any) -> httpx2.Response:
    headers = {"X-API-Key": key, **({"X-Forwarded-User": "ana"} if key == FRONT else {})}
    return httpx2.post(f"{served.url}{path}", json=body, headers=headers, timeout=60)


@pytest.mark.parametrize("path", ["/query", "/query/data", "/query/stream"])
def test_a_question_has_its_line(audited: Serving, folder: ProjectFolder, path: str):
    answer = ask(audited, path, query=QUESTION, mode="naive")
    assert answer.status_code == 200
    (line,) = log_in(folder).lines()
    assert datetime.fromisoformat(line["at"]).tzinfo is not None
    assert (line["kind"], line["key"], line["user"], line["text"]) == (
        "question",
        "desk",
        "",
        QUESTION,
    )
    assert (line["mode"], line["outcome"]) == ("naive", "answered")
    assert {passage["source"] for passage in line["passages"]} == {"institute.txt"}
    assert all(passage["unit"].startswith("chunk-") for passage in line["passages"])
    assert line["loaded"].startswith("fast ")
    assert line["question_id"] in answer.text
    assert (line["cost"] > 0, line["model"] != "") == (
        (True, True) if path != "/query/data" else (False, False)
    )


def test_the_user_of_a_front_end_and_what_was_refused(audited: Serving, folder: ProjectFolder):
    ask(audited, "/query/data", FRONT, query=QUESTION, mode="naive")
    assert ask(audited, "/query", query=QUESTION, mode="bypass").status_code == 403
    ask(audited, "/query/stream", query=QUESTION, mode="bypass")
    by_user, refused, of_stream = log_in(folder).lines()
    assert (by_user["key"], by_user["user"]) == ("front", "ana")
    assert {"passages", "cost"} & refused.keys() == set()
    assert (refused["outcome"], of_stream["outcome"]) == ("not_allowed", "not_allowed")


def test_edits_and_sign_ins(audited: Serving, folder: ProjectFolder):
    pin = {"decision": "same", "a": "Mira Vale", "b": "Harrow Light"}
    assert ask(audited, "/ui/pin", **pin).status_code == 403
    done = ask(audited, "/ui/pin", EDIT, **pin)
    ours = {"Sec-Fetch-Site": "same-origin"}
    with httpx2.Client(base_url=audited.url, headers=ours, timeout=60) as browser:
        for key in ("wrong", KEY):
            browser.post("/login", data={"key": key})
        browser.post("/logout")
    refused, edit, wrong, signed_in, out = log_in(folder).lines()
    assert (refused["kind"], refused["key"], refused["path"], refused["status"]) == (
        "edit",
        "desk",
        "/ui/pin",
        403,
    )
    assert (edit["key"], edit["status"], edit["text"]) == (
        "ed",
        done.status_code,
        "same: Mira Vale | Harrow Light",
    )
    assert [line["kind"] for line in (wrong, signed_in, out)] == ["sign-in"] * 3
    assert [(line["how"], line["outcome"], line["key"]) for line in (wrong, signed_in, out)] == [
        ("key", "refused", ""), ("key", "ok", "desk"), ("out", "ok", "desk"),
    ]  # fmt: skip
    assert signed_in["address"] == "127.0.0.1"
    files = "".join(file.read_text() for file in log_in(folder).folder.glob("*.jsonl"))
    assert not [secret for secret in (KEY, EDIT, "wrong") if secret in files]


def test_a_sign_in_that_waits_for_the_log_does_not_stop_other_requests(
    audited: Serving, folder: ProjectFolder
):
    with ThreadPoolExecutor(1) as threads, log_in(folder)._alone():
        signing_in = threads.submit(
            httpx2.post, f"{audited.url}/login", data={"key": KEY}, headers=OWN_PAGE, timeout=60
        )
        # The answer may come before the server has begun to sign in, so it is asked several times.
        for _ in range(20):
            httpx2.get(f"{audited.url}/session", timeout=10).raise_for_status()
        assert not signing_in.done()
        assert not list(log_in(folder).lines())
    assert signing_in.result().status_code in (200, 303)
    assert [line["outcome"] for line in log_in(folder).lines()] == ["ok"]


def test_a_stream_that_nobody_reads_to_its_end_has_its_line(
    audited: Serving, folder: ProjectFolder
):
    headers = {"X-API-Key": KEY}
    with httpx2.stream(
        "POST",
        f"{audited.url}/query/stream",
        json={"query": QUESTION, "mode": "naive"},
        headers=headers,
        timeout=60,
    ) as answer:
        next(answer.iter_raw())
    wait_until(lambda: len(list(log_in(folder).lines())) == 1)
    (line,) = log_in(folder).lines()
    assert line["outcome"] in ("broken off", "answered")
    assert line["passages"]


def test_what_cannot_be_written_down_is_not_answered(audited: Serving, folder: ProjectFolder):
    blocked = log_in(folder).folder / f"{datetime.now(UTC):%Y-%m-%d}.jsonl"
    blocked.mkdir(parents=True)
    try:
        refused = ask(audited, "/query/data", query=QUESTION, mode="naive")
        assert (refused.status_code, "institute" in refused.text) == (503, False)
    finally:
        blocked.rmdir()


@pytest.mark.parametrize("hashed", [True, False])
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, hashed: bool):
    """The secret of hashes is in that folder, too."""
    (tmp_path / "audit").write_text("in the way")
    with pytest.raises(StoreError, match="the audit log could not be written"):
        AuditLog(tmp_path / "audit", hashed).add("question", "Who built it?")


def test_by_default_there_is_none(served: Serving, folder: ProjectFolder):
    before = list(log_in(folder).lines())
    served.ask("/query/data", mode="naive")
    assert list(log_in(folder).lines()) == before


def test_an_export_has_its_line(folder: ProjectFolder, tmp_path: Path):
    with folder.open(*ON) as project:
        project.export("graphml", tmp_path / "graph", "fast")
    line = list(log_in(folder).lines())[-1]
    assert (line["kind"], line["what"], line["workflow"]) == ("export", "graphml", "fast")


def test_hashes_are_equal_for_equal_texts_and_cannot_be_guessed(tmp_path: Path):
    one, other = (AuditLog(tmp_path / name) for name in ("one", "other"))
    for log in (one, one, other):
        log.add("question", "Who is dismissed in May?")
    (first, second), (elsewhere,) = list(one.lines()), list(other.lines())
    assert first["text_hash"] == second["text_hash"] != elsewhere["text_hash"]
    assert "dismissed" not in "".join(file.read_text() for file in tmp_path.rglob("*.jsonl"))
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.rglob("*.jsonl"))
    assert (tmp_path / "one/hash-key").stat().st_mode & 0o077 == 0


def test_a_text_is_kept_up_to_a_limit_so_that_refused_questions_do_not_fill_the_disk(
    tmp_path: Path,
):
    log = AuditLog(tmp_path, hashed=False)
    for length in (LONGEST_TEXT, 900_000):
        log.add("question", "x" * length)
    at_the_limit, longer = log.lines()
    assert at_the_limit["text"] == longer["text"] == "x" * LONGEST_TEXT
    assert longer["characters"] == 900_000
    assert "characters" not in at_the_limit


def test_files_of_earlier_days_go_when_a_new_one_begins(tmp_path: Path):
    log = AuditLog(tmp_path, keep_days=30)
    today = datetime.now(UTC)
    for days in (29, 30, 31, 400):
        (tmp_path / f"{today - timedelta(days=days):%Y-%m-%d}.jsonl").write_text("{}\n")
    log.add("edit")
    log.add("edit")
    kept = sorted(file.stem for file in tmp_path.glob("*.jsonl"))
    assert kept == sorted(f"{today - timedelta(days=days):%Y-%m-%d}" for days in (0, 29, 30))


def test_a_purged_document_is_taken_out_and_the_rest_stays(tmp_path: Path):
    log = AuditLog(tmp_path, hashed=False)
    secret, public = (
        {"source": "secret.csv#7", "document": "doc-1"},
        {"source": "open.txt", "document": "doc-2"},
    )
    # JSON leaves the last sign as it is, and some readers of text take it for a line's end.
    log.add(
        "question",
        "What does Idra earn?\N{LINE SEPARATOR}",
        key="a",
        passages=[secret, public],
        cost=1.5,
    )
    log.add("question", "Who built\N{LINE SEPARATOR}it?", key="b", passages=[public])
    before = list(log.lines())
    cut_off = '{"at": "2026'
    file = next(tmp_path.glob("*.jsonl"))
    file.write_text(file.read_text() + cut_off)
    assert log.forget(lambda source: source.startswith("secret.csv")) == 1
    assert log.forget(lambda source: source.startswith("secret.csv")) == 0
    first, second = log.lines()
    assert second == before[1]
    assert first["passages"] == [public, {"source": "purged"}]
    assert (first["key"], first["cost"], "text" in first) == ("a", 1.5, False)
    assert not [word for word in ("secret.csv", "doc-1", "Idra") if word in file.read_text()]
    log.add("edit")  # ends the line that was cut off
    assert [line["kind"] for line in log.lines()] == ["question", "question", "edit"]
    assert os.stat(file).st_mode & 0o077 == 0


@pytest.mark.parametrize("sign", ["\u2028", "\u0085"])
def test_a_text_with_a_sign_that_ends_lines_elsewhere_stays_one_line(tmp_path: Path, sign: str):
    log = AuditLog(tmp_path, hashed=False)
    log.add("question", f"Who{sign}is Idra?", passages=[{"source": f"secret{sign}.csv"}])
    log.add("question", "Who?", passages=[{"source": "secret.csv"}])
    assert [line["text"] for line in log.lines()] == [f"Who{sign}is Idra?", "Who?"]
    assert log.forget(lambda source: source.startswith("secret")) == 2
    assert [line["passages"] for line in log.lines()] == [[{"source": "purged"}]] * 2
    assert "Idra" not in next(tmp_path.glob("*.jsonl")).read_text()


def test_a_question_sends_no_orders_to_the_terminal_that_shows_the_log(tmp_path: Path):
    text = "Who \x9b2J \x1b[2J \x7f \u202e built \u2066 it?"
    log = AuditLog(tmp_path, hashed=False)
    log.add("question", text)
    (file,) = tmp_path.glob("*.jsonl")
    assert file.read_text(encoding="utf-8").rstrip("\n").isprintable()
    assert [line["text"] for line in log.lines()] == [text]


def test_files_of_others_stay(tmp_path: Path):
    (tmp_path / "0-notes.jsonl").write_text("{}\n")
    log = AuditLog(tmp_path, keep_days=1)
    log.add("edit")
    assert (tmp_path / "0-notes.jsonl").exists()
    assert len(list(log.lines())) == 1


def test_strangers_cannot_fill_the_log_with_wrong_keys(audited: Serving, folder: ProjectFolder):
    with ThreadPoolExecutor(TRIES + 5) as threads:
        trying = [threads.submit(httpx2.post, f"{audited.url}/login", data={"key": "wrong"}, headers=OWN_PAGE)  # noqa: E501
                  for _ in range(TRIES + 5)]  # fmt: skip
        statuses = sorted(each.result().status_code for each in trying)
    assert statuses == [401] * TRIES + [429] * 5
    assert [line["outcome"] for line in log_in(folder).lines()] == ["refused"] * TRIES


def add_many(folder: Path, name: str) -> None:
    log = AuditLog(folder, hashed=False)
    for number in range(50):
        log.add("question", f"{name} {number}" * 50, passages=[{"source": "s.txt"}])


def test_no_line_is_lost_to_another_writer_nor_to_a_purge(tmp_path: Path):
    """Each opens its files anew, so that threads are held apart just as processes are."""
    log, forgotten = AuditLog(tmp_path, hashed=False), 0
    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(add_many, tmp_path, name) for name in "ab"]
        while not all(each.done() for each in writing):
            forgotten += log.forget(lambda source: source == "s.txt")
        for each in writing:
            each.result()
    forgotten += log.forget(lambda source: source == "s.txt")
    assert (len(list(log.lines())), forgotten) == (100, 100)
    assert "s.txt" not in json.dumps(list(log.lines()))
