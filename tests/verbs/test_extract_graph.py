"""The requests, records and rejects of extract_graph."""

from pathlib import Path

import pandas as pd
import pytest

from pipeline.contract.prompts import Prompt, read_prompt
from pipeline.contract.schemas import EXTRACTIONS, REJECTS, TEXT_UNIT_HEADERS, TEXT_UNITS
from pipeline.models.base import ChatReply, one_question
from pipeline.text.sentences import split_in_two
from pipeline.verbs.extract_graph import (
    ExtractParams,
    extract_graph,
    extract_graph_with_headers,
)
from pipeline.verbs.graph_prompt import opening
from tests.talking import converse

EXTRACT = Prompt("extract", "Types: $entity_types\nText:\n$text")
GLEAN = Prompt("glean", "What was missed?")
IVO = '("entity"<|>Ivo Brand<|>person<|>The miller.)'
MILL = '("entity"<|>Orla Mill<|>organization<|>A mill.)'
RUNS = '("relationship"<|>Ivo Brand<|>Orla Mill<|>Ivo runs it.<|>work, ownership<|>8)'
NOTHING = "<|COMPLETE|>"
TWO = "Orla Mill stands by the river. Ivo Brand runs it for his aunt."
TEXT = "Ivo Brand runs the Orla Mill."
CUT = ChatReply(f'{IVO}##\n("entity"<|>Orla', finish_reason="length")
CUT_IN_ITS_FIRST_RECORD = ChatReply('("entity"<|>Orla', finish_reason="length")


class ScriptedChat:
    """Replies by text and turn; keeps what it was asked, and what the request's check said of each
    reply."""

    identity = {"model": "scripted"}  # noqa: RUF012

    def __init__(self, replies: dict[str, list[str | ChatReply]]):
        self.replies = replies
        self.requests = []
        self.complaints = []

    def converse(self, talks, listener=None, repeats=None):
        return converse(talks, self._reply)

    def complete(self, requests, listener=None):
        return self.converse(map(one_question, requests))

    def _reply(self, request):
        self.requests.append(request)
        turn = sum(message["role"] == "assistant" for message in request.messages)
        opening = next(
            message["content"] for message in request.messages if message["role"] == "user"
        )
        reply = self.replies[opening.rpartition("Text:\n")[2]][turn]
        reply = reply if isinstance(reply, ChatReply) else ChatReply(reply)
        self.complaints.append(request.check(reply.text))
        return reply

    def stream(self, request):
        raise NotImplementedError

    def preflight(self):
        pass


def text_units(*texts: str, first: int = 0) -> pd.DataFrame:
    rows = [
        (f"chunk-{i}", text, 1, "doc-a", 0, len(text), i)
        for i, text in enumerate(texts, start=first)
    ]
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
    extractions, rejects, _ = run({TEXT: [f"{IVO}##\n{RUNS}##\n{MILL}{NOTHING}"]}, text_units(TEXT))
    assert rejects.empty
    assert extractions["attributes"].isna().all()
    assert extractions.drop(columns=["keywords", "attributes"]).to_dict("records") == [
        {"text_unit_id": "chunk-0", "order": 0, "kind": "entity", "name": "Ivo Brand",
            "type": "PERSON",
         "source": "", "target": "", "description": "The miller.", "weight": 1.0, "grounded": True},
        {"text_unit_id": "chunk-0", "order": 1, "kind": "relationship", "name": "", "type": "",
         "source": "Ivo Brand", "target": "Orla Mill", "description": "Ivo runs it.", "weight": 8.0,
         "grounded": True},
        {"text_unit_id": "chunk-0", "order": 2, "kind": "entity", "name": "Orla Mill",
            "type": "ORGANIZATION",
         "source": "", "target": "", "description": "A mill.", "weight": 1.0, "grounded": True},
    ]  # fmt: skip
    assert [list(cell) for cell in extractions["keywords"]] == [[], ["work", "ownership"], []]


def test_equal_texts_are_asked_once_and_both_get_the_records():
    extractions, rejects, chat = run({"a": [IVO], "b": [""]}, text_units("a", "b", "a", "b"))
    assert [request.row_id for request in chat.requests] == ["chunk-0", "chunk-1"]
    assert list(extractions["text_unit_id"]) == ["chunk-0", "chunk-2"]
    assert list(rejects["row_id"]) == ["chunk-1", "chunk-3"]


def test_the_prompt_carries_types_and_text():
    _, _, chat = run({"a $b": [IVO]}, text_units("a $b"), entity_types=["ship", "port"])
    assert chat.requests[0].messages == (
        {"role": "user", "content": "Types: ship, port\nText:\na $b"},
    )
    assert chat.requests[0].response_format is None


def test_without_text_units_the_model_is_not_called():
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
        (CUT_IN_ITS_FIRST_RECORD, "truncated"),
        ('("entity"<|>Orla', "truncated"),
        ("  ", "empty"),
        ("I'm sorry, I can't help with that.", "refusal"),
        ("A story about a mill.", "parse"),
    ],
)
def test_a_reply_that_fails_rejects_its_text_whole(reply, reason):
    extractions, rejects, _ = run(
        {"a": [reply, reply], "b": [MILL]}, text_units("a", "b"), gleanings=0
    )
    assert names(extractions) == ["Orla Mill"]
    assert rejects[["step", "row_id", "kind", "reason"]].to_dict("records") == [
        {"step": "", "row_id": "chunk-0", "kind": "row", "reason": reason}
    ]
    assert rejects["message"][0]


def test_check_tells_readable_replies_from_others():
    replies = {"a": [IVO], "b": [NOTHING], "c": ["prose"], "d": [""]}
    _, rejects, chat = run(replies, text_units("a", "b", "c", "d"), repair=False)
    assert [complaint is None for complaint in chat.complaints] == [True, True, False, False]
    assert list(rejects["row_id"]) == ["chunk-2", "chunk-3"]


def test_bad_records_are_rejected_alone():
    extractions, rejects, _ = run(
        {"a": [f'{IVO}##("entity"<|>""<|>x<|>y)##("claim"<|>z)']}, text_units("a")
    )
    assert names(extractions) == ["Ivo Brand"]
    assert set(rejects["kind"]) == {"record"}
    assert rejects["reason"].tolist() == ["record", "record"]


def test_gleaning_adds_what_is_new_and_stops_when_nothing_is():
    replies = {"a": [f"{IVO}##{IVO}", f"{IVO}##{MILL}", NOTHING], "b": [NOTHING]}
    extractions, rejects, chat = run(replies, text_units("a", "b"), gleanings=5)
    assert names(extractions) == ["Ivo Brand", "Orla Mill"]
    assert list(extractions["order"]) == [0, 1]
    assert rejects.empty
    assert [request.row_id for request in chat.requests] == [
        "chunk-0",
        "chunk-1",
        "chunk-0",
        "chunk-0",
    ]
    assert [message["role"] for message in chat.requests[2].messages] == [
        "user",
        "assistant",
        "user",
    ]
    assert chat.requests[2].messages[1]["content"] == f"{IVO}##{IVO}"
    assert chat.requests[2].messages[2]["content"] == "What was missed?"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatReply("", reason="server_error", message="500"), "server_error"),
        ("Nothing was missed, I think.", "parse"),
    ],
)
def test_a_gleaning_that_fails_keeps_the_first_pass(reply, reason):
    extractions, rejects, chat = run({"a": [IVO, reply]}, text_units("a"), gleanings=3)
    assert names(extractions) == ["Ivo Brand"]
    assert list(zip(rejects["kind"], rejects["reason"], strict=True)) == [("record", reason)]
    assert len(chat.requests) == 2


@pytest.mark.parametrize(
    "reply",
    [ChatReply(f'{MILL}##("entity"<|>Orla', finish_reason="length"), f'{MILL}##("entity"<|>Orla'],
)
def test_a_gleaning_that_was_cut_keeps_its_whole_records_and_is_the_last(reply):
    extractions, rejects, chat = run({"a": [IVO, reply]}, text_units("a"), gleanings=3)
    assert names(extractions) == ["Ivo Brand", "Orla Mill"]
    assert list(zip(rejects["kind"], rejects["reason"], strict=True)) == [("cut", "truncated")]
    assert len(chat.requests) == 2


@pytest.mark.parametrize("finish_reason", ["length", "stop"])
def test_a_cut_off_reply_is_asked_for_in_two_halves_of_the_text(finish_reason):
    left, right = split_in_two(TWO)
    cut = ChatReply(CUT.text, finish_reason=finish_reason)
    replies = {TWO: [cut], left: [f"{MILL}##{RUNS}"], right: [f"{MILL}##{IVO}"]}
    extractions, rejects, chat = run(replies, text_units(TWO), gleanings=2)
    assert extractions["name"].tolist() == ["Ivo Brand", "Orla Mill", ""]
    assert extractions["order"].tolist() == [0, 1, 2]
    assert rejects[["row_id", "kind", "reason"]].to_dict("records") == [
        {"row_id": "chunk-0", "kind": "recovered", "reason": "truncated"}
    ]
    assert [request.row_id for request in chat.requests] == ["chunk-0"] * 3
    assert left + right == TWO


BAD_HALVES = [
    (CUT_IN_ITS_FIRST_RECORD, "truncated"),
    ('("entity"<|>Orla', "truncated"),
    ("prose", "truncated"),
    (ChatReply("", reason="timeout"), "timeout"),
]


@pytest.mark.parametrize(("half", "reason"), BAD_HALVES)
@pytest.mark.parametrize("bad", [0, 1])
def test_where_a_half_fails_too_all_whole_records_are_kept_and_the_text_is_cut(half, reason, bad):
    replies = {
        TWO: [CUT],
        **{part: [half if i == bad else MILL] for i, part in enumerate(split_in_two(TWO))},
    }
    extractions, rejects, chat = run(replies, text_units(TWO))
    assert names(extractions) == ["Ivo Brand", "Orla Mill"]
    assert rejects[["row_id", "kind", "reason"]].to_dict("records") == [
        {"row_id": "chunk-0", "kind": "cut", "reason": reason}
    ]
    assert len(chat.requests) == 3


def test_halves_that_are_cut_too_add_their_whole_records():
    left, right = split_in_two(TWO)
    replies = {
        TWO: [CUT],
        left: [f'{MILL}##("entity"<|>Or'],
        right: [f'{IVO}##{RUNS}##("entity"<|>Or'],
    }
    extractions, rejects, _ = run(replies, text_units(TWO))
    assert extractions["name"].tolist() == ["Ivo Brand", "Orla Mill", ""]
    assert rejects["kind"].tolist() == ["cut"]
    assert "3 whole records" in rejects["message"][0]


@pytest.mark.parametrize(
    "half", [CUT_IN_ITS_FIRST_RECORD, "prose", ChatReply("", reason="timeout")]
)
def test_a_text_without_any_whole_record_is_rejected_whole(half):
    replies = {TWO: [CUT_IN_ITS_FIRST_RECORD], **{part: [half] for part in split_in_two(TWO)}}
    extractions, rejects, chat = run(replies, text_units(TWO))
    assert extractions.empty
    assert rejects["kind"].tolist() == ["row"]
    assert len(chat.requests) == 3


def test_a_rejected_text_has_the_reason_of_the_half_that_another_try_may_mend():
    left, right = split_in_two(TWO)
    late = ChatReply("", reason="timeout", message="no answer within 5 s")
    replies = {TWO: [CUT_IN_ITS_FIRST_RECORD], left: [CUT_IN_ITS_FIRST_RECORD], right: [late]}
    _, rejects, _ = run(replies, text_units(TWO))
    assert rejects[["kind", "reason"]].to_dict("records") == [{"kind": "row", "reason": "timeout"}]


def test_the_message_speaks_of_halves_only_where_they_were_asked_about():
    _, rejects, chat = run({"a": [CUT_IN_ITS_FIRST_RECORD]}, text_units("a"))
    assert len(chat.requests) == 1
    assert "half" not in rejects["message"][0]
    assert "cannot be divided" in rejects["message"][0]


def test_a_cut_text_that_cannot_be_divided_keeps_its_whole_records_without_a_further_call():
    extractions, rejects, chat = run({"a": [CUT]}, text_units("a"))
    assert names(extractions) == ["Ivo Brand"]
    assert rejects[["kind", "reason"]].to_dict("records") == [
        {"kind": "cut", "reason": "truncated"}
    ]
    assert len(chat.requests) == 1


def test_a_prompt_that_is_too_long_is_asked_about_in_two_halves_of_the_text():
    left, right = split_in_two(TWO)
    replies = {TWO: [ChatReply("", reason="too_long", message="400")], left: [MILL], right: [IVO]}
    extractions, rejects, _ = run(replies, text_units(TWO))
    assert names(extractions) == ["Orla Mill", "Ivo Brand"]
    assert rejects[["kind", "reason"]].to_dict("records") == [
        {"kind": "recovered", "reason": "too_long"}
    ]


MARKED = Prompt("extract", "End with <|COMPLETE|>. Types: $entity_types\nText:\n$text")


@pytest.mark.parametrize(
    ("prompt", "reply", "unended"),
    [
        (MARKED, IVO, True),
        (MARKED, f"{IVO}{NOTHING}", False),
        (MARKED, NOTHING, False),
        (EXTRACT, IVO, False),
    ],
)
def test_a_whole_reply_without_the_end_mark_that_its_prompt_asks_for_is_told_and_not_asked_again(
    prompt, reply, unended
):
    chat = ScriptedChat({"a": [reply]})
    extractions, rejects = extract_graph(text_units("a"), ExtractParams(), prompt, GLEAN, chat)
    assert len(extractions) == (IVO in reply)
    assert rejects[["kind", "reason"]].to_dict("records") == (
        [{"kind": "unended", "reason": "unended"}] * unended
    )
    assert len(chat.requests) == 1


def test_a_bad_record_in_a_half_is_rejected_alone():
    left, right = split_in_two(TWO)
    replies = {TWO: [CUT], left: [f'{IVO}##("claim"<|>z)'], right: [MILL]}
    extractions, rejects, _ = run(replies, text_units(TWO))
    assert names(extractions) == ["Ivo Brand", "Orla Mill"]
    assert sorted(rejects["kind"]) == ["record", "recovered"]


def test_an_unreadable_reply_is_repaired_once():
    extractions, rejects, chat = run({"a": ["A story.", MILL]}, text_units("a"), gleanings=2)
    assert names(extractions) == ["Orla Mill"]
    assert rejects[["kind", "reason"]].to_dict("records") == [
        {"kind": "recovered", "reason": "parse"}
    ]
    assert [message["role"] for message in chat.requests[1].messages] == [
        "user",
        "assistant",
        "user",
    ]
    assert chat.requests[1].messages[1]["content"] == "A story."


def test_a_repair_that_is_cut_is_asked_for_in_two_halves_of_the_text():
    left, right = split_in_two(TWO)
    replies = {TWO: ["A story.", CUT], left: [MILL], right: [IVO]}
    extractions, rejects, chat = run(replies, text_units(TWO), gleanings=2)
    assert names(extractions) == ["Ivo Brand", "Orla Mill"]
    assert rejects[["kind", "reason"]].to_dict("records") == [
        {"kind": "recovered", "reason": "truncated"}
    ]
    assert len(chat.requests) == 4


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("Another story.", "parse"),
        ("", "parse"),
        (CUT_IN_ITS_FIRST_RECORD, "truncated"),
        (ChatReply("", reason="server_error"), "parse"),
    ],
)
def test_a_repair_that_fails_is_the_last(second, reason):
    extractions, rejects, chat = run({"a": ["A story.", second]}, text_units("a"), gleanings=2)
    assert extractions.empty
    assert rejects[["kind", "reason"]].to_dict("records") == [{"kind": "row", "reason": reason}]
    assert len(chat.requests) == 2


@pytest.mark.parametrize(
    ("text", "name", "grounded"),
    [
        ("Then IVO BRAND, the miller, spoke.", "Ivo Brand", True),
        ("Brand was his name; Ivo to his friends.", "Ivo Brand", True),
        ("Ivo spoke.", "Ivo Brand", False),
        ("奥托在河边写信。", "奥托", True),
        ("奥托在河边写信。", "安娜", False),
        ("Ｏｒｌａ Mill burned.", "Orla Mill", True),
        ("", "Ivo Brand", False),
        ("The party was held in the house.", "US", False),
        ("The party was held in the house.", "Art", False),
        ("She paid the US, and him.", "US", True),
        ("She writes C++.", "C", False),
        ("She writes C++.", "C++", True),
        ("Brand, Ivo: miller", "Ivo Brand", True),
        ("Die Mühlen Orlas brannten.", "Orla", True),
        ("Budapesten volt.", "Budapest", True),
        ("В Москвина.", "Москв", True),
        ("В Москва-Сити.", "Москва", True),
        ("نزل في بالقاهرة", "القاهرة", True),
        ("奥托的US护照。", "US", True),
    ],
)
def test_a_name_is_grounded_when_its_words_stand_in_the_text(text, name, grounded):
    reply = f'("entity"<|>{name}<|>person<|>said)'
    extractions, rejects, _ = run({text: [reply]}, text_units(text))
    assert extractions["grounded"].tolist() == [grounded]
    assert rejects.empty
    dropped, rejects, _ = run({text: [reply]}, text_units(text), ungrounded="drop")
    assert names(dropped) == ([name] if grounded else [])
    assert rejects[["kind", "reason"]].to_dict("records") == (
        [] if grounded else [{"kind": "record", "reason": "ungrounded"}]
    )
    kept, _, _ = run({text: [reply]}, text_units(text), ungrounded="keep")
    assert kept["grounded"].tolist() == [grounded]


def test_a_relationship_is_grounded_when_both_its_ends_are():
    phantoms = [f'("relationship"<|>Ivo Brand<|>Phantom {i}<|>d<|>k<|>1)' for i in range(5)]
    reply = "##".join([IVO, RUNS, *phantoms])
    flagged, rejects, _ = run({TEXT: [reply]}, text_units(TEXT))
    assert flagged["grounded"].tolist() == [True, True, *[False] * 5]
    assert rejects.empty
    dropped, rejects, _ = run({TEXT: [reply]}, text_units(TEXT), ungrounded="drop")
    assert dropped["target"].tolist() == ["", "Orla Mill"]
    assert dropped["order"].tolist() == [0, 1]
    assert rejects["reason"].tolist() == ["ungrounded"] * 5
    # The end that stands there is not named.
    assert rejects["message"].tolist() == [f"not in its text: Phantom {i}" for i in range(5)]


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
    replies = {"a": [IVO], "b": [MILL], "c": ["?", "?"]}
    units = [text_units("a", "b"), text_units("a", "c", first=2)]
    whole = run(replies, pd.concat(units))
    slices = [run(replies, part) for part in units]
    extractions, rejects = (
        pd.concat(part[0] for part in slices),
        pd.concat(part[1] for part in slices),
    )
    assert EXTRACTIONS.encode(whole[0], "whole").equals(EXTRACTIONS.encode(extractions, "slices"))
    assert REJECTS.encode(whole[1], "whole").equals(REJECTS.encode(rejects, "slices"))


def test_the_packaged_prompt_puts_the_text_last_and_expands_nothing_in_it():
    prompt = read_prompt(
        Path(__file__).parents[2] / "prompts", "extract_graph", {"language": "English"}
    )
    assert prompt.fields == {"entity_types", "format", "language", "text"}
    (message,) = opening(prompt, "records", "It costs $5, $language.", "person")
    rendered = message["content"]
    assert rendered.endswith("Text:\nIt costs $5, $language.\n")
    assert '("relationship"<|>source<|>target<|>description<|>keywords<|>strength)' in rendered


def run_with_headers(replies, units, headers, **params):
    chat = ScriptedChat(replies)
    of_units = TEXT_UNIT_HEADERS.frame(list(headers.items()))
    extractions, rejects = extract_graph_with_headers(
        units, of_units, ExtractParams(**params), EXTRACT, GLEAN, chat
    )
    return extractions, rejects, chat


def test_the_header_stands_before_the_text_in_the_prompt():
    replies = {"Mills > Orla\n\na": [IVO]}
    _, _, chat = run_with_headers(replies, text_units("a"), {"chunk-0": "Mills > Orla"})
    (request,) = chat.requests
    assert (
        request.messages[0]["content"]
        == "Types: person, organization, location, event, concept\nText:\nMills > Orla\n\na"
    )
    assert request.text == "Mills > Orla\n\na"


def test_without_a_header_the_request_is_that_of_extract_graph():
    _, _, plain = run({TEXT: [IVO]}, text_units(TEXT))
    _, _, with_headers = run_with_headers({TEXT: [IVO]}, text_units(TEXT), {})
    assert [one.messages for one in with_headers.requests] == [
        one.messages for one in plain.requests
    ]


def test_equal_texts_with_different_headers_are_asked_about_separately():
    replies = {"North\n\na": [IVO], "South\n\na": [MILL]}
    headers = {"chunk-0": "North", "chunk-1": "South", "chunk-2": "North"}
    extractions, _, chat = run_with_headers(replies, text_units("a", "a", "a"), headers)
    assert [request.row_id for request in chat.requests] == ["chunk-0", "chunk-1"]
    assert names(extractions) == ["Ivo Brand", "Orla Mill", "Ivo Brand"]


def test_a_name_that_stands_only_in_the_header_is_grounded():
    replies = {"Orla Mill\n\nIvo Brand runs it.": [f"{IVO}##\n{MILL}{NOTHING}"]}
    extractions, rejects, _ = run_with_headers(
        replies, text_units("Ivo Brand runs it."), {"chunk-0": "Orla Mill"}, ungrounded="drop"
    )
    assert names(extractions) == ["Ivo Brand", "Orla Mill"]
    assert rejects.empty


def test_both_halves_of_a_text_get_its_header():
    first, second = split_in_two(TWO)
    replies = {
        f"Mills\n\n{TWO}": [CUT],
        f"Mills\n\n{first}": [f"{MILL}{NOTHING}"],
        f"Mills\n\n{second}": [f"{IVO}{NOTHING}"],
    }
    extractions, _, _ = run_with_headers(replies, text_units(TWO), {"chunk-0": "Mills"})
    assert sorted(set(names(extractions))) == ["Ivo Brand", "Orla Mill"]
