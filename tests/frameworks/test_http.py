"""The client of a server gives what the project gives, and its errors."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import GraphmillError, NotAllowedError, UsageError
from pipeline.frameworks.http import Client
from pipeline.project import Project
from tests.frameworks.conftest import KEY, WRITER

QUESTION = "Who founded the Brack Institute?"


def test_an_answer_is_the_one_of_the_project(project: Project, client: Client):
    own = project.query(QUESTION, mode="naive", top_k=5)
    answer = client.query(QUESTION, mode="naive", top_k=5)
    assert (answer.answer, answer.mode) == (own.text, "naive")
    assert [one.chunk_id for one in answer.references] == [one.chunk_id for one in own.references]
    assert asyncio.run(client.aquery(QUESTION, mode="naive", top_k=5)).answer == own.text


def test_evidence_is_restricted_by_where(client: Client):
    found = client.query_data(QUESTION, mode="naive", chunk_top_k=3)
    source = found.chunks[-1].source
    for narrowed in (
        client.query_data(QUESTION, mode="naive", where={"source": source}),
        asyncio.run(client.aquery_data(QUESTION, mode="naive", where={"source": source})),
    ):
        assert {chunk.source for chunk in narrowed.chunks} == {source}


def test_all_pages_of_documents_are_listed(project: Project, url: str):
    ids = project.add({f"text-{number:03}.md": f"Text {number}." for number in range(101)})
    try:
        with Client(url, WRITER) as writer:
            assert [one.id for one in writer.documents()] == sorted(ids)
    finally:
        project.remove(ids)


def test_errors_of_the_server_are_those_of_a_project(url: str, client: Client):
    wrong: Any = {"topk": 3}
    with pytest.raises(UsageError, match="unknown field 'topk'; did you mean 'top_k'"):
        client.query(QUESTION, **wrong)
    with Client(url, "another-key-than-the-right-one") as stranger:
        with pytest.raises(NotAllowedError) as refused:
            stranger.query(QUESTION)
        assert "another-key" not in str(refused.value)
    with pytest.raises(UsageError, match="no address"):
        Client("localhost:8000", KEY)


def test_a_server_that_is_away_is_told_without_the_password_of_the_address():
    with (
        Client("http://user:secret@127.0.0.1:9", KEY) as client,
        pytest.raises(GraphmillError, match=r"127\.0\.0\.1: .*check the address") as away,
    ):
        client.query(QUESTION)
    assert "secret" not in str(away.value)


def test_a_server_of_another_kind_is_told():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        with (
            Client(f"http://127.0.0.1:{other.server_port}", KEY) as client,
            pytest.raises(GraphmillError, match="status 501 and no answer of graphmill"),
        ):
            client.query(QUESTION)


def test_a_key_is_sent_beside_the_user_of_a_proxy(url: str):
    with Client(url.replace("http://", "http://user:secret@"), KEY) as client:
        assert client.query_data(QUESTION, mode="naive").chunks


class LoudRefusal(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = "\x1b[2J" + "a" * 100_000
        content = json.dumps({"error": {"type": "other", "message": message}}).encode()
        self.send_response(500)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_message_of_a_server_is_short_and_has_no_control_characters():
    with HTTPServer(("127.0.0.1", 0), LoudRefusal) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        with (
            Client(f"http://127.0.0.1:{other.server_port}", KEY) as client,
            pytest.raises(GraphmillError) as refused,
        ):
            client.query(QUESTION)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 3000


def test_a_host_that_no_address_can_have_is_told():
    with (
        Client(f"http://{'a' * 300}.example.org", KEY) as client,
        pytest.raises(GraphmillError, match="check the address"),
    ):
        client.query(QUESTION)


@pytest.mark.parametrize("wrong", ["http://h:x", "http://[::1", "http://", "h:8020"])
def test_a_text_that_is_no_address_is_refused(wrong: str):
    with pytest.raises(UsageError, match="no address"):
        Client(wrong)


def test_no_error_shows_a_key(url: str):
    with pytest.raises(UsageError, match="no key of a server") as refused:
        Client(url, "a-secret\nkey")
    assert "a-secret" not in str(refused.value)


def test_a_key_may_have_the_line_end_of_its_file(url: str):
    with Client(url, f"{KEY}\n") as client:
        assert client.query_data(QUESTION, mode="naive").chunks


def test_the_code_on_the_page_runs(url: str, capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    code = code.replace("http://127.0.0.1:8020", url).replace("THE-KEY", KEY)
    exec(compile(code, "docs/frameworks.md", "exec"), {})
    assert "institute.txt" in capsys.readouterr().out
