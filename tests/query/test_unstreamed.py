"""Questions to an endpoint that does not stream, and questions asked without streaming."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.query.answer import Answer
from pipeline.query.stream import Done, Token
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_replies import Reply
from tests.servers.openai_server import OpenAIServer

QUESTION = "Who built the Harrow Light?"
ANSWER = "Mira Vale built the Harrow Light, in the year 1871 [ref:1]."


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    folder = new_project(tmp_path_factory.mktemp("unstreamed") / "p", postgres_url)
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture
def project(loaded: ProjectFolder, openai: OpenAIServer) -> Iterator[ProjectFolder]:
    (loaded.root / "data" / "cache.sqlite").unlink(missing_ok=True)
    openai.reply = lambda messages, body: Reply(ANSWER)
    return ProjectFolder(loaded.root, openai.env)


def streamed_requests(openai: OpenAIServer) -> list[bool]:
    return [
        bool(request.body.get("stream")) for request in openai.requests if request.kind == "chat"
    ]


def told(project: ProjectFolder, **options: object) -> tuple[list[str], Answer]:
    with project.open(*project.endpoint_overrides) as opened:
        *events, done = opened.query_stream(QUESTION, mode="naive", **options)
    assert isinstance(done, Done), done
    return [event.text for event in events if isinstance(event, Token)], done.answer


def test_an_endpoint_that_does_not_stream_answers_streamed_questions(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.streams = False
    pieces, answer = told(project)
    assert "".join(pieces) == answer.text == ANSWER.replace("[ref:1]", "[1]")
    assert streamed_requests(openai) == [True]
    assert answer.usage["calls"] == 1
    assert answer.usage["output_tokens"] > 0


def test_the_commands_answer_by_an_endpoint_that_does_not_stream(
    project: ProjectFolder, openai: OpenAIServer, monkeypatch: pytest.MonkeyPatch
):
    openai.streams = False
    plain = project.invoke("query", QUESTION, "--mode", "naive")
    assert (plain.exit_code, ANSWER.replace("[ref:1]", "[1]") in plain.stdout) == (0, True)
    lines = iter([QUESTION, "/quit"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(lines))
    chatted = project.invoke("chat", "--mode", "naive")
    assert (chatted.exit_code, ANSWER.replace("[ref:1]", "[1]") in chatted.stdout) == (0, True)


@pytest.mark.parametrize("option", ["--no-stream", "--json"])
def test_an_answer_that_is_shown_whole_is_asked_for_as_a_whole(
    project: ProjectFolder, openai: OpenAIServer, option: str
):
    done = project.invoke("query", QUESTION, "--mode", "naive", option)
    assert done.exit_code == 0
    assert ANSWER.replace("[ref:1]", "[1]") in done.stdout
    assert streamed_requests(openai) == [False]


def test_a_streamed_answer_comes_in_pieces_and_an_unstreamed_one_in_one(
    project: ProjectFolder, openai: OpenAIServer
):
    pieces, streamed = told(project)
    [piece], whole = told(project, stream=False)
    assert len(pieces) > 1
    assert "".join(pieces) == piece == streamed.text == whole.text
    assert streamed_requests(openai) == [True]  # the second is known


def test_an_answer_without_a_stated_end_says_so(project: ProjectFolder, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply(ANSWER, finish_reason=None)
    _, answer = told(project)
    assert any("did not say why the answer ended" in note for note in answer.notes)


def test_doctor_says_whether_the_endpoint_streams(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    project = new_project(tmp_path / "p", postgres_url, endpoint=openai)

    def streaming() -> str:
        with project.open(*project.endpoint_overrides) as opened:
            [found] = [
                finding for finding in opened.doctor() if finding.what == "default streaming"
            ]
        return f"{found.verdict}: {found.fact}"

    assert streaming() == "ok: answers come in pieces"
    openai.streams = False
    assert streaming() == "ok: the endpoint does not stream: an answer is shown when it is whole"
