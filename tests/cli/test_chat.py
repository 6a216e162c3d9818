"""A conversation on the command line: answers by a scripted model, from stores in memory."""

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from pipeline.cli.chat import HELP, Conversation, line_reader
from pipeline.errors import ModelError
from pipeline.query.stream import Event, stream_answer
from tests.query.memory_stores import ScriptedChat, question, resources, village


class Asked:
    """What a conversation needs of a project."""

    def __init__(self, *replies: str):
        self.chat = ScriptedChat(list(replies))

    def query_stream(self, text: str, **options: Any) -> Iterator[Event]:
        given = {name: value for name, value in options.items() if value is not None}
        return stream_answer(question(text, **given), resources(village(), self.chat))


def talk(*replies: str) -> tuple[Conversation, ScriptedChat]:
    project = Asked(*replies)
    return Conversation(project, {"mode": "naive", "model": None}), project.chat  # pyright: ignore[reportArgumentType]


def test_a_question_may_refer_to_those_before_it(capsys: pytest.CaptureFixture[str]):
    spoken, chat = talk("Ada [ref:1].", "In May [ref:2].")
    spoken.take("Who taught Bea?")
    spoken.take("And when?")
    assert [message["content"] for message in chat.asked[1].messages[1:3]] == [
        "Who taught Bea?",
        "Ada [1].",
    ]
    assert "In May [2]." in capsys.readouterr().out


def test_a_new_conversation_knows_nothing_of_the_one_before():
    spoken, chat = talk("Ada.", "In May.")
    for line in ("Who taught Bea?", "/new", "And when?"):
        spoken.take(line)
    assert [message["role"] for message in chat.asked[1].messages] == ["system", "user"]


def test_all_sources_are_listed_when_asked_for(capsys: pytest.CaptureFixture[str]):
    spoken, _ = talk("Ada [ref:1].")
    for line in ("/sources", "Who taught Bea?", "/sources"):
        spoken.take(line)
    assert "  [4] " in capsys.readouterr().out


def test_a_question_that_fails_is_no_part_of_the_conversation(capsys: pytest.CaptureFixture[str]):
    spoken, chat = talk("Ada.")
    chat.stream = lambda request: (_ for _ in ()).throw(ModelError("the model is away; start it"))
    spoken.take("Who taught Bea?")
    assert (spoken.turns, spoken.goes_on) == ([], True)
    assert "the model is away; start it" in capsys.readouterr().err


def test_commands_are_told_and_quit_ends(capsys: pytest.CaptureFixture[str]):
    spoken, _ = talk()
    for line in ("", "/what", "/quit"):
        spoken.take(line)
    assert HELP in capsys.readouterr().err
    assert not spoken.goes_on


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("pipeline.cli.chat.find_spec", lambda name: None)


def test_without_an_editor_lines_are_read_as_the_terminal_gives_them(
    monkeypatch: pytest.MonkeyPatch,
):
    at_a_terminal(monkeypatch)
    monkeypatch.setattr("builtins.input", lambda prompt: f"{prompt}Who?")
    assert line_reader()() == "> Who?"


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt])
def test_output_after_an_abandoned_line_begins_a_new_line(
    end: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    at_a_terminal(monkeypatch)
    monkeypatch.setattr("builtins.input", lambda prompt: (_ for _ in ()).throw(end))
    with pytest.raises(end):
        line_reader()()
    assert capsys.readouterr().out == "\n"


def test_questions_from_a_pipe_leave_no_prompt_between_the_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.stdin", StringIO("Who taught Bea?\n"))
    assert (line_reader()(), capsys.readouterr().out) == ("Who taught Bea?", "")
