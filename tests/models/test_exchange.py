"""Conversations: the requests and their order, and the replies that are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.base import ChatReply, ChatRequest, Talk, one_question
from pipeline.models.conversations import ROWS_AT_ONCE, Exchange, in_rounds

BAD = "bad"


def ask(text: str, row: str = "row") -> ChatRequest:
    return ChatRequest(row, ({"role": "user", "content": text},))


def text_of(request: ChatRequest) -> str:
    return request.messages[-1]["content"]


def say(text: str) -> ChatReply:
    return ChatReply(f"on {text}", message="unreadable" if text.startswith(BAD) else "")


@dataclass
class Notebook:
    """Memory whose keys are the texts of the requests."""

    known: dict[str, ChatReply] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    looks: int = 0

    def key(self, request: ChatRequest) -> str:
        return text_of(request)

    def recall(self, requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        self.looks += bool(requests)
        return {key: replace(self.known[key], cached=True) for key in requests if key in self.known}

    def flag(self, valid: Mapping[str, bool]) -> None:
        self.flags |= valid


def script(*turns: Sequence[str], row: str = "row") -> Talk[list[list[str]]]:
    """Make these requests, turn by turn, and return the replies.

    A request after a bad reply mends it, unless its text says that it is "beside" it.
    """
    told = []
    bad = None
    for texts in turns:
        requests = [
            replace(ask(text, row), mends=None if "beside" in text else bad) for text in texts
        ]
        replies = yield requests
        told.append([reply.text for reply in replies])
        bad = next(
            (request for request, reply in zip(requests, replies, strict=True) if not reply.good),
            None,
        )
    return told


def drive(talks: Any, memory: Notebook) -> tuple[list[Any], list[set[str]], list[tuple[str, bool]]]:
    """Return the results, the requests of each round, and the requests that needed no call."""
    rounds: list[set[str]] = []
    heard: list[tuple[str, bool]] = []

    def answer(requests: Mapping[str, ChatRequest]) -> dict[str, ChatReply]:
        rounds.append(set(requests))
        return {key: say(key) for key in requests}

    exchange = Exchange(
        talks, memory, lambda request, reply: heard.append((request.row_id, reply.cached))
    )
    return in_rounds(exchange, answer), rounds, heard


def test_equal_requests_are_asked_once_whoever_has_them():
    talks = [
        script(["a", "b"], row="1"),
        script(["b"], ["a"], row="2"),
        script(["a", "a"], row="3"),
    ]
    results, rounds, heard = drive(talks, Notebook(known={}))
    assert results == [[["on a", "on b"]], [["on b"], ["on a"]], [["on a", "on a"]]]
    assert rounds[0] == {"a", "b"}
    assert ("2", True) in heard
    assert ("3", True) in heard
    assert all(cached for _, cached in heard)


def test_a_follow_up_that_another_row_waits_for_is_not_asked_again():
    asked = Exchange(
        [script(["a"], ["b"]), script(["b"], ["c"])], Notebook(), lambda request, reply: None
    )
    assert set(asked.begin() or {}) == {"a", "b"}
    assert asked.answer({"a": say("a")}) == {}
    assert set(asked.answer({"b": say("b")})) == {"c"}
    asked.answer({"c": say("c")})
    assert asked.results() == [[["on a"], ["on b"]], [["on b"], ["on c"]]]


def test_known_replies_are_not_requested_and_one_lookup_serves_many_rows():
    memory = Notebook(known={str(n): say(str(n)) for n in range(0, 600, 2)})
    results, rounds, heard = drive((script([str(n)]) for n in range(600)), memory)
    assert [told for ((told,),) in results] == [f"on {n}" for n in range(600)]
    assert sum(map(len, rounds)) == 300
    assert len(heard) == 300
    assert memory.looks == -(-600 // ROWS_AT_ONCE)


def test_conversations_may_end_without_a_question_and_ask_nothing_in_a_turn():
    results, rounds, _ = drive([script(), script([], ["a"], []), script(["a"])], Notebook())
    assert results == [[], [[], ["on a"], []], [["on a"]]]
    assert rounds == [{"a"}]
    assert drive([], Notebook()) == ([], [], [])


def test_conversations_are_begun_only_as_they_are_needed():
    begun = []

    def talks():
        for n in range(3):
            begun.append(n)
            yield script([str(n)])

    exchange = Exchange(talks(), Notebook(), lambda request, reply: None)
    assert begun == []
    assert set(exchange.begin(rows=2) or {}) == {"0", "1"}
    assert begun == [0, 1]
    assert set(exchange.begin(rows=2) or {}) == {"2"}
    assert exchange.begin(rows=2) is None


@pytest.mark.parametrize(
    ("turns", "flags"),
    [
        ([["a"]], {"a": True}),
        ([["bad"]], {"bad": False}),
        ([["bad"], ["a"]], {"bad": True, "a": True}),
        ([["bad"], ["a", "b"]], {"bad": True, "a": True, "b": True}),
        ([["bad"], ["a", "bad 2"]], {"bad": False, "a": True, "bad 2": False}),
        ([["bad"], ["bad 2"], ["a"]], {"bad": True, "bad 2": True, "a": True}),
        ([["bad"], ["bad 2"], ["bad 3"]], {"bad": False, "bad 2": False, "bad 3": False}),
        ([["a"], ["bad"]], {"a": True, "bad": False}),
        ([["bad"], ["a"], ["bad 2"]], {"bad": True, "a": True, "bad 2": False}),
        ([["bad"], ["beside"]], {"bad": False, "beside": True}),
        (
            [["bad", "a"], ["beside"], ["beside too"]],
            {"bad": False, "a": True, "beside": True, "beside too": True},
        ),
        ([["bad"], ["a", "bad beside"]], {"bad": True, "a": True, "bad beside": False}),
    ],
)
def test_a_bad_reply_is_kept_for_good_when_those_that_mend_it_are_good(
    turns: list[list[str]], flags: dict[str, bool]
):
    memory = Notebook()
    drive([script(*turns)], memory)
    assert memory.flags == flags


@pytest.mark.parametrize("first", [0, 1])
def test_a_bad_reply_that_one_of_two_conversations_mends_is_not_kept(first: int):
    talks = [script(["bad"], ["a"], row="1"), script(["bad"], row="2")]
    memory = Notebook()
    drive([talks[first], talks[1 - first]], memory)
    assert memory.flags == {"bad": False, "a": True}


def test_an_exception_in_a_conversation_is_raised():
    def broken() -> Talk[None]:
        yield [ask("a")]
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        drive([script(["b"]), broken()], Notebook())


TEXTS = st.sampled_from(["a", "b", "c", "d", "bad e"])
TURNS = st.lists(st.lists(TEXTS, max_size=3), max_size=4)


@given(st.lists(TURNS, max_size=8), st.randoms(use_true_random=False), st.integers(1, 5))
def test_results_keep_their_order_whatever_the_order_of_replies(
    rows: list[list[list[str]]], random: Any, at_once: int
):
    exchange = Exchange([script(*turns) for turns in rows], Notebook(), lambda request, reply: None)
    waiting: dict[str, ChatRequest] = {}
    begun: Mapping[str, ChatRequest] | None = {}
    while begun is not None or waiting:
        if begun is not None and (not waiting or random.random() < 0.5):
            begun = exchange.begin(at_once)
            assert not set(begun or {}) & set(waiting)
            waiting |= begun or {}
        elif waiting:
            some = random.sample(sorted(waiting), random.randint(1, len(waiting)))
            new = exchange.answer({key: say(key) for key in some if waiting.pop(key)})
            assert not set(new) & set(waiting)
            waiting |= new
    assert exchange.results() == [
        [[f"on {text}" for text in texts] for texts in turns] for turns in rows
    ]


def test_one_question_is_a_conversation_of_one_request():
    results, _, _ = drive([one_question(ask("a"))], Notebook())
    assert results == [ChatReply("on a")]
