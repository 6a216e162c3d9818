import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import COMMUNITIES, ENTITIES, NODES, RELATIONSHIPS
from pipeline.text.ids import entity_id
from pipeline.text.tokens import tokenizer
from pipeline.verbs.compute_degrees import compute_degrees
from pipeline.verbs.detect_communities import CommunityParams, detect_communities
from pipeline.verbs.read_graphrag import GraphragParams, read_graphrag
from tests.sizes import size
from tests.verbs.graphs import ranked, towns

DATASETS = "GRAPHMILL_DATASETS"
PROJECT = Path(__file__).parent.parent.parent
PRINT_TABLES = """
from pipeline.contract.schemas import COMMUNITIES, NODES
from pipeline.verbs.detect_communities import CommunityParams, detect_communities
from tests.verbs.graphs import ranked, towns

communities, nodes = detect_communities(*ranked(towns()), CommunityParams(max_cluster_size=5))
print(COMMUNITIES.encode(communities, "communities").to_pylist())
print(NODES.encode(nodes, "nodes").to_pylist())
"""


def tables(communities: pd.DataFrame, nodes: pd.DataFrame) -> tuple[list[dict], list[dict]]:
    rows = COMMUNITIES.encode(communities, "communities").to_pylist()
    return rows, NODES.encode(nodes, "nodes").to_pylist()


def detect(
    graph: nx.DiGraph, params: CommunityParams = CommunityParams()
) -> tuple[list[dict], list[dict]]:
    return tables(*detect_communities(*ranked(graph), params))


def test_every_process_finds_the_same_communities():
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PRINT_TABLES],
            cwd=PROJECT,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(PROJECT)},
            stdout=subprocess.PIPE,
        )
        for seed in range(1, size(2, 10) + 1)
    ]
    here = detect(towns(), CommunityParams(max_cluster_size=5))
    assert here[0]
    for process in running:
        printed = process.communicate()[0].decode()
        assert printed.splitlines() == [repr(rows) for rows in here]


def test_every_call_finds_the_same_communities():
    first = detect(towns(), CommunityParams(max_cluster_size=5))
    assert all(detect(towns(), CommunityParams(max_cluster_size=5)) == first for _ in range(10))


def test_the_order_of_rows_does_not_change_communities():
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
    components = [
        {entity_id(name) for name in part} for part in nx.weakly_connected_components(graph)
    ]
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
        both = relationships["source_entity_id"].isin(inside) & relationships[
            "target_entity_id"
        ].isin(inside)
        assert row["relationship_ids"] == sorted(relationships.loc[both, "id"])
        units = entities.loc[entities["id"].isin(inside), "text_unit_ids"].explode()
        assert row["text_unit_ids"] == sorted(set(units))


def test_directions_of_relationships_do_not_change_communities():
    graph = towns()
    turned = graph.reverse()
    members = [
        [
            (row["level"], row["entity_ids"])
            for row in detect(one, CommunityParams(max_cluster_size=5))[0]
        ]
        for one in (graph, turned)
    ]
    assert members[0] == members[1]


def test_weights_of_both_directions_are_one_weight():
    """Check that a weight in one direction has the effect of two halves in both directions."""
    once = nx.DiGraph()
    once.add_weighted_edges_from([("a", "b", 4), ("c", "d", 4), ("b", "c", 1)])
    halves = nx.DiGraph()
    halves.add_weighted_edges_from((x, y, w / 2) for x, y, w in [*once.edges(data="weight")])
    halves.add_weighted_edges_from((y, x, w / 2) for x, y, w in once.edges(data="weight"))
    lighter = nx.DiGraph()
    lighter.add_weighted_edges_from([("a", "b", 1), ("c", "d", 1), ("b", "c", 9)])
    members = [
        sorted(row["entity_ids"] for row in detect(graph)[0]) for graph in (once, halves, lighter)
    ]
    assert members[0] == members[1] != members[2]


@given(st.integers(0, 2**32 - 1), st.integers(2, 30))
@settings(max_examples=size(4, 300), derandomize=True)
def test_a_change_in_one_component_leaves_the_communities_of_others_as_they_are(
    seed: int, others: int
):
    grown = nx.relabel_nodes(
        nx.gnp_random_graph(others, 0.3, seed=seed, directed=True), lambda node: f"x{node}"
    )
    params = CommunityParams(max_cluster_size=5)
    before = {row["id"] for row in detect(towns(), params)[0]}
    assert before <= {row["id"] for row in detect(nx.compose(towns(), grown), params)[0]}


@pytest.mark.parametrize("name", ["christmas_carol", "operation_dulce"])
def test_communities_are_no_looser_than_those_of_graphrag(name: str):
    """Compare the modularity at each level.

    The partition of a level has its communities, those above that were not split, and each other
    entity by itself.
    """
    folder = Path(os.environ.get(DATASETS, "")) / "msgraphrag_outputs" / name
    if DATASETS not in os.environ or not folder.is_dir():
        pytest.skip(f"no recorded outputs of GraphRAG; set {DATASETS} to the folder of datasets")
    read = read_graphrag(GraphragParams(path=str(folder)), tokenizer("o200k_base"))
    described = dict(zip(REGISTRY.verbs["read_graphrag"].outputs, read, strict=True))
    entities, relationships = compute_degrees(
        described["described_entities"], described["described_relationships"]
    )
    graph = nx.Graph()
    for link in relationships.to_dict("records"):
        ends = link["source_entity_id"], link["target_entity_id"]
        before = graph.get_edge_data(*ends, default={"weight": 0})["weight"]
        graph.add_edge(*ends, weight=before + link["weight"])
    names = pd.read_parquet(folder / "entities.parquet").set_index("id")["title"].map(entity_id)
    theirs = pd.read_parquet(folder / "communities.parquet")
    theirs = theirs.assign(entity_ids=[[names[id] for id in ids] for ids in theirs["entity_ids"]])
    ours, _ = detect_communities(entities, relationships)
    for level in range(int(theirs["level"].max()) + 1):
        assert modularity(graph, ours, level) >= modularity(graph, theirs, level)


def modularity(graph: nx.Graph, communities: pd.DataFrame, level: int) -> float:
    leaves = communities["children"].map(len) == 0
    cover = communities[(communities["level"] == level) | ((communities["level"] < level) & leaves)]
    parts = [set(ids) & set(graph) for ids in cover["entity_ids"]]
    alone = set(graph).difference(*parts)
    return nx.community.modularity(graph, [*filter(None, parts), *({id} for id in alone)])


@pytest.mark.parametrize("graph", [nx.DiGraph(), nx.DiGraph({"hermit": []})], ids=["empty", "lone"])
def test_without_relationships_there_are_no_communities(graph: nx.DiGraph):
    assert detect(graph) == ([], [])


def test_without_entities_there_are_no_communities():
    assert tables(*detect_communities(ENTITIES.frame(), RELATIONSHIPS.frame())) == ([], [])


@pytest.mark.parametrize("args", [{"max_cluster_size": 1}, {"resolution": 0}, {"size": 3}])
def test_invalid_params_are_refused(args: dict[str, int]):
    with pytest.raises(ValidationError):
        CommunityParams.model_validate(args)
