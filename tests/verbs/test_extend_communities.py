"""Imported communities and their reports: what stays, what leaves, and what a model is asked."""

from collections.abc import Collection

import networkx as nx
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.schemas import (
    COMMUNITIES,
    COMMUNITY_REPORTS,
    COVARIATES,
    IMPORTED_COMMUNITIES,
    NODES,
)
from pipeline.text.ids import entity_id
from pipeline.text.tokens import tokenizer
from pipeline.verbs import extend_communities, keep_reports, report_new_communities
from pipeline.verbs.detect_communities import CommunityParams, detect_communities
from pipeline.verbs.report_communities import ReportParams, report_communities
from tests.verbs.graphs import ranked, towns
from tests.verbs.test_report_communities import PROMPT, Scripted

NO_CLAIMS = COVARIATES.frame()
SIZE = CommunityParams(max_cluster_size=5)


def with_island(graph: nx.DiGraph) -> nx.DiGraph:
    """Return the graph of an index after a document about two people whom nobody else knows."""
    larger = graph.copy()
    some = next(iter(graph.nodes))
    edge = next(iter(graph.edges))
    for name in ("Ida Vale", "Ove Vale"):
        larger.add_node(name, **graph.nodes[some])
    larger.add_edge("Ida Vale", "Ove Vale", **graph.edges[edge])
    return larger


def remove(
    ids: Collection[str], entities: pd.DataFrame, relationships: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the graph without these entities and their relationships."""
    ends = relationships[["source_entity_id", "target_entity_id"]]
    loses_an_end = ends.isin(set(ids)).any(axis=1)
    return entities[~entities["id"].isin(ids)], relationships[~loses_an_end]


@pytest.fixture(scope="module")
def index() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the communities of an index and its reports."""
    entities, relationships = ranked(towns())
    communities, _ = detect_communities(entities, relationships, SIZE)
    asked = ReportParams(), PROMPT, Scripted(), tokenizer("o200k_base")
    reports, _ = report_communities(communities, entities, relationships, *asked)
    return communities[IMPORTED_COMMUNITIES.columns], reports.assign(content="paid for")


def test_an_unchanged_graph_has_the_imported_communities(index):
    entities, relationships = ranked(towns())
    communities, nodes, rejects = extend_communities(index[0], entities, relationships, SIZE)
    expected, expected_nodes = detect_communities(entities, relationships, SIZE)
    assert rejects.empty
    found = COMMUNITIES.encode(communities, "communities")
    assert found.equals(COMMUNITIES.encode(expected, "communities"))
    assert NODES.encode(nodes, "nodes").equals(NODES.encode(expected_nodes, "nodes"))


def test_other_entities_are_grouped_among_themselves_and_only_they_are_asked_about(index):
    entities, relationships = ranked(with_island(towns()))
    communities, _, rejects = extend_communities(index[0], entities, relationships, SIZE)
    new = communities[~communities["id"].isin(index[0]["id"])]
    assert rejects.empty
    assert [sorted(members) for members in new["entity_ids"]] == [
        sorted(map(entity_id, ["Ida Vale", "Ove Vale"]))
    ]
    tables = index[1], communities, entities, relationships, NO_CLAIMS
    kept, left_out = keep_reports(*tables)
    assert left_out.empty
    assert set(kept["id"]) == set(index[0]["id"])
    chat = Scripted()
    asked = ReportParams(), PROMPT, chat, tokenizer("o200k_base")
    reports, faults = report_new_communities(*tables, *asked)
    assert faults.empty
    assert len(chat.prompts) == 1
    assert "Ida Vale" in chat.prompts[0]
    COMMUNITY_REPORTS.encode(reports, "reports")
    contents = reports.set_index("id")["content"]
    assert set(contents[index[0]["id"]]) == {"paid for"}
    assert contents[new["id"].iloc[0]].startswith("# A town")


def test_a_community_that_has_lost_a_member_leaves_with_its_report(index):
    entities, relationships = ranked(towns())
    whole = index[0].sort_values("level").iloc[0]
    gone = whole["entity_ids"][0]
    is_known = index[0]["id"] == whole["id"]
    is_below = index[0]["parent"].isin(index[0]["id"][is_known])
    assert is_below.any()
    remaining = remove([gone], entities, relationships)
    communities, _, rejects = extend_communities(index[0], *remaining, SIZE)
    assert set(rejects["row_id"]) >= {whole["id"], *index[0]["id"][is_below]}
    assert set(rejects["reason"]) == {"changed"}
    assert whole["id"] not in set(communities["id"])
    kept, left_out = keep_reports(index[1], communities, *remaining, NO_CLAIMS)
    assert whole["id"] in set(left_out["row_id"])
    assert set(kept["id"]) == set(index[1]["id"]) & set(communities["id"])


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_after_any_deletion_every_member_is_in_level_0_and_every_parent_is_there(index, data):
    entities, relationships = ranked(towns())
    gone = data.draw(st.sets(st.sampled_from(sorted(entities["id"])), min_size=1, max_size=6))
    remaining = remove(gone, entities, relationships)
    communities, nodes, _ = extend_communities(index[0], *remaining, SIZE)
    is_lowest = nodes["level"] == 0
    assert set(nodes["entity_id"]) == set(nodes["entity_id"][is_lowest])
    assert set(communities["parent"]) <= {"", *communities["id"]}
    assert (communities["parent"].eq("") == communities["level"].eq(0)).all()
    assert communities["id"].is_unique


def test_a_sub_community_that_exceeds_its_parent_is_grouped_anew(index):
    entities, relationships = ranked(towns())
    rows = index[0].copy()
    place = rows.index[rows["level"] == 1][0]
    lone = rows.at[place, "id"]
    rows.at[place, "parent"] = ""
    _, nodes, rejects = extend_communities(rows, entities, relationships, SIZE)
    assert lone in set(rejects["row_id"])
    assert set(nodes["entity_id"]) == set(nodes["entity_id"][nodes["level"] == 0])


def test_an_import_without_communities_groups_all_entities():
    entities, relationships = ranked(towns())
    found, _, _ = extend_communities(IMPORTED_COMMUNITIES.frame(), entities, relationships, SIZE)
    expected, _ = detect_communities(entities, relationships, SIZE)
    assert found["id"].tolist() == expected["id"].tolist()
