"""Which turn of a chat client's conversation is the question, and which requests are none."""

import json
import time
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.serve.chat.bodies import Message
from pipeline.serve.chat.conversation import read_conversation, reply_to_task

HISTORY = (
    "### Chat History:\n<chat_history>\nUSER: Who founded the Brack Institute, and when was that,"
    " and who taught there?\nASSISTANT: Idra Senn [1].\n</chat_history>"
)


def turns(*said: tuple[str, Any]) -> list[Message]:
    return [Message(role=role, content=content) for role, content in said]  # pyright: ignore[reportArgumentType]


def task(output: str) -> str:
    return f"### Task:\nDo it.\n### Output:\nJSON format: {output}\n{HISTORY}"


def test_the_last_turn_of_a_person_is_the_question():
    read = read_conversation(
        turns(
            ("developer", "Be brief."),
            ("user", "Who?"),
            ("assistant", None),
            ("tool", "42"),
            ("assistant", "She."),
            ("user", [{"type": "text", "text": "And"}, {"type": "file"}, {"text": "when?"}]),
            ("system", "At the end."),
        )
    )
    assert read.question == "And\nwhen?"
    assert [(turn["role"], turn["content"]) for turn in read.history] == [
        ("system", "Be brief."),
        ("user", "Who?"),
        ("assistant", "She."),
        ("system", "At the end."),
    ]
    assert read.notes == (
        "1 turn of tools left out of the conversation",
        "1 part of the messages left out: only text is read",
    )


@pytest.mark.parametrize("said", [[("assistant", "I")], [("system", "S")], [("tool", "t")]])
def test_a_conversation_without_a_question_at_its_end_is_refused(said: list[tuple[str, str]]):
    with pytest.raises(UsageError, match="messages: the last turn is no user's"):
        read_conversation(turns(*said))


@pytest.mark.parametrize(
    ("output", "reply"),
    [
        ('{ "tags": ["tag1", "tag2"] }', {"tags": []}),
        ('{ "follow_ups": ["Question 1?"] }', {"follow_ups": []}),
        ('{ "queries": ["query1"] }', {"queries": []}),
        ('{ "text": "<completion>" }', {"text": ""}),
        (
            '{ "title": "your title" }',
            {"title": "Who founded the Brack Institute, and when was that, and who …"},
        ),
    ],
)
def test_each_task_of_open_webui_has_its_fixed_reply(output: str, reply: dict[str, Any]):
    asked = read_conversation(turns(("system", "Be brief."), ("user", task(output))))
    assert json.loads(reply_to_task(asked) or "") == reply


@pytest.mark.parametrize(
    "said",
    [
        [("user", "### Task: which tasks did she have?")],
        [("user", "What is <chat_history> </chat_history>?")],
        [("user", "Who?"), ("assistant", "She."), ("user", task('{ "tags": [] }'))],
    ],
)
def test_a_question_is_no_task(said: list[tuple[str, str]]):
    assert reply_to_task(read_conversation(turns(*said))) is None


def test_a_long_prompt_is_read_in_no_time():
    prompt = "### Task:" + "<chat_history>### Output:### Chat History:" * 20_000
    began = time.perf_counter()
    assert reply_to_task(read_conversation(turns(("user", prompt)))) is None
    assert time.perf_counter() - began < 1
