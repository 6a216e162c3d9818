"""conform_extractions maps types to those of the ontology, and rejects the rest."""

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.schemas import CO_OCCURS, EXTRACTIONS
from pipeline.verbs.conform_extractions import ConformParams, conform_extractions, find_retyped
from tests.sizes import size
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


BUILDINGS: dict[str, Any] = {
    "entity_types": {"STRUCTURE": ["tower"], "PERSON": []},
    "relationship_types": {"BUILT": [], "KNOWS": []},
    "entity_properties": {
        "STRUCTURE": [
            {"name": "height", "type": "number", "unit": "m", "synonyms": ["tallness"]},
            {"name": "state", "type": "enum", "values": ["open", "closed"]},
        ]
    },
    "relationship_properties": {"BUILT": [{"name": "year", "type": "date", "required": True}]},
}


def with_properties(record: Record, **properties: Any) -> Record:
    return {**record, "attributes": json.dumps(properties)}


def read_properties(
    records: Sequence[Record], **params: Any
) -> tuple[list[str | None], list[tuple[str, str]]]:
    """Return the attributes of the records, and reason and message of each reject."""
    given, _ = extractions({"d/0": records})
    ontology = ConformParams.model_validate({**BUILDINGS, **params})
    kept, rejects = conform_extractions(given, ontology)
    table = EXTRACTIONS.encode(kept, "conformed")
    told = rejects[["reason", "message"]].itertuples(index=False, name=None)
    return table.column("attributes").to_pylist(), list(told)


def test_properties_get_the_names_and_units_of_the_ontology():
    tower = with_properties(entity("Eyrie", "tower"), Tallness="1,200 ft", STATE="Open")
    read, rejects = read_properties([tower])
    assert (read, rejects) == (['{"height": 365.76, "state": "open"}'], [])


def test_a_property_outside_the_ontology_is_a_reject_and_its_entity_stays():
    tower = with_properties(entity("Eyrie", "STRUCTURE"), colour="red", height="12 kg", state="old")
    read, rejects = read_properties([tower])
    assert read == [None]
    assert [reason for reason, _ in rejects] == ["bad_value", "unknown_property", "wrong_unit"]
    assert rejects[2][1] == (
        "'Eyrie' of type 'STRUCTURE': 'height' is '12 kg': the unit 'kg' does not convert to 'm'"
    )


def test_properties_outside_the_ontology_stay_as_texts_if_it_keeps_them():
    tower = with_properties(entity("Eyrie", "STRUCTURE"), colour="red", height=["12 kg", "3 m"])
    read, rejects = read_properties([tower], other_properties="keep")
    assert (read, rejects) == (['{"colour": "red", "height": [3, "12 kg"]}'], [])


def test_a_record_without_a_type_has_the_properties_of_the_type_that_its_text_unit_gives():
    tower, more = entity("Eyrie", "STRUCTURE"), with_properties(entity("eyrie", ""), height="3 m")
    assert read_properties([tower, more]) == ([None, '{"height": 3}'], [])
    read, rejects = read_properties([more])
    assert (read, [reason for reason, _ in rejects]) == ([None], ["unknown_property"])


def test_a_relationship_without_a_required_property_stays_and_is_a_reject():
    built = with_properties(link("Ada", "Eyrie", keywords=["built"]), year="May 1850")
    assert read_properties([built]) == (['{"year": "1850-05"}'], [])
    read, rejects = read_properties([link("Ada", "Eyrie", keywords=["built"])])
    assert (read, [reason for reason, _ in rejects]) == ([None], ["missing_property"])


@pytest.mark.parametrize("cell", ["[1]", "{", '"x"', "12"])
def test_properties_that_are_no_json_object_are_a_reject(cell: str):
    read, rejects = read_properties([{**entity("Eyrie", "STRUCTURE"), "attributes": cell}])
    assert (read, [reason for reason, _ in rejects]) == ([None], ["bad_value"])


def test_an_ontology_without_properties_leaves_none():
    tower = with_properties(entity("Eyrie", "STRUCTURE"), height="3 m")
    read, rejects = read_properties([tower], entity_properties={}, relationship_properties={})
    assert (read, [reason for reason, _ in rejects]) == ([None], ["unknown_property"])


RULES = st.fixed_dictionaries(
    {
        "entity_types": st.sampled_from(
            [{}, {"PERSON": []}, {"PERSON": ["human"]}, {"HUMAN": ["person"], "CITY": []}]
        ),
        "relationship_types": st.sampled_from(
            [{}, {"KNOWS": []}, {"KNOWS": ["employment"]}, {"WORKS_AT": ["employment"]}]
        ),
        "other_entities": st.sampled_from(["reject", "other", "keep"]),
        "other_relationships": st.sampled_from(["reject", "other", "keep"]),
        "other_properties": st.sampled_from(["reject", "keep"]),
        "entity_properties": st.sampled_from([{}, {"PERSON": [{"name": "age"}]}]),
    }
)
RECORDS = st.one_of(
    st.builds(
        lambda kind, attributes: {**entity("N", kind), "attributes": attributes},
        st.sampled_from(["human", "Person", "city", "SPACESHIP", "", "name"]),
        st.sampled_from(["", '{"age": "7"}']),
    ),
    st.builds(
        lambda keywords: link("A", "B", keywords=keywords),
        st.lists(
            st.sampled_from(["knows", "employment", "frobnicates", CO_OCCURS, ""]), max_size=3
        ),
    ),
)


@settings(max_examples=size(60, 2000))
@given(record=RECORDS, before=RULES, now=RULES)
def test_other_params_make_the_same_of_a_record_that_they_are_not_said_to_affect(
    record: Record, before: dict[str, Any], now: dict[str, Any]
):
    given_rows, _ = extractions({"d/0": [record]})
    then, later = ConformParams.model_validate(before), ConformParams.model_validate(now)
    touched = find_retyped(given_rows, then, later)
    assert touched.any() or rows_of(given_rows, then) == rows_of(given_rows, later)


def rows_of(given_rows: pd.DataFrame, params: ConformParams) -> list[Any]:
    kept, rejects = conform_extractions(given_rows, params)
    return [EXTRACTIONS.encode(kept, "conformed").to_pylist(), rejects.to_dict("records")]


def test_a_synonym_affects_the_records_that_have_it_alone():
    given, _ = extractions(
        {
            "d/0": [
                entity("Ada", "human"),
                entity("Rome", "CITY"),
                link("A", "B", keywords=["knows"]),
            ]
        }
    )
    before = ConformParams.model_validate({"entity_types": {"PERSON": [], "CITY": []}, **LINKS})
    now = ConformParams.model_validate({**PEOPLE, **LINKS})
    assert find_retyped(given, before, now).tolist() == [True, False, False]
