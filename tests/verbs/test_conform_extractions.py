"""conform_extractions maps types to those of the ontology, and rejects the rest."""

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.contract.schemas import CO_OCCURS, EXTRACTIONS
from pipeline.verbs.conform_extractions import ConformParams, conform_extractions
from tests.verbs.graphs import Record, entity, extractions, link

PEOPLE: dict[str, Any] = {"entity_types": {"PERSON": ["human"], "CITY": []}}
LINKS: dict[str, Any] = {"relationship_types": {"WORKS_AT": ["employment"], "KNOWS": []}}


def conformed(records: Sequence[Record], **params: Any) -> tuple[list[dict], list[str]]:
    """Return the records that are left, and the messages of rejects."""
    given, _ = extractions({"d/0": records})
    kept, rejects = conform_extractions(given, ConformParams.model_validate(params))
    assert (rejects["reason"] == "not_in_ontology").all()
    assert (rejects["row_id"] == "d/0").all()
    table = EXTRACTIONS.encode(kept, "conformed")
    return table.to_pylist(), rejects["message"].tolist()


def types_of(types: Sequence[str], **params: Any) -> list[str]:
    rows, _ = conformed([entity(f"N{type}", type) for type in types], **{**PEOPLE, **params})
    return [row["type"] for row in rows]


def keywords_of(keywords: Sequence[str], **params: Any) -> list[list[str]]:
    rows, _ = conformed([link("A", "B", keywords=keywords)], **{**LINKS, **params})
    return [row["keywords"] for row in rows]


def test_case_plural_and_synonyms_name_a_type():
    assert types_of(["person", "Persons", "HUMANS", "cities"]) == ["PERSON"] * 3 + ["CITY"]


def test_another_type_is_rejected_and_the_reject_names_it():
    rows, messages = conformed([entity("Quill", "SPACESHIP", "flies"), entity("Ada")], **PEOPLE)
    assert [row["name"] for row in rows] == ["Ada"]
    assert messages == ["'Quill' is of type 'SPACESHIP': flies"]


@pytest.mark.parametrize(("policy", "type"), [("other", "OTHER"), ("keep", "SPACESHIP")])
def test_another_type_may_be_other_or_stay(policy: str, type: str):
    assert types_of(["SPACESHIP"], other_entities=policy) == [type]


def test_a_record_without_a_type_stays_for_another_record_may_give_it_one():
    assert types_of(["", "name", "unknown"]) == ["", "", ""]


def test_without_entity_types_every_type_is_allowed():
    assert types_of(["SPACESHIP"], entity_types={}) == ["SPACESHIP"]


@pytest.mark.parametrize("keyword", ["works at", "WORKS_AT", "worksAt", "Works-At", "employment"])
def test_any_spelling_of_a_relationship_type_is_found(keyword: str):
    assert keywords_of([keyword]) == [["WORKS_AT"]]


def test_the_first_keyword_that_names_a_type_is_the_type_and_others_are_left_out():
    assert keywords_of(["frobnicates", "knows", "works at"]) == [["KNOWS"]]


def test_unknown_keywords_stay_behind_the_type_if_they_are_to_be_kept():
    kept = keywords_of(["frobnicates", "knows"], other_relationships="keep")
    assert kept == [["KNOWS", "frobnicates"]]


def test_a_relationship_of_another_type_is_rejected():
    rows, messages = conformed([link("A", "B", "b", ["frobnicates"]), link("A", "B")], **LINKS)
    assert not rows
    assert messages == [
        "'A' and 'B' related by 'frobnicates': b",
        "'A' and 'B' related by no keyword: ",
    ]


def test_a_relationship_of_another_type_may_be_other():
    assert keywords_of(["frobnicates"], other_relationships="other") == [["OTHER"]]


def test_words_of_shared_sentences_are_no_types():
    """Behind CO_OCCURS nothing is stated, so there is nothing to map or to reject."""
    assert keywords_of([CO_OCCURS, "knows"]) == [[CO_OCCURS, "knows"]]
    assert keywords_of(["employment", CO_OCCURS, "x"]) == [["WORKS_AT", CO_OCCURS, "x"]]


def test_what_is_stated_is_rejected_and_the_shared_sentence_stays():
    rows, messages = conformed([link("A", "B", "b", ["frobnicates", CO_OCCURS, "x"])], **LINKS)
    assert [row["keywords"] for row in rows] == [[CO_OCCURS, "x"]]
    assert messages == ["'A' and 'B' related by 'frobnicates', 'co-occurs', 'x': b"]


def test_relationships_are_no_entities_and_entities_no_relationships():
    """An empty type of a relationship's record, and no keyword of an entity's, is no fault."""
    rows, messages = conformed(
        [entity("Ada"), link("A", "B", keywords=["knows"])], **PEOPLE, **LINKS
    )
    assert len(rows) == 2
    assert not messages
