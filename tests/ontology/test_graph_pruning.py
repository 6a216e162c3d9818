"""A graph is pruned to a schema of neo4j-graphrag: one test for each case that it documents.

Where the behaviour here differs on purpose, the name of the test says what happens here, and
docs/knowledge.md says why.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from pipeline.contract.schemas import MERGED_RELATIONSHIPS
from pipeline.ontology.read import parse_ontology
from pipeline.ontology.step_args import attribute_args, check_args, conform_args
from pipeline.verbs.check_patterns import PatternParams, check_patterns
from pipeline.verbs.conform_extractions import ConformParams, conform_extractions
from pipeline.verbs.list_attributes import AttributeParams, list_attributes
from pipeline.verbs.merge_graphs import merge_graphs
from tests.verbs.graphs import Record, entity, extractions, link

YEAR, NAME = {"name": "year", "type": "INTEGER"}, {"name": "name", "type": "STRING"}
PERSON = {"label": "Person", "properties": [NAME, YEAR], "additional_properties": False}
FIRM = {"label": "Firm", "properties": [NAME]}
WORKS_AT = {"label": "WORKS_AT", "properties": [YEAR], "additional_properties": False}
CLOSED: dict[str, Any] = {
    "node_types": [PERSON, FIRM],
    "relationship_types": [WORKS_AT],
    "patterns": [["Person", "WORKS_AT", "Firm"]],
    "additional_node_types": False,
    "additional_relationship_types": False,
    "additional_patterns": False,
}
ADA, ACME, ROME = entity("Ada", "Person"), entity("Acme", "Firm"), entity("Rome", "City")


class Pruned(NamedTuple):
    """What is left: types by entity, relationships, values by entity and property, and reasons."""

    nodes: dict[str, str]
    links: list[tuple[str, str, str]]
    values: dict[tuple[str, str], str]
    reasons: list[str]


def prune(records: Sequence[Record], **changes: Any) -> Pruned:
    """Return what the steps of the ontology leave of these records of one text unit."""
    ontology = parse_ontology(json.dumps({**CLOSED, **changes}), "schema.json")
    assert ontology is not None
    given, text_units = extractions({"d/0": records})
    conforming = ConformParams.model_validate(conform_args(ontology))
    conformed, outside = conform_extractions(given, conforming)
    entities, _, mentions, unchecked, _ = merge_graphs(conformed, text_units)
    patterns = PatternParams.model_validate(check_args(ontology))
    left, merged, _, _, misfits = check_patterns(entities, unchecked, mentions, patterns)
    listing = AttributeParams.model_validate(attribute_args(ontology))
    types = left[["id", "type"]]
    attributes, without = list_attributes(conformed, text_units, types, listing)
    names = dict(zip(left["id"], left["name"], strict=True))
    cells = attributes[["entity_id", "name", "value"]].itertuples(index=False, name=None)
    rows = MERGED_RELATIONSHIPS.encode(merged, "merged").to_pylist()
    return Pruned(
        dict(zip(left["name"], left["type"], strict=True)),
        sorted((row["source"], ", ".join(row["keywords"]), row["target"]) for row in rows),
        {(names[id], name): value for id, name, value in cells},
        [reason for table in (outside, misfits, without) for reason in table["reason"]],
    )


def of(record: Record, **properties: Any) -> Record:
    return {**record, "attributes": json.dumps(properties)}


def works(source: str = "Ada", target: str = "Acme", type: str = "WORKS_AT") -> Record:
    return link(source, target, "They said so.", [type] if type else [])


def test_a_graph_in_the_schema_stays_as_it_is():
    pruned = prune([of(ADA, year=1850), ACME, works()])
    assert pruned.nodes == {"Ada": "Person", "Acme": "Firm"}
    assert pruned.links == [("Ada", "WORKS_AT", "Acme")]
    assert pruned.values == {("Ada", "year"): "1850"}
    assert pruned.reasons == []


def test_a_node_with_a_label_outside_the_schema_is_pruned():
    pruned = prune([ADA, ROME])
    assert (list(pruned.nodes), pruned.reasons) == (["Ada"], ["not_in_ontology"])


def test_a_node_with_a_label_outside_the_schema_stays_with_additional_node_types():
    pruned = prune([ADA, ROME], additional_node_types=True)
    assert pruned.nodes == {"Ada": "Person", "Rome": "City"}


def test_a_schema_without_node_types_allows_all_labels():
    pruned = prune([ROME], node_types=[], patterns=[], additional_node_types=True)
    assert pruned.nodes == {"Rome": "City"}


def test_a_schema_that_lists_node_types_and_has_no_flag_allows_no_others():
    schema = {name: value for name, value in CLOSED.items() if "additional" not in name}
    ontology = parse_ontology(json.dumps(schema), "schema.json")
    assert ontology is not None
    policies = set(ontology.otherwise.model_dump(exclude={"properties"}).values())
    assert policies == {"reject"}


def test_a_node_without_a_label_is_pruned_unless_another_record_gives_it_one():
    assert prune([entity("Ada", "")]).nodes == {}
    assert prune([entity("Ada", ""), ADA]).nodes == {"Ada": "Person"}


def test_a_graph_of_which_no_node_is_in_the_schema_is_empty():
    pruned = prune([ROME, entity("Oslo", "City"), works("Rome", "Oslo")])
    assert (pruned.nodes, pruned.links) == ({}, [])
    assert pruned.reasons


def test_a_relationship_of_a_pruned_node_is_pruned():
    pruned = prune([ADA, ROME, works("Ada", "Rome")])
    assert (list(pruned.nodes), pruned.links) == (["Ada"], [])


def test_a_dangling_relationship_is_pruned():
    pruned = prune([ADA, works("Ada", "Nobody")])
    assert (list(pruned.nodes), pruned.links) == (["Ada"], [])


def test_a_relationship_type_outside_the_schema_is_pruned():
    pruned = prune([ADA, ACME, works(type="OWNS")])
    assert (pruned.links, pruned.reasons) == ([], ["not_in_ontology"])


def test_a_relationship_type_outside_stays_with_additional_relationship_types():
    flags = {"additional_relationship_types": True, "additional_patterns": True}
    pruned = prune([ADA, ACME, works(type="OWNS")], **flags)
    assert pruned.links == [("Ada", "OWNS", "Acme")]


def test_an_additional_relationship_type_is_under_no_pattern():
    pruned = prune([ADA, ACME, works("Acme", "Ada", "OWNS")], additional_relationship_types=True)
    assert pruned.links == [("Acme", "OWNS", "Ada")]


def test_a_relationship_without_a_type_is_pruned():
    pruned = prune([ADA, ACME, works(type="")])
    assert (pruned.links, pruned.reasons) == ([], ["not_in_ontology"])


@pytest.mark.parametrize("more", [False, True])
def test_a_relationship_that_fits_a_pattern_only_the_other_way_round_is_turned(more: bool):
    pruned = prune([ADA, ACME, works("Acme", "Ada")], additional_patterns=more)
    assert (pruned.links, pruned.reasons) == ([("Ada", "WORKS_AT", "Acme")], [])


def test_a_relationship_that_fits_no_pattern_is_pruned():
    pruned = prune([ADA, entity("Bo", "Person"), works("Ada", "Bo")])
    assert (pruned.links, pruned.reasons) == ([], ["not_in_patterns"])


def test_a_relationship_that_fits_no_pattern_stays_with_additional_patterns():
    records = [ADA, entity("Bo", "Person"), works("Ada", "Bo")]
    assert prune(records, additional_patterns=True).links == [("Ada", "WORKS_AT", "Bo")]


def test_without_patterns_each_direction_is_allowed():
    pruned = prune([ADA, ACME, works("Acme", "Ada")], patterns=[], additional_patterns=True)
    assert pruned.links == [("Acme", "WORKS_AT", "Ada")]


def test_a_property_outside_the_schema_is_pruned_and_its_node_stays():
    pruned = prune([of(ADA, year=1850, colour="red")])
    assert pruned.values == {("Ada", "year"): "1850"}
    assert pruned.reasons == ["unknown_property"]


def test_a_property_outside_the_schema_stays_with_additional_properties():
    types = [{**PERSON, "additional_properties": True}, {**FIRM, "additional_properties": True}]
    open_link = {**WORKS_AT, "additional_properties": True}
    pruned = prune([of(ADA, colour="red")], node_types=types, relationship_types=[open_link])
    assert pruned.values == {("Ada", "colour"): "red"}


def test_a_node_without_a_required_property_stays_and_is_a_reject():
    required = {**PERSON, "properties": [{**YEAR, "required": True}]}
    for record in (ADA, of(ADA, year=None)):
        pruned = prune([record], node_types=[required, FIRM])
        assert (list(pruned.nodes), pruned.reasons) == (["Ada"], ["missing_property"])


def test_a_constraint_of_existence_makes_a_property_required():
    constraint = {"type": "EXISTENCE", "node_type": "Person", "property_name": "year"}
    assert prune([ADA], constraints=[constraint]).reasons == ["missing_property"]
    assert prune([of(ADA, year=1850)], constraints=[constraint]).reasons == []


def test_a_relationship_without_a_required_property_stays_and_is_a_reject():
    required = {**WORKS_AT, "properties": [{**YEAR, "required": True}]}
    pruned = prune([ADA, ACME, works()], relationship_types=[required])
    assert pruned.links == [("Ada", "WORKS_AT", "Acme")]
    assert pruned.reasons == ["missing_property"]


def test_a_node_without_any_property_that_is_left_stays():
    pruned = prune([of(ADA, colour="red")])
    assert (list(pruned.nodes), pruned.values) == (["Ada"], {})


def test_a_value_of_another_type_is_a_reject_and_its_node_stays():
    pruned = prune([of(ADA, year="long ago")])
    assert (list(pruned.nodes), pruned.values) == (["Ada"], {})
    assert pruned.reasons == ["bad_value"]


def test_a_value_that_is_an_object_becomes_a_text():
    motto = {"name": "motto", "type": "STRING"}
    types = [{**PERSON, "properties": [motto]}, FIRM]
    pruned = prune([of(ADA, motto={"de": "Ja", "en": "Yes"})], node_types=types)
    assert pruned.values == {("Ada", "motto"): "Ja Yes"}


def test_labels_and_types_are_found_in_any_spelling():
    pruned = prune([entity("Ada", "persons"), entity("Acme", "FIRM"), works(type="works at")])
    assert pruned.nodes == {"Ada": "Person", "Acme": "Firm"}
    assert pruned.links == [("Ada", "WORKS_AT", "Acme")]
