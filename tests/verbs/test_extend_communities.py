"""Imported communities and their reports: what stays, what leaves, and what a model is asked."""

import networkx as nx
import pandas as pd
import pytest

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
    changed = index[0].copy()
    place = changed.index[changed["id"] == whole["id"]][0]
    changed.at[place, "entity_ids"] = [*whole["entity_ids"], "ent-gone"]
    communities, _, rejects = extend_communities(changed, entities, relationships, SIZE)
    assert rejects[["row_id", "reason"]].values.tolist() == [[whole["id"], "changed"]]
    assert whole["id"] not in set(communities["id"])
    parts = communities[communities["id"].isin(changed["id"])]
    assert set(parts["parent"]) <= {"", *parts["id"]}
    kept, left_out = keep_reports(index[1], communities, entities, relationships, NO_CLAIMS)
    assert left_out["row_id"].tolist() == [whole["id"]]
    assert len(kept) == len(index[1]) - 1


def test_an_import_without_communities_groups_all_entities():
    entities, relationships = ranked(towns())
    found, _, _ = extend_communities(IMPORTED_COMMUNITIES.frame(), entities, relationships, SIZE)
    expected, _ = detect_communities(entities, relationships, SIZE)
    assert found["id"].tolist() == expected["id"].tolist()
