import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pandas as pd
import pytest
from pydantic import ValidationError

from pipeline.schemas import COMMUNITIES, ENTITIES, NODES, RELATIONSHIPS
from pipeline.text import entity_id
from pipeline.verbs.detect_communities import CommunityParams, detect_communities
from tests.verbs.graphs import ranked, towns

PROJECT = Path(__file__).parent.parent.parent
PRINT_TABLES = """
from pipeline.schemas import COMMUNITIES, NODES
from pipeline.verbs.detect_communities import CommunityParams, detect_communities
from tests.verbs.graphs import ranked, towns

communities, nodes = detect_communities(*ranked(towns()), CommunityParams(max_cluster_size=5))
print(COMMUNITIES.encode(communities, "communities").to_pylist())
print(NODES.encode(nodes, "nodes").to_pylist())
"""


def tables(communities: pd.DataFrame, nodes: pd.DataFrame) -> tuple[list[dict], list[dict]]:
    rows = COMMUNITIES.encode(communities, "communities").to_pylist()
    return rows, NODES.encode(nodes, "nodes").to_pylist()


def detect(graph: nx.DiGraph, params: CommunityParams = CommunityParams()) -> tuple[list[dict], list[dict]]:
    return tables(*detect_communities(*ranked(graph), params))


def test_every_process_finds_the_same_communities():
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PRINT_TABLES],
            cwd=PROJECT,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(PROJECT)},
            stdout=subprocess.PIPE,
        )
        for seed in (1, 2)
    ]
    here = detect(towns(), CommunityParams(max_cluster_size=5))
    assert here[0]
    for process in running:
        printed = process.communicate()[0].decode()
        assert printed.splitlines() == [repr(rows) for rows in here]


def test_every_call_finds_the_same_communities():
    first = detect(towns(), CommunityParams(max_cluster_size=5))
    assert all(detect(towns(), CommunityParams(max_cluster_size=5)) == first for _ in range(10))


def test_the_order_of_the_rows_cannot_be_seen():
    entities, relationships = ranked(towns())
    params = CommunityParams(max_cluster_size=5)
    expected = tables(*detect_communities(entities, relationships, params))
    for seed in range(5):
        shuffled = [frame.sample(frac=1, random_state=seed) for frame in (entities, relationships)]
        assert tables(*detect_communities(shuffled[0], shuffled[1], params)) == expected


def test_every_component_is_covered_and_nobody_alone_is():
    graph = towns()
    communities, nodes = detect(graph)
    connected = {entity_id(name) for name in graph.nodes if graph.degree(name)}
    top = [row for row in nodes if row["level"] == 0]
    assert {row["entity_id"] for row in top} == connected
    assert len(top) == len(connected)
    components = [{entity_id(name) for name in part} for part in nx.weakly_connected_components(graph)]
    for community in communities:
        assert any(set(community["entity_ids"]) <= component for component in components)


def test_communities_split_into_children_of_the_size_asked_for():
    communities, nodes = detect(towns(), CommunityParams(max_cluster_size=5))
    by_id = {row["id"]: row for row in communities}
    assert max(row["level"] for row in communities) >= 1
    for row in communities:
        assert row["size"] == len(row["entity_ids"])
        assert (row["parent"] == "") == (row["level"] == 0)
        assert row["id"] in by_id[row["parent"]]["children"] if row["parent"] else True
        members = [set(by_id[child]["entity_ids"]) for child in row["children"]]
        assert not members or set.union(*members) == set(row["entity_ids"])
        assert sum(map(len, members)) in (0, row["size"])
    assert {(row["community_id"], row["entity_id"]) for row in nodes} == {
        (row["id"], member) for row in communities for member in row["entity_ids"]
    }


def test_a_community_lists_the_relationships_and_text_units_inside_it():
    entities, relationships = ranked(towns())
    communities, _ = tables(*detect_communities(entities, relationships))
    for row in communities:
        inside = set(row["entity_ids"])
        both = relationships["source_entity_id"].isin(inside) & relationships["target_entity_id"].isin(inside)
        assert row["relationship_ids"] == sorted(relationships.loc[both, "id"])
        units = entities.loc[entities["id"].isin(inside), "text_unit_ids"].explode()
        assert row["text_unit_ids"] == sorted(set(units))


def test_direction_plays_no_part():
    graph = towns()
    turned = graph.reverse()
    members = [
        [(row["level"], row["entity_ids"]) for row in detect(one, CommunityParams(max_cluster_size=5))[0]]
        for one in (graph, turned)
    ]
    assert members[0] == members[1]


@pytest.mark.parametrize("graph", [nx.DiGraph(), nx.DiGraph({"hermit": []})], ids=["empty", "lone"])
def test_without_relationships_there_are_no_communities(graph: nx.DiGraph):
    assert detect(graph) == ([], [])


def test_no_entities_at_all():
    assert tables(*detect_communities(ENTITIES.frame(), RELATIONSHIPS.frame())) == ([], [])


@pytest.mark.parametrize("args", [{"max_cluster_size": 1}, {"resolution": 0}, {"size": 3}])
def test_params_that_make_no_sense_are_refused(args: dict[str, int]):
    with pytest.raises(ValidationError):
        CommunityParams.model_validate(args)
