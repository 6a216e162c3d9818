"""What extract_graph asks, keeps and rejects."""

from pathlib import Path

import pandas as pd
import pytest

from pipeline.models.base import ChatReply
from pipeline.prompts import Prompt, read_prompt
from pipeline.schemas import EXTRACTIONS, REJECTS, TEXT_UNITS
from pipeline.verbs.extract_graph import ExtractParams, extract_graph

EXTRACT = Prompt("extract", "Types: $entity_types\nText:\n$text")
GLEAN = Prompt("glean", "What was missed?")
IVO = '("entity"<|>Ivo Brand<|>person<|>The miller.)'
MILL = '("entity"<|>Orla Mill<|>organization<|>A mill.)'
RUNS = '("relationship"<|>Ivo Brand<|>Orla Mill<|>Ivo runs it.<|>work, ownership<|>8)'
NOTHING = "<|COMPLETE|>"


class ScriptedChat:
    """Replies by text and turn; keeps what it was asked, and what ``check`` said of each reply."""

    identity = {"model": "scripted"}  # noqa: RUF012

    def __init__(self, replies: dict[str, list[str | ChatReply]]):
        self.replies = replies
        self.requests = []
        self.complaints = []

    def complete(self, requests, check=None, listener=None):
        return [self._reply(request, check) for request in requests]

    def _reply(self, request, check):
        self.requests.append(request)
        turn = sum(message["role"] == "assistant" for message in request.messages)
        opening = next(message["content"] for message in request.messages if message["role"] == "user")
        reply = self.replies[opening.rpartition("Text:\n")[2]][turn]
        reply = reply if isinstance(reply, ChatReply) else ChatReply(reply)
        self.complaints.append(check(reply.text))
        return reply

    def stream(self, request):
        raise NotImplementedError

    def preflight(self):
        pass


def text_units(*texts: str, first: int = 0) -> pd.DataFrame:
    rows = [(f"chunk-{i}", text, 1, "doc-a", 0, len(text), i) for i, text in enumerate(texts, start=first)]
    return TEXT_UNITS.frame(rows)


def run(replies, units, **params):
    chat = ScriptedChat(replies)
    extractions, rejects = extract_graph(units, ExtractParams(**params), EXTRACT, GLEAN, chat)
    EXTRACTIONS.encode(extractions, "extractions")
    REJECTS.encode(rejects, "rejects")
    return extractions, rejects, chat


def names(extractions: pd.DataFrame) -> list[str]:
    return [*extractions.loc[extractions["kind"] == "entity", "name"]]


def test_records_become_rows_in_the_order_they_came():
    extractions, rejects, _ = run({"a": [f"{IVO}##\n{RUNS}##\n{MILL}{NOTHING}"]}, text_units("a"))
    assert rejects.empty
    assert extractions.drop(columns="keywords").to_dict("records") == [
        {"text_unit_id": "chunk-0", "order": 0, "kind": "entity", "name": "Ivo Brand", "type": "PERSON",
         "source": "", "target": "", "description": "The miller.", "weight": 1.0},
        {"text_unit_id": "chunk-0", "order": 1, "kind": "relationship", "name": "", "type": "",
         "source": "Ivo Brand", "target": "Orla Mill", "description": "Ivo runs it.", "weight": 8.0},
        {"text_unit_id": "chunk-0", "order": 2, "kind": "entity", "name": "Orla Mill", "type": "ORGANIZATION",
         "source": "", "target": "", "description": "A mill.", "weight": 1.0},
    ]  # fmt: skip
    assert [list(cell) for cell in extractions["keywords"]] == [[], ["work", "ownership"], []]


def test_equal_texts_are_asked_once_and_both_get_the_records():
    extractions, rejects, chat = run({"a": [IVO], "b": ["nothing"]}, text_units("a", "b", "a", "b"))
    assert [request.row_id for request in chat.requests] == ["chunk-0", "chunk-1"]
    assert list(extractions["text_unit_id"]) == ["chunk-0", "chunk-2"]
    assert list(rejects["row_id"]) == ["chunk-1", "chunk-3"]


def test_the_prompt_carries_types_and_text():
    _, _, chat = run({"a $b": [IVO]}, text_units("a $b"), entity_types=["ship", "port"])
    assert chat.requests[0].messages == ({"role": "user", "content": "Types: ship, port\nText:\na $b"},)
    assert chat.requests[0].response_format is None


def test_no_text_units_no_call():
    extractions, rejects, chat = run({}, text_units(), gleanings=1)
    assert chat.requests == []
    assert extractions.empty
    assert rejects.empty
    assert str(extractions["weight"].dtype) == "float64"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatReply("", reason="timeout", message="no answer within 120 s"), "timeout"),
        (ChatReply(IVO, reason="content_filter", message="filtered"), "content_filter"),
        (ChatReply(f'{IVO}##\n("entity"<|>Orla', finish_reason="length"), "truncated"),
        ("  ", "empty"),
        ("I'm sorry, I can't help with that.", "refusal"),
        ("A story about a mill.", "parse"),
    ],
)
def test_a_reply_that_fails_rejects_its_text_whole(reply, reason):
    extractions, rejects, _ = run({"a": [reply], "b": [MILL]}, text_units("a", "b"), gleanings=0)
    assert names(extractions) == ["Orla Mill"]
    assert rejects[["step", "row_id", "kind", "reason"]].to_dict("records") == [
        {"step": "", "row_id": "chunk-0", "kind": "row", "reason": reason}
    ]
    assert rejects["message"][0]


def test_check_tells_readable_replies_from_others():
    replies = {"a": [IVO], "b": [NOTHING], "c": ["prose"], "d": [""]}
    _, rejects, chat = run(replies, text_units("a", "b", "c", "d"))
    assert [complaint is None for complaint in chat.complaints] == [True, True, False, False]
    assert list(rejects["row_id"]) == ["chunk-2", "chunk-3"]


def test_bad_records_are_rejected_alone():
    extractions, rejects, _ = run({"a": [f'{IVO}##("entity"<|>""<|>x<|>y)##("claim"<|>z)']}, text_units("a"))
    assert names(extractions) == ["Ivo Brand"]
    assert set(rejects["kind"]) == {"record"}
    assert rejects["reason"].tolist() == ["record", "record"]


def test_gleaning_adds_what_is_new_and_stops_when_nothing_is():
    replies = {"a": [f"{IVO}##{IVO}", f"{IVO}##{MILL}", NOTHING], "b": [NOTHING]}
    extractions, rejects, chat = run(replies, text_units("a", "b"), gleanings=5)
    assert names(extractions) == ["Ivo Brand", "Orla Mill"]
    assert list(extractions["order"]) == [0, 1]
    assert rejects.empty
    assert [request.row_id for request in chat.requests] == ["chunk-0", "chunk-1", "chunk-0", "chunk-0"]
    assert [message["role"] for message in chat.requests[2].messages] == ["user", "assistant", "user"]
    assert chat.requests[2].messages[1]["content"] == f"{IVO}##{IVO}"
    assert chat.requests[2].messages[2]["content"] == "What was missed?"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatReply("", reason="server_error", message="500"), "server_error"),
        (ChatReply(MILL, finish_reason="length"), "truncated"),
        ("Nothing was missed, I think.", "parse"),
    ],
)
def test_a_gleaning_that_fails_keeps_the_first_pass(reply, reason):
    extractions, rejects, chat = run({"a": [IVO, reply]}, text_units("a"), gleanings=3)
    assert names(extractions) == ["Ivo Brand"]
    assert list(zip(rejects["kind"], rejects["reason"], strict=True)) == [("record", reason)]
    assert len(chat.requests) == 2


def test_json_is_asked_for_by_schema_and_read():
    entity = '{"name": "Ivo Brand", "type": "person", "description": "The miller."}'
    replies = {
        "a": [f'{{"entities": [{entity}], "relationships": []}}'],
        "b": ['{"entities": [], "relationships": []}'],
    }
    extractions, rejects, chat = run(replies, text_units("a", "b"), format="json")
    assert names(extractions) == ["Ivo Brand"]
    assert rejects.empty
    assert chat.requests[0].response_format["json_schema"]["strict"] is True
    assert [message["role"] for message in chat.requests[0].messages] == ["system", "user"]


def test_slices_give_what_the_whole_gives():
    replies = {"a": [IVO], "b": [MILL], "c": ["?"]}
    units = [text_units("a", "b"), text_units("a", "c", first=2)]
    whole = run(replies, pd.concat(units))
    slices = [run(replies, part) for part in units]
    extractions, rejects = pd.concat(part[0] for part in slices), pd.concat(part[1] for part in slices)
    assert EXTRACTIONS.encode(whole[0], "whole").equals(EXTRACTIONS.encode(extractions, "slices"))
    assert REJECTS.encode(whole[1], "whole").equals(REJECTS.encode(rejects, "slices"))


def test_the_packaged_prompt_puts_the_text_last_and_expands_nothing_in_it():
    prompt = read_prompt(Path(__file__).parents[2] / "prompts", "extract_graph", {"language": "English"})
    assert prompt.fields == {"entity_types", "language", "text"}
    rendered = prompt.render(text="It costs $5, $language.", entity_types="person")
    assert rendered.endswith("Text:\nIt costs $5, $language.\n")
    assert '("relationship"<|>source<|>target<|>description<|>keywords<|>strength)' in rendered
