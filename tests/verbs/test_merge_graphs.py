import random
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.schemas import (
    EXTRACTIONS,
    MENTIONS,
    MERGED_ENTITIES,
    MERGED_RELATIONSHIPS,
    REJECTS,
    RELATIONSHIP_RECORDS,
)
from pipeline.text.ids import entity_id, match_key, relationship_id
from pipeline.verbs.merge_graphs import MergeParams, merge_graphs
from tests.sizes import size
from tests.verbs.graphs import Record, entity, extractions, link, text_units

SCHEMAS = {
    "entities": MERGED_ENTITIES,
    "relationships": MERGED_RELATIONSHIPS,
    "mentions": MENTIONS,
    "relationship_records": RELATIONSHIP_RECORDS,
    "rejects": REJECTS,
}


def encoded(extracted: pd.DataFrame, units: pd.DataFrame) -> dict[str, pa.Table]:
    merged = merge_graphs(extracted, units)
    return {
        name: schema.encode(frame, name)
        for (name, schema), frame in zip(SCHEMAS.items(), merged, strict=True)
    }


def merged(units: Mapping[str, Sequence[Record]]) -> dict[str, list[dict]]:
    """Return the rows of the five tables, in the order of the snapshots."""
    return {name: table.to_pylist() for name, table in encoded(*extractions(units)).items()}


def by_name(rows: list[dict]) -> dict[str, dict]:
    return {row["name"]: row for row in rows}


def test_spellings_of_one_name_become_one_entity():
    graph = merged(
        {"d/0": [entity("Electrons")], "d/1": [entity("electrons"), entity("ELECTRONS")]}
    )
    (row,) = graph["entities"]
    assert row["id"] == entity_id("electrons")
    assert row["text_unit_ids"] == ["d/0", "d/1"]
    assert row["frequency"] == 2
    assert [(mention["text_unit_id"], mention["frequency"]) for mention in graph["mentions"]] == [
        ("d/0", 1),
        ("d/1", 2),
    ]


def test_the_display_name_is_the_commonest_form_and_ties_go_to_the_smallest():
    names = ["IBM", "ibm", "ibm"]
    assert merged({"d/0": [entity(name) for name in names]})["entities"][0]["name"] == "ibm"
    assert merged({"d/0": [entity("ibm"), entity("IBM")]})["entities"][0]["name"] == "IBM"
    ends = [entity("IBM"), link("ibm", "Red Hat"), link("ibm", "Lotus")]
    assert set(by_name(merged({"d/0": ends})["entities"])) == {"ibm", "Red Hat", "Lotus"}


def test_the_type_is_voted_by_weight_and_the_others_are_kept():
    votes = [
        entity("IBM", "PRODUCT", weight=2),
        *[entity("IBM", "ORGANIZATION")] * 3,
        entity("IBM", ""),
    ]
    (row,) = merged({"d/0": votes})["entities"]
    assert row["type"] == "ORGANIZATION"
    assert row["types"] == [{"type": "ORGANIZATION", "count": 3}, {"type": "PRODUCT", "count": 2}]


def test_a_tie_of_types_goes_to_the_smallest():
    (row,) = merged({"d/0": [entity("IBM", "PRODUCT"), entity("IBM", "COMPANY")]})["entities"]
    assert row["type"] == "COMPANY"


def test_descriptions_are_distinct_and_in_reading_order():
    units = {
        "b/0": [entity("X", description="third")],
        "a/1": [entity("X", description="second"), entity("X", description="first"), entity("X")],
        "a/0": [entity("X", description="first")],
    }
    (row,) = merged(units)["entities"]
    assert row["descriptions"] == ["first", "second", "third"]
    assert row["text_unit_ids"] == ["a/0", "a/1", "b/0"]


def test_directions_are_two_relationships_and_spellings_are_one():
    graph = merged(
        {
            "d/0": [
                link("A", "B", "acquired", weight=2),
                link("B", "A", "sued"),
                link("a.", "b", weight=3),
            ]
        }
    )
    rows = {(row["source"], row["target"]): row for row in graph["relationships"]}
    assert set(rows) == {("A", "B"), ("B", "A")}
    assert (rows["A", "B"]["weight"], rows["B", "A"]["weight"]) == (5.0, 1.0)
    assert rows["A", "B"]["descriptions"] == ["acquired"]
    assert rows["A", "B"]["id"] == relationship_id(entity_id("A"), entity_id("B"))


def test_keywords_are_the_union_by_frequency_then_by_appearance():
    units = {
        "d/0": [link("A", "B", keywords=["deal", "merger", "law"])],
        "d/1": [link("A", "B", keywords=["law"]), link("A", "B", keywords=[])],
    }
    assert merged(units)["relationships"][0]["keywords"] == ["law", "deal", "merger"]
    assert merged({"d/0": [link("A", "B")]})["relationships"][0]["keywords"] == []


def test_an_end_that_no_record_describes_is_an_entity_of_unknown_type():
    graph = merged({"d/0": [entity("A"), link("A", "B")]})
    row = by_name(graph["entities"])["B"]
    assert (row["type"], row["types"], row["descriptions"]) == ("UNKNOWN", [], [])
    assert (row["text_unit_ids"], row["frequency"]) == (["d/0"], 1)
    assert {"entity_id": entity_id("B"), "text_unit_id": "d/0", "frequency": 1} in graph["mentions"]


def test_relationships_to_phantoms_may_be_dropped_and_are_rejects_then():
    phantoms = [link("A", f"Phantom {i}") for i in range(4)] + [link("Phantom 4", "A")]
    units = {
        "d/0": [entity("A"), entity("B"), link("A", "B"), *phantoms, link("Phantom 0", "Phantom 0")]
    }
    kept = merged(units)
    assert len(kept["entities"]) == 7
    assert len(kept["relationships"]) == 6
    tables = merge_graphs(*extractions(units), MergeParams(orphans="drop"))
    entities, relationships, mentions, _, rejects = tables
    assert set(entities["name"]) == {"A", "B"}
    assert relationships[["source", "target"]].to_numpy().tolist() == [["A", "B"]]
    assert set(mentions["entity_id"]) == {entity_id("A"), entity_id("B")}
    assert rejects[["row_id", "kind", "reason"]].drop_duplicates().to_numpy().tolist() == [
        ["d/0", "record", "orphan"]
    ]
    assert len(rejects) == 6


def test_a_relationship_of_an_entity_with_itself_is_a_reject():
    graph = merged({"d/0": [link("IBM", "I.B.M", "x" * 400), link("U S", "U.S.", "itself")]})
    assert [row["reason"] for row in graph["rejects"]] == ["self_loop"]
    assert graph["rejects"][0]["row_id"] == "d/0"
    assert "itself" in graph["rejects"][0]["message"]
    assert len(graph["relationships"]) == 1


@pytest.mark.parametrize("units", [{}, {"d/0": []}])
def test_no_extractions_give_an_empty_graph(units: dict[str, list[Record]]):
    assert merged(units) == {name: [] for name in SCHEMAS}


def test_lists_may_be_arrays_as_parquet_gives_them():
    extracted, units = extractions({"d/0": [link("A", "B", keywords=["k"])]})
    arrays = extracted.assign(
        keywords=extracted["keywords"].map(lambda words: np.array(words, dtype=object))
    )
    assert encoded(arrays, units) == encoded(extracted, units)


names = st.sampled_from(["IBM", "ibm", "I.B.M.", "C", "C++", "C#", "Ann", "ann ", "Ünal"])
records = st.one_of(
    st.builds(
        entity, names, st.sampled_from(["", "PERSON", "ORG", "TOOL"]),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from([1.0, 2.0, 0.5]),
    ),
    st.builds(
        link, names, names, st.sampled_from(["", "a", "b"]),
        st.lists(st.sampled_from(["k", "l", "m"]), max_size=3), st.sampled_from([1.0, 0.1, 7.3]),
    ),
)  # fmt: skip
corpora = st.dictionaries(
    st.sampled_from(["a/0", "a/1", "a/2", "b/0", "b/1", "c/0"]), st.lists(records, max_size=5)
)  # fmt: skip
properties = settings(max_examples=size(5, 15), deadline=None)


@properties
@given(corpora, st.integers())
def test_the_order_in_which_rows_arrive_does_not_change_the_graph(
    corpus: dict[str, list[Record]], seed: int
):
    extracted, units = extractions(corpus)
    shuffled = extracted.sample(frac=1, random_state=seed % 2**32)
    assert encoded(shuffled, units.iloc[::-1]) == encoded(extracted, units)
    completed_otherwise = dict(random.Random(seed).sample(list(corpus.items()), len(corpus)))
    assert encoded(*extractions(completed_otherwise)) == encoded(extracted, units)


@properties
@given(corpora)
def test_the_graph_holds_all_that_was_extracted_and_nothing_else(corpus: dict[str, list[Record]]):
    graph = merged(corpus)
    found = [record for records in corpus.values() for record in records]
    links = [record for record in found if record["kind"] == "relationship"]
    loops = [
        record for record in links if match_key(record["source"]) == match_key(record["target"])
    ]
    keys = {
        match_key(record[role])
        for record in found
        for role in ("name", "source", "target")
        if role in record
    }
    assert {match_key(row["name"]) for row in graph["entities"]} == keys
    assert len(graph["entities"]) == len(keys)
    assert len(graph["rejects"]) <= len(loops)
    assert bool(graph["rejects"]) == bool(loops)
    total = sum(record["weight"] for record in links) - sum(record["weight"] for record in loops)
    assert sum(row["weight"] for row in graph["relationships"]) == pytest.approx(total)
    ids = {row["id"]: row["name"] for row in graph["entities"]}
    for row in graph["relationships"]:
        assert ids[row["source_entity_id"]] == row["source"]
        assert ids[row["target_entity_id"]] == row["target"]


@properties
@given(corpora)
def test_mentions_and_text_units_of_entities_agree(corpus: dict[str, list[Record]]):
    graph = merged(corpus)
    mentioned = {(mention["entity_id"], mention["text_unit_id"]) for mention in graph["mentions"]}
    listed = {(row["id"], unit) for row in graph["entities"] for unit in row["text_unit_ids"]}
    assert mentioned == listed
    assert all(row["frequency"] == len(row["text_unit_ids"]) for row in graph["entities"])


def test_text_units_without_extractions_change_nothing():
    extracted, units = extractions(
        {"a/1": [entity("X", description="one")], "b/0": [link("X", "Y")]}
    )
    more = pd.concat([text_units(["0/0", "a/0"]), units, text_units(["c/0"])], ignore_index=True)
    assert encoded(extracted, more) == encoded(extracted, units)


def test_a_table_of_extractions_without_attributes_is_merged_as_one_that_has_them_empty():
    extracted, units = extractions({"d/0": [entity("Ann"), link("Ann", "Bo", "They met.")]})
    earlier = merge_graphs(extracted.drop(columns="attributes"), units)
    for empty in (None, ""):
        now = merge_graphs(EXTRACTIONS.frame(extracted.assign(attributes=empty)), units)
        for before, after in zip(earlier, now, strict=True):
            pd.testing.assert_frame_equal(before, after)
