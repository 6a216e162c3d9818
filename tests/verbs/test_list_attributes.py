"""list_attributes lists what text units say of entities, as the merged entity's type has it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.contract.schemas import RESOLUTIONS
from pipeline.corrections.values import DecidedValue
from pipeline.text.ids import entity_id
from pipeline.verbs.list_attributes import (
    AttributeParams,
    list_attributes,
    list_resolved_attributes,
)
from pipeline.verbs.list_statements import list_statements
from pipeline.verbs.merge_graphs import merge_graphs
from tests.verbs.graphs import Record, entity, extractions, link

HEIGHT = {"name": "height", "type": "number", "unit": "m"}
PROPERTIES: dict[str, Any] = {
    "properties": {"TOWER": [HEIGHT, {"name": "owner"}], "PERSON": [{**HEIGHT, "unit": "cm"}]}
}


def of(record: Record, **properties: Any) -> Record:
    return {**record, "attributes": json.dumps(properties)}


def listed(
    units: Mapping[str, Sequence[Record]], **params: Any
) -> tuple[list[tuple[str, str, str, str]], list[str]]:
    """Return entity, name, value and text unit of each row, and the reasons of rejects."""
    given, text_units = extractions(units)
    entities, *_ = merge_graphs(given, text_units)
    ontology = AttributeParams.model_validate({**PROPERTIES, **params})
    attributes, rejects = list_attributes(given, text_units, entities[["id", "type"]], ontology)
    names = dict(zip(entities["id"], entities["name"], strict=True))
    columns = ["entity_id", "name", "value", "text_unit_id"]
    rows = [
        (names[id], *cells) for id, *cells in attributes[columns].itertuples(index=False, name=None)
    ]
    return sorted(rows), rejects["reason"].tolist()


def test_values_that_contradict_each_other_stay_with_their_text_units():
    eyrie = entity("Eyrie", "TOWER")
    units = {"d/0": [of(eyrie, height=12)], "d/1": [of(eyrie, height=12.5)], "e/0": [eyrie]}
    assert listed(units) == (
        [("Eyrie", "height", "12", "d/0"), ("Eyrie", "height", "12.5", "d/1")],
        [],
    )


def test_a_value_of_another_type_stays_only_where_both_types_declare_it_alike():
    units = {
        "d/0": [of(entity("Eyrie", "TOWER"), height=12, owner="Ada")],
        "d/1": [entity("Eyrie", "PERSON"), entity("Eyrie", "PERSON")],
    }
    rows, reasons = listed(units)
    assert (rows, reasons) == ([], ["unknown_property"] * 2)


def test_a_record_without_a_type_has_that_of_its_text_unit():
    units = {"d/0": [entity("Eyrie", "TOWER"), of(entity("eyrie", ""), height=12)]}
    assert listed(units) == ([("Eyrie", "height", "12", "d/0")], [])


def test_a_required_property_that_no_text_gives_is_a_reject_and_the_entity_stays():
    required = {"properties": {"TOWER": [{**HEIGHT, "required": True}]}}
    assert listed({"d/0": [entity("Eyrie", "TOWER")]}, **required) == ([], ["missing_property"])
    assert listed({"d/0": [of(entity("Eyrie", "TOWER"), height=1)]}, **required)[1] == []


def decided(name: str, value: str, is_cited: bool = False) -> dict[str, Any]:
    """Return a property that a person has set, as correct_extractions writes it."""
    return {name: DecidedValue(value, "correction 5f0c, by ann", is_cited)._asdict()}


def test_a_value_of_a_person_replaces_those_of_texts_and_is_listed_once():
    eyrie = entity("Eyrie", "TOWER")
    value = of(entity("Eyrie", ""), **decided("Height", "1,000 cm"))
    units = {"d/0": [of(eyrie, height=12, owner="Ada"), value], "d/1": [eyrie, value]}
    assert listed(units) == ([("Eyrie", "height", "10", ""), ("Eyrie", "owner", "Ada", "d/0")], [])


def test_a_cited_value_of_a_person_has_its_text_unit():
    eyrie = entity("Eyrie", "TOWER")
    value = of(entity("Eyrie", ""), **decided("height", "10", is_cited=True))
    units = {"d/0": [of(eyrie, height=12)], "d/1": [value]}
    assert listed(units) == ([("Eyrie", "height", "10", "d/1")], [])


def test_a_value_of_a_person_that_cannot_be_read_is_one_reject_and_those_of_texts_stay():
    eyrie = entity("Eyrie", "TOWER")
    for name, written, reason in (
        ("height", "10 kg", "wrong_unit"), ("colour", "red", "unknown_property"),
        ("owner", "unknown", "bad_value"),
    ):  # fmt: skip
        value = of(entity("Eyrie", ""), **decided(name, written))
        units = {"d/0": [of(eyrie, height=12), value], "d/1": [eyrie, value]}
        assert listed(units) == ([("Eyrie", "height", "12", "d/0")], [reason])


def test_a_value_of_a_person_is_what_a_type_requires():
    required = {"properties": {"TOWER": [{**HEIGHT, "required": True}]}}
    value = of(entity("Eyrie", "TOWER"), **decided("height", "10"))
    assert listed({"d/0": [value]}, **required)[1] == []


def test_an_ontology_that_keeps_other_properties_keeps_those_of_people():
    value = of(entity("Eyrie", "TOWER"), **decided("colour", "red"))
    rows, rejects = listed({"d/0": [value]}, other_properties="keep")
    assert (rows, rejects) == ([("Eyrie", "colour", "red", "")], [])


def test_values_follow_an_entity_to_the_one_that_it_became():
    units = {
        "d/0": [of(entity("Eyrie", "TOWER"), height=12)],
        "d/1": [entity("The Eyrie", "TOWER")],
    }
    given, text_units = extractions(units)
    left, right = sorted([entity_id("Eyrie"), entity_id("The Eyrie")])
    for head in (left, right):
        entities = pd.DataFrame({"id": [head], "type": ["TOWER"]})
        merged = (left, right, "", "", 1.0, "", "merge", "rule")
        attributes, _ = list_resolved_attributes(
            given,
            text_units,
            entities,
            RESOLUTIONS.frame([merged]),
            AttributeParams.model_validate(PROPERTIES),
        )
        assert attributes[["entity_id", "value"]].to_numpy().tolist() == [[head, "12"]]


def test_properties_of_relationships_are_in_the_statements():
    since = of(link("Ada", "Eyrie", "She built it.", ["BUILT"]), year="1871")
    plain = link("Ada", "Eyrie", "She built it.", ["BUILT"])
    told: list[pd.DataFrame] = []
    for records in ([since, plain], [plain, since]):
        given, text_units = extractions({"d/0": records})
        _, links, _, stated, _ = merge_graphs(given, text_units)
        told.append(list_statements(stated, links).sort_values("id", ignore_index=True))
    pd.testing.assert_frame_equal(*told)
    assert sorted(told[0]["attributes"]) == ['{"year": "1871"}', "{}"]
