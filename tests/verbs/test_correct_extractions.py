import json
from collections.abc import Mapping, Sequence

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.schemas import EXTRACTIONS, UNIT_TEXTS
from pipeline.corrections.file import make_decision
from pipeline.text.ids import document_id, entity_id
from pipeline.verbs.correct_extractions import CorrectParams, correct_extractions
from pipeline.verbs.merge_graphs import merge_graphs
from pipeline.verbs.read_corrections import CorrectionsParams, list_rows
from tests.verbs.graphs import Record, entity, extractions, link

A_MD = document_id("a.md")


def correct(
    units: Mapping[str, Sequence[Record]], *lines: dict, texts: Mapping[str, str] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the outputs of the verb for these records and lines of corrections.jsonl."""
    extracted, text_units = extractions(units)
    for id, text in (texts or {}).items():
        text_units.loc[text_units["id"] == id, "text"] = text
    corrections = list_rows(make_decision(line, "test") for line in lines)
    return correct_extractions(extracted, text_units[UNIT_TEXTS.columns], corrections)


def graph(units: Mapping[str, Sequence[Record]], *lines: dict, **texts) -> tuple[dict, dict]:
    """Return the merged entities by name, and the relationships by their ends."""
    corrected, _, _ = correct(units, *lines, **texts)
    _, text_units = extractions(units)
    entities, relationships, *_ = merge_graphs(
        EXTRACTIONS.filled(corrected, "test"), text_units[UNIT_TEXTS.columns]
    )
    by_name = {row["name"]: row for row in entities.to_dict("records")}
    by_ends = {(row["source"], row["target"]): row for row in relationships.to_dict("records")}
    return by_name, by_ends


UNITS = {
    f"{A_MD}/0": [
        entity("Acme", "ORGANIZATION", "A mill."),
        entity("Ann Lee", "PERSON", "She runs it."),
        link("Ann Lee", "Acme", "Ann Lee runs Acme.", ["runs"]),
    ],
    "b/0": [
        entity("Acme Corp", "COMPANY", "A maker of flour."),
        link("Bo", "Acme Corp", "Bo sued Acme Corp.", ["sued"]),
        link("Acme Corp", "Ann Lee", "Ann Lee left.", ["left"]),
    ],
}


def test_a_corrected_record_keeps_its_attributes_and_an_added_one_has_none():
    units = {f"{A_MD}/0": [{**entity("Acme", "MILL"), "attributes": '{"founded": "1850"}'}]}
    added = {
        "kind": "add_statement", "source": "Acme", "target": "Bo", "description": "They met.",
        "document": "a.md",
    }  # fmt: skip
    typed = {"kind": "set_type", "entity": "Acme", "to": "COMPANY"}
    corrected, _, _ = correct(units, added, typed)
    rows = EXTRACTIONS.encode(corrected, "corrected").select(["kind", "type", "attributes"])
    assert rows.to_pylist() == [
        {"kind": "entity", "type": "COMPANY", "attributes": '{"founded": "1850"}'},
        {"kind": "relationship", "type": "", "attributes": None},
    ]


def attributes_of(units: Mapping[str, Sequence[Record]], *lines: dict) -> list[tuple[str, str]]:
    """Return the names and the properties of the corrected records that have some."""
    corrected, _, _ = correct(units, *lines)
    rows = EXTRACTIONS.seen(corrected).sort_values(["text_unit_id", "order"])
    cells = rows[["name", "attributes"]].fillna("").itertuples(index=False, name=None)
    return [(name, cell) for name, cell in cells if cell]


MILL = {
    f"{A_MD}/0": [{**entity("Acme", "MILL"), "attributes": '{"founded": "1850", "height": 12.5}'}],
    "b/0": [{**entity("ACME", "MILL"), "attributes": '{"founded": ["1850", "1851"]}'}],
}


def test_a_property_is_deleted_with_all_its_values_or_one_of_them():
    line = {"kind": "delete_property", "entity": "acme", "property": "Founded"}
    assert attributes_of(MILL, line) == [("Acme", '{"height": 12.5}')]
    one_value = attributes_of(MILL, {**line, "value": "1851"})
    assert one_value == [
        ("ACME", '{"founded": ["1850"]}'), ("Acme", '{"founded": "1850", "height": 12.5}')
    ]  # fmt: skip
    number = attributes_of(MILL, {**line, "property": "height", "value": "12.50"})
    assert number[-1] == ("Acme", '{"founded": "1850"}')


def test_a_property_is_deleted_in_one_document_alone():
    line = {"kind": "delete_property", "entity": "Acme", "property": "founded", "document": "a.md"}
    names = [name for name, cell in attributes_of(MILL, line) if "founded" in cell]
    assert names == ["ACME"]


def test_a_set_value_is_a_record_of_each_text_unit_that_names_the_entity():
    line = {"kind": "set_property", "entity": "Acme", "property": "height", "value": 13}
    added = [cell for _, cell in attributes_of(UNITS, line)]
    id = make_decision(line, "test").id
    decided = {"value": "13", "correction": f"correction {id}", "is_cited": False}
    assert [json.loads(cell) for cell in added] == [{"height": decided}]
    _, matches, _ = correct(UNITS, line)
    assert matches["records"].tolist() == [1]


def test_a_cited_value_is_a_record_of_the_text_unit_with_the_quote_alone():
    line = {
        "kind": "set_property", "entity": "Acme", "property": "height", "value": "13 m",
        "document": "a.md", "quote": "Thirteen",
    }  # fmt: skip
    texts = {f"{A_MD}/0": "Thirteen metres."}
    corrected, matches, _ = correct(UNITS, line, texts=texts)
    assert matches["text_unit_id"].tolist() == [f"{A_MD}/0"]
    assert corrected["attributes"].notna().sum() == 1
    _, nowhere, _ = correct(UNITS, line)
    assert nowhere.empty


def test_a_view_does_not_follow_values_without_a_document():
    line = {"kind": "set_property", "entity": "Acme", "property": "height", "value": "13"}
    extracted, text_units = extractions(UNITS)
    corrections = list_rows([make_decision(line, "test")])
    given = extracted, text_units[UNIT_TEXTS.columns], corrections
    corrected, matches, _ = correct_extractions(*given, CorrectParams(uncited=False))
    assert (len(corrected), len(matches)) == (len(extracted), 0)


def test_values_of_people_change_no_counts_of_the_graph():
    line = {"kind": "set_property", "entity": "Acme Corp", "property": "height", "value": "13"}
    assert graph(UNITS, line) == graph(UNITS)


def test_without_corrections_nothing_changes():
    extracted, _ = extractions(UNITS)
    corrected, matches, rejects = correct(UNITS)
    pd.testing.assert_frame_equal(corrected, extracted)
    assert matches.empty
    assert rejects.empty


def test_a_rename_to_the_name_of_another_entity_merges_them():
    entities, relationships = graph(UNITS, {"kind": "rename", "entity": "ACME corp", "to": "Acme"})
    assert set(entities) == {"Acme", "Ann Lee", "Bo"}
    assert set(entities["Acme"]["descriptions"]) == {"A mill.", "A maker of flour."}
    assert ("Bo", "Acme") in relationships


def test_renames_are_no_chain():
    entities, _ = graph(
        {"d/0": [entity("A"), entity("B")]},
        {"kind": "rename", "entity": "A", "to": "B"},
        {"kind": "rename", "entity": "B", "to": "C"},
    )
    assert set(entities) == {"B", "C"}


def test_a_rename_with_a_document_splits_what_the_texts_call_by_one_name():
    units = {f"{A_MD}/0": [entity("Mercury")], "b/0": [entity("Mercury")]}
    entities, _ = graph(
        units,
        {"kind": "rename", "entity": "Mercury", "to": "Mercury (planet)", "document": "a.md"},
    )
    assert list(entities["Mercury (planet)"]["text_unit_ids"]) == [f"{A_MD}/0"]
    assert list(entities["Mercury"]["text_unit_ids"]) == ["b/0"]


def test_a_rename_with_a_quote_holds_for_text_units_that_have_it():
    units = {"d/0": [entity("Mercury")], "d/1": [entity("Mercury")]}
    texts = {"d/0": "Mercury orbits the sun.", "d/1": "Mercury is a metal."}
    line = {"kind": "rename", "entity": "Mercury", "to": "Mercury (metal)", "quote": "a metal"}
    entities, _ = graph(units, line, texts=texts)
    assert list(entities["Mercury (metal)"]["text_unit_ids"]) == ["d/1"]


def test_a_quote_is_found_whatever_its_white_space_and_the_form_of_its_letters():
    line = {"kind": "rename", "entity": "Acme", "to": "Acme Mill", "quote": "the cafe\u0301 of"}
    entities, _ = graph(UNITS, line, texts={f"{A_MD}/0": "Acme, the\ncafé  of Bo."})
    assert "Acme Mill" in entities


def test_a_rename_with_a_type_spares_text_units_that_give_another_type():
    units = {"d/0": [entity("Mercury", "PLANET")], "d/1": [entity("Mercury", "METAL")]}
    line = {"kind": "rename", "entity": "Mercury", "to": "Quicksilver", "type": "metal"}
    entities, _ = graph(units, line)
    assert list(entities["Quicksilver"]["text_unit_ids"]) == ["d/1"]


def test_a_deleted_entity_takes_its_relationships_along_and_each_is_a_reject():
    corrected, _, rejects = correct(UNITS, {"kind": "delete_entity", "entity": "acme corp"})
    assert "b/0" not in set(corrected["text_unit_id"])
    assert rejects["reason"].tolist() == ["corrected"] * 3
    entities, relationships = graph(UNITS, {"kind": "delete_entity", "entity": "acme corp"})
    assert set(entities) == {"Acme", "Ann Lee"}
    assert list(relationships) == [("Ann Lee", "Acme")]


def test_a_type_is_set_on_all_records_also_where_a_text_only_names_the_entity():
    entities, _ = graph(UNITS, {"kind": "set_type", "entity": "Bo", "to": "PERSON"})
    assert entities["Bo"]["type"] == "PERSON"
    assert entities["Bo"]["frequency"] == 1
    entities, _ = graph(UNITS, {"kind": "set_type", "entity": "Acme", "to": "COMPANY"})
    assert entities["Acme"]["types"] == [{"type": "COMPANY", "count": 1}]


def test_a_type_holds_for_every_name_that_a_rename_leads_to():
    entities, _ = graph(
        UNITS,
        {"kind": "rename", "entity": "Acme Corp", "to": "Acme"},
        {"kind": "set_type", "entity": "Acme", "to": "MILL"},
    )
    assert [one["type"] for one in entities["Acme"]["types"]] == ["MILL"]


def test_a_description_replaces_all_that_the_texts_say():
    entities, _ = graph(
        UNITS,
        {"kind": "rename", "entity": "Acme Corp", "to": "Acme"},
        {"kind": "describe_entity", "entity": "Acme Corp", "description": "The flour mill."},
    )
    assert list(entities["Acme"]["descriptions"]) == ["The flour mill."]


def test_a_description_can_be_added_and_changes_no_counts():
    line = {"kind": "describe_entity", "entity": "Acme", "description": "Sold.", "append": True}
    entities, _ = graph(UNITS, line)
    assert list(entities["Acme"]["descriptions"]) == ["A mill.", "Sold."]
    assert entities["Acme"]["frequency"] == 1
    assert entities["Acme"]["types"] == [{"type": "ORGANIZATION", "count": 1}]


def test_statements_are_deleted_turned_retyped_and_described():
    lines = [
        {"kind": "delete_statement", "source": "Bo", "target": "Acme Corp", "type": "Sued"},
        {"kind": "turn_statement", "source": "Acme Corp", "target": "Ann Lee"},
        {"kind": "retype_statement", "source": "Acme Corp", "target": "Ann Lee", "to": "quit"},
        {
            "kind": "describe_statement", "source": "Ann Lee", "target": "Acme",
            "description": "Since 2019.", "append": True,
        },
    ]  # fmt: skip
    _, relationships = graph(UNITS, *lines)
    assert set(relationships) == {("Ann Lee", "Acme"), ("Ann Lee", "Acme Corp")}
    assert list(relationships["Ann Lee", "Acme Corp"]["keywords"]) == ["quit"]
    assert list(relationships["Ann Lee", "Acme"]["descriptions"]) == [
        "Ann Lee runs Acme. Since 2019."
    ]


def test_a_statement_of_another_type_stays():
    line = {"kind": "delete_statement", "source": "Bo", "target": "Acme Corp", "type": "owns"}
    _, relationships = graph(UNITS, line)
    assert ("Bo", "Acme Corp") in relationships


def test_types_of_an_ontology_are_found_by_synonyms_and_in_any_spelling():
    ends = {"source": "A", "target": "B"}
    lines = [
        {"kind": "retype_statement", **ends, "type": "employment", "to": "sues"},
        {"kind": "rename", "entity": "A", "to": "C", "type": "persons"},
    ]
    params = CorrectionsParams(
        entity_types={"PERSON": ()}, relationship_types={"WORKS_AT": ("employment",)}
    )
    decisions = [make_decision(line, "test") for line in lines]
    rows = list_rows(decisions, params).set_index("kind")
    assert list(rows["type"]) == ["WORKS_AT", "PERSON"]
    # A type that the ontology does not have stays as the person wrote it, and so does a name.
    assert list(rows["to"]) == ["sues", "C"]


def test_an_added_statement_belongs_to_the_first_text_unit_or_to_the_one_with_the_quote():
    units = {f"{A_MD}/0": [entity("Acme")], f"{A_MD}/1": []}
    texts = {f"{A_MD}/0": "Acme grinds.", f"{A_MD}/1": "Cy works there."}
    line = {
        "kind": "add_statement", "source": "Cy", "target": "Acme", "type": "works at",
        "description": "Cy works at Acme.", "document": "a.md", "source_type": "PERSON",
    }  # fmt: skip
    entities, relationships = graph(units, line, texts=texts)
    assert list(relationships["Cy", "Acme"]["text_unit_ids"]) == [f"{A_MD}/0"]
    assert entities["Cy"]["type"] == "PERSON"
    _, relationships = graph(units, {**line, "quote": "Cy works"}, texts=texts)
    assert list(relationships["Cy", "Acme"]["text_unit_ids"]) == [f"{A_MD}/1"]


def test_matches_count_the_records_that_a_correction_changed():
    line = {"kind": "rename", "entity": "Ann Lee", "to": "Ann Leigh"}
    _, matches, _ = correct(UNITS, line, {"kind": "delete_entity", "entity": "Nobody"})
    id = make_decision(line, "test").id
    assert matches.to_dict("records") == [
        {"correction_id": id, "text_unit_id": "b/0", "records": 1},
        {"correction_id": id, "text_unit_id": f"{A_MD}/0", "records": 2},
    ]


def test_extractions_are_not_changed_in_place():
    extracted, text_units = extractions(UNITS)
    before = extracted.copy(deep=True)
    line = {"kind": "retype_statement", "source": "Bo", "target": "Acme Corp", "to": "won"}
    corrections = list_rows([make_decision(line, "test")])
    correct_extractions(extracted, text_units[UNIT_TEXTS.columns], corrections)
    pd.testing.assert_frame_equal(extracted, before)


names = st.sampled_from(["A", "B", "C"])
records = st.lists(
    st.one_of(
        st.builds(entity, names, st.sampled_from(["X", "Y"]), st.sampled_from(["", "d"])),
        st.builds(
            link, names, names, st.just("said"), st.lists(st.sampled_from(["k"]), max_size=1)
        ),
    ),
    max_size=4,
)
LINES = [
    {"kind": "rename", "entity": "A", "to": "D"},
    {"kind": "rename", "entity": "B", "to": "D", "document": "a.md"},
    {"kind": "set_type", "entity": "D", "to": "Z"},
    {"kind": "describe_entity", "entity": "C", "description": "Decided.", "append": True},
    {"kind": "turn_statement", "source": "A", "target": "C"},
    {"kind": "set_property", "entity": "C", "property": "height", "value": "1"},
    {
        "kind": "set_property", "entity": "B", "property": "age", "value": "2", "document": "a.md",
    },
    {"kind": "delete_property", "entity": "D", "property": "age"},
    {
        "kind": "add_statement", "source": "A", "target": "C", "description": "Added.",
        "document": "a.md",
    },
]  # fmt: skip


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([f"{A_MD}/0", f"{A_MD}/1", "b/0", "b/1"]), records))
def test_a_text_unit_is_corrected_whatever_other_text_units_say(units: dict):
    whole, _, _ = correct(units, *LINES)
    alone = [correct({id: records}, *LINES)[0] for id, records in units.items()]
    apart = pd.concat([EXTRACTIONS.frame(), *alone], ignore_index=True)
    assert EXTRACTIONS.encode(whole, "whole").equals(EXTRACTIONS.encode(apart, "apart"))


def test_the_id_of_a_renamed_entity_is_that_of_its_new_name():
    entities, _ = graph(UNITS, {"kind": "rename", "entity": "Bo", "to": "Bob"})
    assert entities["Bob"]["id"] == entity_id("Bob")
