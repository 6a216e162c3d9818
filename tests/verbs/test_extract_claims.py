"""The requests, claims and rejects of extract_claims.

Its conversations are those of extract_graph, and are tested there.
"""

from pathlib import Path

import pytest

from pipeline.contract.prompts import Prompt, read_prompt
from pipeline.contract.schemas import COVARIATES, REJECTS
from pipeline.models.base import ChatReply
from pipeline.text.ids import entity_id
from pipeline.text.sentences import split_in_two
from pipeline.verbs.extract_claims import ClaimParams, extract_claims
from tests.verbs.test_extract_graph import TWO, ScriptedChat, text_units

EXTRACT = Prompt("extract", "$claim_description of $entity_types\nText:\n$text")
GLEAN = Prompt("glean", "What was missed?")
FINED = (
    '("claim"<|>Orla Mill<|>Ivo Brand<|>fraud<|>TRUE<|>1871-05-03<|>NONE<|>It was fined.<|>They'
    " fined Orla Mill.)"
)
ALLEGED = (
    '("claim"<|>Ivo Brand<|>NONE<|>bribery<|>SUSPECTED<|>NONE<|>NONE<|>He was bribed, a clerk'
    " said.<|>Bribed?)"
)
NOTHING = "<|COMPLETE|>"


def run(replies, units, **params):
    chat = ScriptedChat(replies)
    claims, rejects = extract_claims(units, ClaimParams(**params), EXTRACT, GLEAN, chat)
    COVARIATES.encode(claims, "claims")
    REJECTS.encode(rejects, "rejects")
    return claims, rejects, chat


def test_claims_become_rows_that_name_entities():
    claims, rejects, _ = run({"a": [f"{FINED}##{ALLEGED}{NOTHING}"]}, text_units("a"))
    assert rejects.empty
    rows = claims.sort_values("subject").to_dict("records")
    assert [id.startswith("claim-") for id in claims["id"]] == [True, True]
    assert {name: rows[1][name] for name in COVARIATES.columns if name != "id"} == {
        "text_unit_id": "chunk-0", "subject_id": entity_id("ORLA MILL"),
        "object_id": entity_id("Ivo Brand"),
        "subject": "Orla Mill", "object": "Ivo Brand", "type": "FRAUD", "status": "TRUE",
        "start_date": "1871-05-03",
        "end_date": "", "description": "It was fined.", "source_text": "They fined Orla Mill.",
    }  # fmt: skip
    assert (rows[0]["object"], rows[0]["object_id"], rows[0]["status"]) == ("", "", "SUSPECTED")


def test_equal_texts_are_asked_once_and_their_claims_have_ids_of_their_own():
    claims, _, chat = run({"a": [FINED]}, text_units("a", "a"))
    assert len(chat.requests) == 1
    assert claims["id"].nunique() == len(claims) == 2


def test_the_prompt_carries_the_wanted_claims_and_types():
    _, _, chat = run(
        {"a": [NOTHING]},
        text_units("a"),
        claim_description="frauds",
        entity_types=["mill", "miller"],
    )
    assert chat.requests[0].messages == (
        {"role": "user", "content": "frauds of mill, miller\nText:\na"},
    )


def test_gleaned_claims_are_kept():
    claims, rejects, chat = run(
        {"a": [FINED, f"{FINED}##{ALLEGED}", NOTHING]}, text_units("a"), gleanings=2
    )
    assert sorted(claims["subject"]) == ["Ivo Brand", "Orla Mill"]
    assert rejects.empty
    assert len(chat.requests) == 3


def test_a_gleaning_that_fails_costs_no_claim():
    claims, rejects, _ = run({"a": [FINED, "Prose."]}, text_units("a"), gleanings=1)
    assert list(claims["subject"]) == ["Orla Mill"]
    assert rejects[["kind", "reason"]].to_numpy().tolist() == [["record", "parse"]]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ChatReply("", reason="timeout", message="no answer"), "timeout"),
        ("  ", "empty"),
        ("I'm sorry, I can't help with that.", "refusal"),
        ("A story about a mill.", "parse"),
    ],
)
def test_a_reply_that_fails_rejects_its_text_whole(reply, reason: str):
    claims, rejects, _ = run({"a": [reply, reply], "b": [FINED]}, text_units("a", "b"))
    assert list(claims["text_unit_id"]) == ["chunk-1"]
    assert rejects[["row_id", "kind", "reason"]].to_numpy().tolist() == [["chunk-0", "row", reason]]


def test_a_bad_record_is_rejected_alone():
    claims, rejects, _ = run({"a": [f'{FINED}##("claim"<|>Ivo<|>b)']}, text_units("a"))
    assert list(claims["subject"]) == ["Orla Mill"]
    assert rejects[["kind", "reason"]].to_numpy().tolist() == [["record", "record"]]


def test_an_unreadable_reply_is_asked_for_once_more():
    claims, rejects, _ = run({"a": ["Prose.", FINED]}, text_units("a"))
    assert len(claims) == 1
    assert rejects[["kind", "reason"]].to_numpy().tolist() == [["recovered", "parse"]]


def test_a_reply_that_was_cut_off_is_asked_for_in_halves():
    cut = ChatReply(FINED[:30], finish_reason="length")
    first, second = split_in_two(TWO)
    claims, rejects, _ = run({TWO: [cut], first: [FINED], second: [ALLEGED]}, text_units(TWO))
    assert sorted(claims["subject"]) == ["Ivo Brand", "Orla Mill"]
    assert rejects[["kind", "reason"]].to_numpy().tolist() == [["recovered", "truncated"]]


def test_the_packaged_prompts_fit():
    folder = Path(__file__).parents[2] / "prompts"
    read = {
        name: read_prompt(folder, name, {"language": "English"})
        for name in ("extract_claims", "extract_claims_continue")
    }
    chat = ScriptedChat({"a\n": [NOTHING]})
    extract_claims(
        text_units("a"),
        ClaimParams(),
        read["extract_claims"],
        read["extract_claims_continue"],
        chat,
    )
    assert "$" not in chat.requests[0].messages[0]["content"]
