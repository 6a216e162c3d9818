"""Statements of relationships: one for each fact of a text unit, also of names that became one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.contract.laws import Part
from pipeline.contract.registry import REGISTRY, Params
from pipeline.contract.schemas import RELATIONSHIP_RECORDS, RELATIONSHIPS, RESOLUTIONS
from pipeline.engine.changed_groups import LastRun, outputs_of
from pipeline.engine.workflow import Step
from pipeline.snapshots.store import SnapshotStore
from pipeline.text.ids import entity_id, relationship_id
from pipeline.verbs.list_statements import list_resolved_statements, list_statements
from tests.sizes import size

Record = tuple[str, str, str, Sequence[str], str]
"""Text unit, source, target, keywords and description."""
Tables = Mapping[str, pd.DataFrame]


def records_of(records: Sequence[Record]) -> pd.DataFrame:
    rows = []
    for order, (unit, source, target, keywords, description) in enumerate(records):
        ends = entity_id(source), entity_id(target)
        fault = "self_loop" if source == target else ""
        place = (unit, "doc", 0, order)
        named = (relationship_id(*ends), *ends, source, target)
        rows.append((*named, *place, description, list(keywords), 1.0, fault))
    return RELATIONSHIP_RECORDS.frame(rows)


def links_of(pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    rows = []
    for source, target in sorted(set(pairs)):
        ends = entity_id(source), entity_id(target)
        rows.append((relationship_id(*ends), source, target, *ends, "", [], 1.0, []))
    return RELATIONSHIPS.frame(rows)


def decisions_of(pairs: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    rows = []
    for (one, other), decision in pairs.items():
        rows.append((entity_id(one), entity_id(other), one, other, 1.0, "title", decision, "rule"))
    return RESOLUTIONS.frame(rows)


def told(statements: pd.DataFrame) -> list[tuple[str, str, str]]:
    columns = ["text_unit_id", "type", "description"]
    return sorted(statements[columns].itertuples(index=False, name=None))


def test_two_facts_of_the_same_two_entities_are_two_statements():
    records = records_of(
        [
            ("c1", "Ada", "Brack", ["founded", "owned"], "Ada founded Brack."),
            ("c1", "Ada", "Brack", ["works for"], "Ada works for Brack."),
            ("c2", "Ada", "Brack", ["chief of"], "Ada led Brack."),
            ("c2", "Brack", "Ada", ["paid"], "Brack paid Ada."),
        ]
    )
    found = list_statements(records, links_of([("Ada", "Brack"), ("Brack", "Ada")]))
    there = relationship_id(entity_id("Ada"), entity_id("Brack"))
    assert told(found[found["relationship_id"] == there]) == [
        ("c1", "founded", "Ada founded Brack."),
        ("c1", "works for", "Ada works for Brack."),
        ("c2", "chief of", "Ada led Brack."),
    ]
    assert told(found[found["relationship_id"] != there]) == [("c2", "paid", "Brack paid Ada.")]
    assert found["id"].is_unique
    assert set(found["attributes"]) == {"{}"}
    assert set(found["valid_from"]) == set(found["valid_to"]) == {""}


@pytest.mark.parametrize(
    ("keywords", "types"),
    [
        (["built", "co-occurs", "lamp"], ["built"]),
        (["co-occurs", "lamp"], []),
        ([], [""]),
        (["", None, "built"], ["built"]),
    ],
)
def test_only_a_record_that_merely_co_occurs_states_nothing(keywords: list[Any], types: list[str]):
    records = records_of([("c1", "Ada", "Lamp", keywords, "Ada built the Lamp.")])
    assert list_statements(records, links_of([("Ada", "Lamp")]))["type"].tolist() == types


def test_faulty_records_and_pruned_relationships_have_no_statements():
    records = records_of(
        [
            ("c1", "Ada", "Ada", ["is"], "Ada is Ada."),
            ("c1", "Ada", "Lamp", ["built"], "Ada built the Lamp."),
        ]
    )
    assert list_statements(records, links_of([("Ada", "Ada")])).empty


def test_equal_statements_of_a_text_unit_are_numbered_whatever_their_order():
    fact = ("c1", "Ada", "Lamp", ["built"], "Ada built the Lamp.")
    other = ("c1", "Ada", "Lamp", ["sold"], "Ada sold the Lamp.")
    links = links_of([("Ada", "Lamp")])
    ids = set(list_statements(records_of([fact, other, fact]), links)["id"])
    assert len(ids) == 3
    assert set(list_statements(records_of([other, fact, fact]), links)["id"]) == ids


def test_statements_follow_entities_that_became_one_also_by_way_of_a_third():
    records = records_of(
        [
            ("c1", "Gov. Pell", "Lamp", ["lit"], "He lit it."),
            ("c1", "Pell", "Lamp", ["lit"], "He lit it."),
            ("c2", "Pell", "G. Pell", ["is"], "Pell is G. Pell."),
            ("c2", "Ada", "Gov. Pell", ["met"], "Ada met him."),
        ]
    )
    decisions = decisions_of(
        {
            ("Gov. Pell", "Pell"): "merge",
            ("Pell", "G. Pell"): "merge",
            ("Ada", "Pell"): "keep",
        }
    )
    links = links_of([("G. Pell", "Lamp"), ("Ada", "G. Pell")])
    found = list_resolved_statements(records, links, decisions)
    assert told(found) == [
        ("c1", "lit", "He lit it."),
        ("c1", "lit", "He lit it."),
        ("c2", "met", "Ada met him."),
    ]
    assert set(found["relationship_id"]) == set(links["id"])
    assert found["id"].is_unique


NAMES = st.sampled_from("ABCD")
RECORD = st.tuples(
    st.sampled_from(["c1", "c2", "c3"]),
    NAMES,
    NAMES,
    st.sampled_from([["built"], ["sold"], ["co-occurs"], []]),
    st.sampled_from(["one", "other"]),
)
NIGHT = st.tuples(
    st.lists(RECORD, max_size=8),
    st.lists(st.tuples(NAMES, NAMES), max_size=2),
    st.lists(st.tuples(NAMES, NAMES), max_size=2),
)
"""The records, the pairs of names that are merged, and the relationships that are pruned."""


def tables_of(night: Any) -> dict[str, pd.DataFrame]:
    """Return the tables that a run would have: the largest name of a cluster is the one left."""
    records, merged, pruned = night
    left = {name: name for name in "ABCD"}
    for one, other in merged:
        head = max(left[one], left[other])
        joined = {left[one], left[other]}
        left = {name: head if to in joined else to for name, to in left.items()}
    pairs = {(left[source], left[target]) for _, source, target, *_ in records}
    kept = [(one, other) for one, other in pairs if one != other and (one, other) not in pruned]
    decisions = dict.fromkeys(merged, "merge")
    return {
        "relationship_records": records_of(records),
        "relationships": links_of(kept),
        "resolutions": decisions_of(decisions),
    }


@pytest.mark.parametrize("name", ["list_statements", "list_resolved_statements"])
@settings(
    max_examples=size(8, 500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(nights=st.lists(NIGHT, min_size=2, max_size=3))
def test_nights_of_edits_merges_and_prunings_end_as_a_full_build(
    name: str, nights: Sequence[Any], tmp_path: Path
):
    verb = REGISTRY.verbs[name]
    same = {table: table for table in verb.inputs}
    step = Step(
        "statements", verb, Params(), same, {"statements": "statements"}, {}, {},
        reads=verb.inputs, writes=verb.written(verb.inputs, Params()),
    )  # fmt: skip
    store = SnapshotStore(tmp_path)

    def make(part: Part, inputs: Tables, groups: object) -> Tables:
        return part.call(inputs, {})

    last, full = LastRun(None, {}), LastRun(None, {})
    schemas = {
        "relationship_records": RELATIONSHIP_RECORDS,
        "relationships": RELATIONSHIPS,
        "resolutions": RESOLUTIONS,
    }
    written: Mapping[str, Any] = {}
    for night in nights:
        tables = tables_of(night)
        read = {
            table: store.tables.write(table, schemas[table].encode(tables[table], table), schema)
            for table in verb.inputs
            for schema in [schemas[table].order]
        }
        written = outputs_of(step, read, last, store, make)
        last = LastRun(read, written)
        afresh = outputs_of(step, read, full, store, make)
        assert written["statements"].sha256 == afresh["statements"].sha256
    rows = store.tables.read(written["statements"])
    links = tables_of(nights[-1])["relationships"]
    assert set(rows["relationship_id"]) <= set(links["id"])
    assert rows["id"].is_unique
