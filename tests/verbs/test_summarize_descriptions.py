"""One description per row: joined where it fits, summarised where it does not, cut where that
fails."""

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.prompts import Prompt
from pipeline.contract.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
)
from pipeline.models.base import ChatReply, one_question
from pipeline.text.ids import digest
from pipeline.verbs.join_descriptions import (
    CHARACTERS_OF_TOKEN,
    JoinParams,
    join_descriptions,
    join_within,
)
from pipeline.verbs.summarize_descriptions import (
    BRANCHES,
    RELATIONSHIP,
    SummarizeParams,
    summarize_descriptions,
)
from tests.sizes import size
from tests.talking import converse

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

    def converse(self, talks, listener=None, repeats=None):
        return converse(talks, self._reply)

    def complete(self, requests, listener=None):
        return self.converse(map(one_question, requests))

    def _reply(self, request):
        self.requests.append(request)
        prompt = request.messages[0]["content"]
        name = prompt.split("|")[0]
        words = [line.split()[1] for line in prompt.splitlines()[1:]]
        reply = self.failing.get(name, ChatReply(f"```\n{' '.join(words)}\n```"))
        assert (request.check(reply.text) is None) == bool(reply.text)
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
    for table, schema in zip(
        tables, (DESCRIBED_ENTITIES, DESCRIBED_RELATIONSHIPS, REJECTS), strict=True
    ):
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


def test_above_the_budget_the_model_is_asked_with_all_descriptions():
    chat = EchoChat()
    first, second = sorted([words("a", 30), words("b", 30)], key=digest)
    ents, rels, rejects = summarise(
        entities([words("a", 30), words("b", 30)], ["small"]), relationships([words("c", 60)]),
        chat,
        max_tokens=50, max_length=9,
    )  # fmt: skip
    assert list(ents["description"]) == [f"{first[:2]} {second[:2]}", "small"]
    assert list(rels["description"]) == ["c0"]
    assert rejects.empty
    assert [request.row_id for request in chat.requests] == ["ent-0", "rel-0"]
    prompts = [request.messages[0]["content"] for request in chat.requests]
    assert prompts[0] == f"E0|9|\n- {first}\n- {second}"
    assert prompts[1] == f"{RELATIONSHIP}|9|\n- {words('c', 60)}"


def test_equal_requests_are_sent_once():
    chat = EchoChat()
    rels = relationships([words("c", 60)], [words("c", 60)])
    _, described, _ = summarise(entities(), rels, chat, max_tokens=50)
    assert list(described["description"]) == ["c0", "c0"]
    assert len(chat.requests) == 1


def test_too_many_for_one_request_are_folded_group_by_group():
    chat = EchoChat()
    cell = [words(f"d{i}_", 10) for i in range(40)]
    ents, _, rejects = summarise(
        entities(cell), relationships(), chat, max_tokens=50, max_input_tokens=60
    )
    assert set(ents["description"][0].split()) < {f"d{i}_0" for i in range(40)}
    assert rejects.empty
    assert len(chat.requests) < 30


def test_one_description_that_is_too_long_is_summarised_too():
    chat = EchoChat()
    long_ones = entities([words("a", 300)], [words("b", 60)] * 2)
    ents, _, rejects = summarise(
        long_ones, relationships(), chat, max_tokens=50, max_input_tokens=100
    )
    assert list(ents["description"]) == ["a0", "b0"]
    assert rejects.empty
    assert [tokens_asked(request) for request in chat.requests] == [100, 60]


def tokens_asked(request) -> int:
    """Return the number of tokens of the descriptions in a request."""
    return sum(len(line.split()) - 1 for line in request.messages[0]["content"].splitlines()[1:])


@st.composite
def many_descriptions(draw) -> list[str]:
    """Draw distinct descriptions, a few of them long."""
    sizes = draw(st.lists(st.sampled_from([3, 8, 12, 12, 12, 40, 150]), min_size=20, max_size=120))
    return [words(f"d{i}_", size) for i, size in enumerate(sizes)]


@settings(max_examples=size(10, 40))
@given(many_descriptions(), st.randoms(use_true_random=False))
def test_the_set_of_descriptions_decides_and_no_request_is_too_long(cell: list[str], random):
    turned = list(cell)
    random.shuffle(turned)
    tables, asked = [], []
    for descriptions in (cell, turned, [*turned, turned[0]]):
        chat = EchoChat()
        tables.append(
            summarise(
                entities(descriptions), relationships(), chat, max_tokens=50, max_input_tokens=100
            )[0]
        )
        asked.append({request.messages[0]["content"] for request in chat.requests})
    assert tables[0]["description"][0] == tables[1]["description"][0] == tables[2]["description"][0]
    assert asked[0] == asked[1] == asked[2]
    assert all(tokens_asked(request) <= 100 for request in chat.requests)


def requests_for(cell: list[str]) -> set[str]:
    chat = EchoChat()
    summarise(entities(cell), relationships(), chat, max_tokens=50, max_input_tokens=200)
    return {request.messages[0]["content"] for request in chat.requests}


@settings(max_examples=size(6, 25))
@given(st.integers(150, 500), st.integers(0, 10**6))
def test_one_more_of_hundreds_costs_the_way_to_the_root_and_one_split(count: int, seed: int):
    cell = [words(f"{seed}d{i}_", 10) for i in range(count)]
    depth = math.ceil(math.log(count, BRANCHES)) + 1
    before, after = requests_for(cell), requests_for([*cell, words(f"{seed}new", 10)])
    assert 1 <= len(after - before) <= depth + BRANCHES
    assert len(before - after) <= depth + BRANCHES
    assert len(before) > 15


def test_a_new_display_name_of_an_end_changes_no_request_for_the_relationship():
    chats = [EchoChat(), EchoChat()]
    rels = relationships([words("a", 30), words("b", 30)])
    for chat, frame in zip(
        chats, (rels, rels.assign(source="Everyone", target="Else")), strict=True
    ):
        summarise(entities(), frame, chat, max_tokens=50)
    assert chats[0].requests == chats[1].requests != []


def test_a_group_that_fails_rejects_the_row_and_asks_no_more():
    class Faulty(EchoChat):
        def _reply(self, request):
            reply = super()._reply(request)
            return (
                ChatReply("", reason="timeout", message="no answer")
                if len(self.requests) == 2
                else reply
            )

    chat = Faulty()
    cell = [words(f"d{i}_", 10) for i in range(40)]
    ents, _, rejects = summarise(
        entities(cell), relationships(), chat, max_tokens=50, max_input_tokens=60
    )
    assert ents["description"][0] == " ".join(cell[:5])
    assert rejects[["row_id", "kind", "reason"]].to_dict("records") == [
        {"row_id": "ent-0", "kind": "row", "reason": "timeout"}
    ]


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
    ents, _, rejects = summarise(
        entities(cell, cell), relationships(), EchoChat({"E0": reply}), max_tokens=50
    )
    first, second = sorted(cell, key=digest)
    assert list(ents["description"]) == [words("a", 30), f"{first[:2]} {second[:2]}"]
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


class Counted(Letters):
    def __init__(self):
        self.longest = 0

    def count(self, text):
        self.longest = max(self.longest, len(text))
        return super().count(text)


@given(
    st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=40), st.integers(4, 40)
)
def test_as_many_are_joined_as_fit_and_no_more_is_counted_than_guessed_first(descriptions, budget):
    tokenizer = Counted()
    fitting = [
        n
        for n in range(len(descriptions) + 1)
        if len(" ".join(descriptions[:n]).encode()) <= budget
    ]
    assert join_within(descriptions, budget, tokenizer) == " ".join(descriptions[: fitting[-1]])
    longest = max(map(len, descriptions))
    assert tokenizer.longest <= CHARACTERS_OF_TOKEN * budget + longest + 1
