"""The doctor sends as many calls at once as a run does, and says how many the server keeps up
with."""

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.doctor.concurrency import (
    MOST_AT_ONCE,
    TOKENS_OF_A_REPLY,
    Burst,
    finding_of,
    slowest_answer,
)
from pipeline.doctor.token_counts import RecordedCalls
from pipeline.models.base import GENEROUS_REPLY, Usage
from tests.doctor.test_doctor import examined
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_machine import OutputRules
from tests.servers.openai_replies import Messages, Reader, Reply, content_of, default_reply
from tests.servers.openai_server import OpenAIServer, Request

CALL_AT_ONCE = re.compile(r"\((\d+)\) Count from one")
FINDING = "chat default concurrency"


@pytest.fixture
def project(tmp_path: Path, openai: OpenAIServer) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, endpoint=openai)


def number_of(messages: Messages) -> int | None:
    """Return the number of a call of this check: 0 for the one alone, None for other calls of the
    doctor."""
    found = CALL_AT_ONCE.match(content_of(messages[-1]))
    return int(found[1]) if found else None


def sent(openai: OpenAIServer) -> list[Request]:
    return [
        one for one in openai.requests if one.kind == "chat" and number_of(one.messages) is not None
    ]


def default(name: str, value: object) -> str:
    return f"models.chat.default.{name}={value}"


def meeting(calls: int) -> Reader:
    """Return a server that answers no call before this many are under way."""
    all_there = threading.Barrier(calls, timeout=60)

    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        if number_of(messages):
            all_there.wait()
        return default_reply(messages, body)

    return reply


def holding(first: int) -> Reader:
    """Return a server that never answers calls at once from this number on."""

    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        number = number_of(messages)
        return Reply(hold=True) if number and number >= first else default_reply(messages, body)

    return reply


@pytest.mark.parametrize(("concurrency", "calls"), [(3, 3), (64, MOST_AT_ONCE)])
def test_as_many_calls_as_settings_allow_are_under_way_together(
    project: ProjectFolder, openai: OpenAIServer, concurrency: int, calls: int
):
    openai.reply = meeting(calls)
    found = examined(project, default("concurrency", concurrency))
    assert found[FINDING].fact.startswith(f"{calls} calls at once: ")
    assert len(sent(openai)) == 1 + calls
    assert {request.body["max_tokens"] for request in sent(openai)} == {TOKENS_OF_A_REPLY}
    assert f"made {openai.count('chat')} calls" in found["chat default bill"].fact


@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_measured_speed_gives_the_first_plan_its_time(
    project: ProjectFolder, openai: OpenAIServer, concurrency: int
):
    at_once = default("concurrency", concurrency)
    overrides = [*project.endpoint_overrides, at_once]
    with project.open(*overrides) as opened:
        before = opened.forecast("index")
    examined(project, at_once)
    with project.open(*overrides) as opened:
        after = opened.forecast("index")
        speed = opened.reply_speed(opened.chat("default"))
    assert speed
    unmeasured = {entry.planned.step.id for entry in before if entry.seconds is None}
    assert "extract_graph" in unmeasured
    (extraction,) = [entry for entry in after if entry.planned.step.id == "extract_graph"]
    assert extraction.seconds
    assert extraction.seconds[1] == pytest.approx(extraction.estimate.output_tokens[1] / speed)


def test_a_server_of_one_slot_gets_a_lower_concurrency_advised(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.slots.limit, openai.delay = 1, 0.1
    finding = examined(project, default("concurrency", 8), default("timeout", 12))[FINDING]
    assert finding.verdict == "warning"
    assert "an extraction may take" in finding.fact
    advised = re.match(r"set in models\.chat\.default: concurrency: (\d+)", finding.action)
    assert advised, finding
    assert int(advised[1]) < 8


def test_calls_that_time_out_are_not_sent_again_and_lower_the_concurrency(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = holding(3)
    found = examined(project, default("concurrency", 6), default("timeout", 3))
    assert found[FINDING].verdict == "warning"
    assert "4 calls timed out (3 s)" in found[FINDING].fact
    assert re.match(r"set in models\.chat\.default: concurrency: [12]\b", found[FINDING].action)
    assert len(sent(openai)) == 1 + 6
    assert f"made {openai.count('chat')} calls" in found["chat default bill"].fact


def test_calls_at_once_that_the_server_refuses_are_a_warning(
    project: ProjectFolder, openai: OpenAIServer
):
    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        if number_of(messages) == 2:
            return Reply("The queue is full.", status=500)
        return default_reply(messages, body)

    openai.reply = reply
    finding = examined(project, default("concurrency", 4))[FINDING]
    assert finding.verdict == "warning"
    assert finding.fact.startswith("1 of 4 calls at once failed: server_error")
    assert "The queue is full." in finding.fact
    assert len(sent(openai)) == 1 + 4


def test_a_model_that_thinks_within_the_limit_is_asked_once_more_alone(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.output = OutputRules(thinking=100)
    found = examined(project, default("concurrency", 4))
    assert found[FINDING].verdict == "ok"
    assert ["max_tokens" in request.body for request in sent(openai)] == [
        True,
        False,
        False,
        False,
        False,
        False,
    ]
    assert f"made {openai.count('chat')} calls" in found["chat default bill"].fact


@pytest.mark.parametrize(
    "setting", [("concurrency", 1), ("requests_per_minute", 6000), ("tokens_per_minute", 9e6)]
)
def test_nothing_is_sent_where_no_calls_are_under_way_together(
    project: ProjectFolder, openai: OpenAIServer, setting: tuple[str, float]
):
    found = examined(project, default(*setting))
    assert FINDING not in found
    assert sent(openai) == []


@pytest.mark.parametrize(
    ("burst", "verdict", "action"),
    [
        (Burst(16, 16, alone=1, slowest=2, scale=10, timeout=120), "ok", ""),
        (Burst(16, 16, alone=1, slowest=16, scale=10, timeout=120), "warning", "concurrency: 1"),
        (Burst(16, 16, alone=1, slowest=8, scale=10, timeout=120), "warning", "concurrency: 2"),
        (
            Burst(16, 10, alone=10, slowest=100, scale=10, timeout=120),
            "warning",
            "concurrency: 1, timeout: 200",
        ),
        (Burst(16, 0, alone=1, slowest=120, scale=10, timeout=120), "warning", "concurrency: 1"),
        (Burst(4, 4, alone=9, slowest=9, scale=10, timeout=120), "warning", "timeout: 180"),
    ],
)
def test_the_advice_follows_from_the_turns_that_calls_took(burst: Burst, verdict: str, action: str):
    finding = finding_of("default", burst)
    assert finding.verdict == verdict
    assert finding.action == (f"set in models.chat.default: {action}" if action else "")


def test_calls_of_which_none_was_answered_took_the_whole_timeout():
    heard = RecordedCalls([Usage("a", "m", 1, 1, False, 3.0, "timeout")])
    assert slowest_answer(heard, 0, timeout=120) == 120
    heard.ended(Usage("b", "m", 1, 1, False, 0.0))
    assert 0 < slowest_answer(heard, 0, timeout=120) < 1


def test_every_call_of_the_doctor_has_a_limit(project: ProjectFolder, openai: OpenAIServer):
    examined(project, default("concurrency", 1))
    chats = [request.body for request in openai.requests if request.kind == "chat"]
    assert any(body.get("stream") for body in chats)
    assert any("response_format" in body for body in chats)
    assert {body.get("max_tokens") for body in chats} == {GENEROUS_REPLY}
