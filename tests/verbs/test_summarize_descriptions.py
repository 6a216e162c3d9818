"""One description per row: joined where it fits, summarised where it does not, cut where that fails."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.models.base import ChatReply
from pipeline.prompts import Prompt
from pipeline.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
)
from pipeline.verbs.join_descriptions import JoinParams, join_descriptions, join_within
from pipeline.verbs.summarize_descriptions import SummarizeParams, summarize_descriptions

SUMMARIZE = Prompt("summarize", "$name|$max_length|\n$descriptions")


class Words:
    """A token per word."""

    name = "words"

    def encode(self, text):
        return list(range(len(text.split())))

    def count(self, text):
        return len(text.split())


class EchoChat:
    """Says the first words of the descriptions; fails for subjects it is told to fail for."""

    identity = {"model": "echo"}  # noqa: RUF012

    def __init__(self, failing: dict[str, ChatReply] | None = None):
        self.failing = failing or {}
        self.requests = []

    def complete(self, requests, check=None, listener=None):
        self.requests += requests
        return [self._reply(request.messages[0]["content"], check) for request in requests]

    def _reply(self, prompt, check):
        name = prompt.split("|")[0]
        words = [line.split()[1] for line in prompt.splitlines()[1:]]
        reply = self.failing.get(name, ChatReply(f"```\n{' '.join(words)}\n```"))
        assert (check(reply.text) is None) == bool(reply.text)
        return reply

    def stream(self, request):
        raise NotImplementedError

    def preflight(self):
        pass


def entities(*descriptions: list[str]) -> pd.DataFrame:
    return MERGED_ENTITIES.frame(
        (
            f"ent-{i}",
            f"E{i}",
            "PERSON",
            [{"type": "PERSON", "count": 2}],
            list(cell),
            ["chunk-a", "chunk-b"],
            2,
        )
        for i, cell in enumerate(descriptions)
    )


def relationships(*descriptions: list[str]) -> pd.DataFrame:
    return MERGED_RELATIONSHIPS.frame(
        (f"rel-{i}", "E0", "E1", "ent-0", "ent-1", list(cell), ["k"], 2.0, ["chunk-a"])
        for i, cell in enumerate(descriptions)
    )


def summarise(ents, rels, chat, **params):
    tables = summarize_descriptions(ents, rels, SummarizeParams(**params), SUMMARIZE, chat, Words())
    for table, schema in zip(tables, (DESCRIBED_ENTITIES, DESCRIBED_RELATIONSHIPS, REJECTS), strict=True):
        schema.encode(table, "result")
    return tables


def words(prefix: str, count: int) -> str:
    return " ".join(f"{prefix}{i}" for i in range(count))


def test_descriptions_that_fit_are_joined_without_a_call():
    chat = EchoChat()
    ents, rels, rejects = summarise(entities(["One.", "Two."], []), relationships(["Three."]), chat)
    assert list(ents["description"]) == ["One. Two.", ""]
    assert list(rels["description"]) == ["Three."]
    assert rejects.empty
    assert chat.requests == []


def test_other_columns_stay():
    ents, rels, _ = summarise(entities(["One."]), relationships(["Two."]), EchoChat())
    assert list(ents["types"][0]) == [{"type": "PERSON", "count": 2}]
    assert list(ents["text_unit_ids"][0]) == ["chunk-a", "chunk-b"]
    assert list(rels["keywords"][0]) == ["k"]


def test_above_the_budget_the_model_is_asked_with_all_descriptions_in_order():
    chat = EchoChat()
    ents, rels, rejects = summarise(
        entities([words("a", 30), words("b", 30)], ["small"]), relationships([words("c", 60)]), chat,
        max_tokens=50, max_length=9,
    )  # fmt: skip
    assert list(ents["description"]) == ["a0 b0", "small"]
    assert list(rels["description"]) == ["c0"]
    assert rejects.empty
    assert [request.row_id for request in chat.requests] == ["ent-0", "rel-0"]
    prompts = [request.messages[0]["content"] for request in chat.requests]
    assert prompts[0] == f"E0|9|\n- {words('a', 30)}\n- {words('b', 30)}"
    assert prompts[1].startswith("E0 → E1|9|\n- c0")


def test_equal_requests_are_sent_once():
    chat = EchoChat()
    rels = relationships([words("c", 60)], [words("c", 60)])
    _, described, _ = summarise(entities(), rels, chat, max_tokens=50)
    assert list(described["description"]) == ["c0", "c0"]
    assert len(chat.requests) == 1


def test_too_many_for_one_request_are_folded_group_by_group():
    chat = EchoChat()
    cell = [words(f"d{i}_", 10) for i in range(40)]
    ents, _, rejects = summarise(entities(cell), relationships(), chat, max_tokens=50, max_input_tokens=60)
    assert ents["description"][0].startswith("d0_0")
    assert rejects.empty
    assert len(chat.requests) < 20
    assert all(len(request.messages[0]["content"].split()) < 65 for request in chat.requests)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatReply("", reason="timeout", message="no answer"), "timeout"),
        (ChatReply("half a", finish_reason="length"), "truncated"),
        (ChatReply(""), "empty"),
    ],
)
def test_a_summary_that_fails_leaves_what_fits_and_a_reject(reply, reason):
    cell = [words("a", 30), words("b", 30)]
    ents, _, rejects = summarise(entities(cell, cell), relationships(), EchoChat({"E0": reply}), max_tokens=50)
    assert list(ents["description"]) == [words("a", 30), "a0 b0"]
    assert rejects[["row_id", "kind", "reason"]].to_dict("records") == [
        {"row_id": "ent-0", "kind": "row", "reason": reason}
    ]
    assert rejects["message"][0].startswith("E0: ")


def test_empty_tables_stay_typed():
    chat = EchoChat()
    ents, rels, rejects = summarise(entities(), relationships(), chat)
    assert (len(ents), len(rels), len(rejects), len(chat.requests)) == (0, 0, 0, 0)
    assert str(ents["frequency"].dtype) == "int64"


def test_join_descriptions_joins_in_order_and_stops_at_the_budget():
    ents, rels = join_descriptions(
        entities([words("a", 200), words("b", 200), words("c", 300), "d"]),
        relationships(["One.", "Two."]),
        JoinParams(max_tokens=600),
        Words(),
    )
    assert ents["description"][0] == f"{words('a', 200)} {words('b', 200)}"
    assert rels["description"][0] == "One. Two."
    DESCRIBED_ENTITIES.encode(ents, "entities")
    DESCRIBED_RELATIONSHIPS.encode(rels, "relationships")


class Letters(Words):
    def count(self, text):
        return len(text.encode())


@given(st.lists(st.text(), max_size=8), st.integers(1, 40))
def test_what_is_joined_fits_and_is_a_beginning(descriptions, budget):
    text = join_within(descriptions, budget, Letters())
    assert len(text.encode()) <= budget
    assert " ".join(descriptions).startswith(text)
