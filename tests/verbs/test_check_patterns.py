"""check_patterns keeps the entities and relationships that the ontology allows.

The cases of a graph that is pruned to a schema follow what neo4j-graphrag documents of its own.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from pipeline.contract.schemas import CO_OCCURS, MERGED_RELATIONSHIPS, RELATIONSHIP_RECORDS
from pipeline.text.ids import entity_id, relationship_id
from pipeline.verbs.check_patterns import (
    PatternParams,
    check_patterns,
    check_records,
    state_something,
)
from pipeline.verbs.conform_extractions import ConformParams, conform_extractions
from pipeline.verbs.list_statements import list_statements
from pipeline.verbs.merge_graphs import merge_graphs
from tests.verbs.graphs import Record, entity, extractions, link

ADA, ACME, ROME = entity("Ada"), entity("Acme", "COMPANY"), entity("Rome", "CITY")
TYPES = ("PERSON", "COMPANY", "CITY")
RULES: dict[str, Any] = {
    "other_entities": "reject",
    "relationship_types": ("WORKS_AT", "KNOWS", "LIES_IN"),
    "symmetric": ("KNOWS",),
    "patterns": (
        ("PERSON", "WORKS_AT", "COMPANY"),
        ("PERSON", "KNOWS", "PERSON"),
        ("COMPANY", "LIES_IN", "CITY"),
    ),
}


class Checked(NamedTuple):
    """The graph that is left: types by names of entities, relationships, and rejects."""

    entities: dict[str, str]
    relationships: list[tuple[str, str, str]]
    reasons: list[str]


def checked(records: Sequence[Record], **params: Any) -> Checked:
    return check_units({"d/0": records}, **params)


def check_units(units: Mapping[str, Sequence[Record]], **params: Any) -> Checked:
    given, text_units = extractions(units)
    entities, _, mentions, unchecked, _ = merge_graphs(given, text_units)
    rules = PatternParams.model_validate({**RULES, **params})
    left, merged, left_mentions, records, rejects = check_patterns(
        entities, unchecked, mentions, rules
    )
    assert set(left_mentions["entity_id"]) == set(left["id"])
    rows = MERGED_RELATIONSHIPS.encode(merged, "merged").to_pylist()
    for row in rows:
        ends = entity_id(row["source"]), entity_id(row["target"])
        assert (row["source_entity_id"], row["target_entity_id"]) == ends
        assert row["id"] == relationship_id(*ends)
    sound = records[records["fault"] == ""]
    assert set(sound["id"]) == {row["id"] for row in rows}
    return Checked(
        dict(zip(left["name"], left["type"], strict=True)),
        sorted((row["source"], row["keywords"][0], row["target"]) for row in rows),
        rejects["reason"].tolist(),
    )


def test_what_fits_a_pattern_stays():
    graph = checked([ADA, ACME, link("Ada", "Acme", keywords=["WORKS_AT"])])
    assert graph.relationships == [("Ada", "WORKS_AT", "Acme")]
    assert not graph.reasons


def test_ends_that_fit_only_the_other_way_round_are_turned():
    graph = checked([ADA, ACME, link("Acme", "Ada", keywords=["WORKS_AT"])])
    assert graph.relationships == [("Ada", "WORKS_AT", "Acme")]
    assert not graph.reasons


def test_a_turned_record_joins_the_relationship_of_its_new_direction():
    graph = checked(
        [
            ADA, ACME,
            link("Acme", "Ada", keywords=["WORKS_AT"]), link("Ada", "Acme", keywords=["WORKS_AT"]),
        ]
    )  # fmt: skip
    assert graph.relationships == [("Ada", "WORKS_AT", "Acme")]


def test_ends_that_fit_no_pattern_are_rejected():
    graph = checked([ADA, ROME, link("Ada", "Rome", keywords=["WORKS_AT"])])
    assert not graph.relationships
    assert graph.reasons == ["not_in_patterns"]
    assert set(graph.entities) == {"Ada", "Rome"}


@pytest.mark.parametrize(("policy", "type"), [("other", "OTHER"), ("keep", "WORKS_AT")])
def test_ends_that_fit_no_pattern_may_be_other_or_stay(policy: str, type: str):
    graph = checked([ADA, ROME, link("Ada", "Rome", keywords=["WORKS_AT"])], other_patterns=policy)
    assert graph.relationships == [("Ada", type, "Rome")]


def test_a_type_that_is_known_without_a_pattern_fits_nowhere():
    """As in neo4j-graphrag: where patterns are given, each relationship must fit one."""
    graph = checked(
        [ADA, ROME, link("Ada", "Rome", keywords=["BORN_IN"])],
        relationship_types=[*RULES["relationship_types"], "BORN_IN"],
    )
    assert graph.reasons == ["not_in_patterns"]


def test_a_type_outside_that_is_kept_is_under_no_pattern():
    graph = checked([ADA, ROME, link("Ada", "Rome", keywords=["frobnicates"])])
    assert graph.relationships == [("Ada", "frobnicates", "Rome")]


def test_without_patterns_each_direction_stays():
    graph = checked([ADA, ACME, link("Acme", "Ada", keywords=["WORKS_AT"])], patterns=())
    assert graph.relationships == [("Acme", "WORKS_AT", "Ada")]


def test_a_pattern_of_a_parent_holds_for_its_children():
    graph = checked(
        [entity("Ada", "ENGINEER"), ACME, link("Acme", "Ada", keywords=["WORKS_AT"])],
        parents={"ENGINEER": "PROFESSIONAL", "PROFESSIONAL": "PERSON"},
    )
    assert graph.relationships == [("Ada", "WORKS_AT", "Acme")]


def test_both_directions_of_a_symmetric_type_are_one_relationship():
    ada, otto = link("Ada", "Otto", keywords=["KNOWS"]), link("Otto", "Ada", keywords=["KNOWS"])
    graph = checked([ADA, entity("Otto"), ada, otto])
    assert len(graph.relationships) == 1
    assert graph == checked([ADA, entity("Otto"), ada])


def test_a_symmetric_type_that_is_kept_outside_the_patterns_has_one_direction():
    there, back = link("Ada", "Acme", keywords=["KNOWS"]), link("Acme", "Ada", keywords=["KNOWS"])
    graph = checked([ADA, ACME, there, back], other_patterns="keep")
    assert len(graph.relationships) == 1
    assert graph == checked([ADA, ACME, there], other_patterns="keep")


@pytest.mark.parametrize(("source", "target"), [("Ada", "Otto"), ("Otto", "Ada")])
def test_a_direction_stays_where_the_pattern_fits_both_ways(source: str, target: str):
    graph = checked(
        [ADA, entity("Otto"), link(source, target, keywords=["WORKS_AT"])],
        patterns=(("PERSON", "WORKS_AT", "PERSON"),),
    )
    assert graph.relationships == [(source, "WORKS_AT", target)]


def test_an_entity_without_a_type_is_rejected_with_its_relationships_and_mentions():
    graph = checked([ADA, ACME, link("Ada", "Nobody", keywords=["KNOWS"])])
    assert set(graph.entities) == {"Ada", "Acme"}
    assert not graph.relationships
    assert sorted(graph.reasons) == ["not_in_ontology", "not_in_ontology"]


@pytest.mark.parametrize(("policy", "type"), [("other", "OTHER"), ("keep", "UNKNOWN")])
def test_an_entity_without_a_type_may_be_other_or_stay(policy: str, type: str):
    graph = checked([ADA, entity("Nobody", "")], other_entities=policy)
    assert graph.entities == {"Ada": "PERSON", "Nobody": type}


def test_a_pattern_may_name_entities_without_a_type():
    graph = checked(
        [ADA, entity("Nobody", ""), link("Nobody", "Ada", keywords=["KNOWS"])],
        other_entities="other",
        patterns=[("PERSON", "KNOWS", "OTHER")],
        symmetric=(),
    )
    assert graph.relationships == [("Ada", "KNOWS", "Nobody")]


def test_a_type_from_another_text_unit_counts():
    graph = check_units(
        {"d/0": [link("Acme", "Ada", keywords=["WORKS_AT"])], "d/1": [ADA], "e/0": [ACME]}
    )
    assert graph.relationships == [("Ada", "WORKS_AT", "Acme")]


def test_co_occurrence_is_under_no_pattern():
    graph = checked([ADA, ROME, link("Ada", "Rome", keywords=[CO_OCCURS, "walls"])])
    assert graph.relationships == [("Ada", CO_OCCURS, "Rome")]


def test_a_shared_sentence_stays_without_what_fits_no_pattern():
    graph = checked([ADA, ROME, link("Ada", "Rome", keywords=["WORKS_AT", CO_OCCURS, "walls"])])
    assert graph.relationships == [("Ada", CO_OCCURS, "Rome")]
    assert graph.reasons == ["not_in_patterns"]


def test_a_star_in_a_pattern_stands_for_every_type():
    graph = checked(
        [ADA, ROME, entity("Nobody", ""), link("Rome", "Ada", keywords=["WORKS_AT"]),
         link("Nobody", "Ada", keywords=["LIES_IN"])],
        other_entities="keep",
        patterns=[("PERSON", "WORKS_AT", "*"), ("*", "LIES_IN", "*")],
    )  # fmt: skip
    assert graph.relationships == [("Ada", "WORKS_AT", "Rome"), ("Nobody", "LIES_IN", "Ada")]


def test_a_relationship_of_an_entity_with_itself_has_no_second_reject():
    graph = checked([ADA, link("Ada", "ada", keywords=["KNOWS"])])
    assert not graph.relationships
    assert not graph.reasons


def test_without_an_ontology_the_graph_of_the_merge_stays():
    given, units = extractions(
        {"d/0": [ADA, link("Acme", "Ada", keywords=["WORKS_AT"]), link("Rome", "Oslo")]}
    )
    entities, merged, mentions, records, _ = merge_graphs(given, units)
    left = check_patterns(entities, records, mentions)
    assert left[0].equals(entities)
    assert left[1].to_dict("records") == merged.to_dict("records")
    assert left[2].equals(mentions)
    assert not len(left[4])


def test_nothing_outside_the_ontology_is_left_of_a_messy_graph():
    """A tenth of types and of patterns is outside, and a third of the ends is reversed."""
    draw = random.Random(1)
    names = [f"Name {number}" for number in range(60)]
    type_of = {name: draw.choice([*TYPES, *TYPES, *TYPES, "SPACESHIP"]) for name in names}
    links_of = {type: pattern for pattern in RULES["patterns"] for type in [pattern[1]]}
    units: dict[str, list[Record]] = {}
    for number in range(100):
        one, other = draw.sample(names, 2)
        types = {type_of[one], type_of[other]}
        fitting = [name for name, ends in links_of.items() if {ends[0], ends[2]} == types]
        type = draw.choice(fitting or ["frobnicates", "KNOWS"])
        ends = [entity(name, type_of[name]) for name in (one, other)]
        units[f"d/{number}"] = [*ends, link(one, other, "said", [type])]
    given, text_units = extractions(units)
    kept, rejected = conform_extractions(
        given,
        ConformParams(
            entity_types=dict.fromkeys(TYPES, ()),
            relationship_types=dict.fromkeys(RULES["relationship_types"], ()),
        ),
    )
    entities, _, mentions, unchecked, _ = merge_graphs(kept, text_units)
    left, merged, _, records, rejects = check_patterns(
        entities, unchecked, mentions, PatternParams.model_validate(RULES)
    )
    assert set(left["type"]) == set(TYPES)
    left_types = dict(zip(left["id"], left["type"], strict=True))
    ends = merged[["source_entity_id", "keywords", "target_entity_id"]]
    patterns = {
        (left_types[source], *words, left_types[target])
        for source, words, target in ends.itertuples(index=False)
    }
    assert patterns == set(RULES["patterns"])
    statements = list_statements(records, merged)
    assert set(statements["type"]) <= set(RULES["relationship_types"])
    # Each record is in the graph, or a reject names it.
    links = (given["kind"] == "relationship").sum()
    rejected_links = rejected["message"].str.contains("related by").sum()
    rejected_records = rejects["message"].str.contains("related").sum()
    assert links == rejected_links + rejected_records + (records["fault"] == "").sum()
    assert {"SPACESHIP"} == set(rejected["message"].str.extract(r"of type '(\w+)'")[0].dropna())


@pytest.mark.parametrize(
    "other",
    [{"other_patterns": "other"}, {"patterns": ()}, {"symmetric": ()}, {"relationship_types": ()}],
)
def test_other_params_affect_no_record_that_states_nothing(other: dict[str, Any]):
    records = [
        ADA,
        ACME,
        link("Acme", "Ada", keywords=[CO_OCCURS, "WORKS_AT"]),
        link("Ada", "Rome", keywords=["WORKS_AT"]),
    ]
    entities, _, _, unchecked, _ = merge_graphs(*extractions({"d/0": records}))
    before, now = (PatternParams.model_validate({**RULES, **more}) for more in ({}, other))
    touched = state_something(unchecked, before, now).to_numpy()
    assert touched.tolist() == [words[0] == "WORKS_AT" for words in unchecked["keywords"]]
    checked_records = [check_records(unchecked, entities, params)[0] for params in (before, now)]
    kept, kept_now = (
        RELATIONSHIP_RECORDS.encode(rows[~touched], "records") for rows in checked_records
    )
    assert kept.to_pylist() == kept_now.to_pylist()
