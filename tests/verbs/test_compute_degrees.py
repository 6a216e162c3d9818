import networkx as nx
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contract.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    ENTITIES,
    RELATIONSHIPS,
)
from pipeline.verbs.compute_degrees import compute_degrees
from tests.sizes import size
from tests.verbs.graphs import described

pairs = st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1])


@settings(max_examples=size(6, 25), deadline=None)
@given(st.sets(pairs, max_size=30))
def test_degrees_are_those_of_the_undirected_graph(edges: set[tuple[int, int]]):
    graph = nx.DiGraph()
    graph.add_nodes_from(f"n{number}" for number in range(10))
    graph.add_edges_from((f"n{source}", f"n{target}") for source, target in edges)
    entities, _ = compute_degrees(*described(graph))
    degree = dict(graph.to_undirected().degree())
    assert dict(zip(entities["name"], entities["degree"], strict=True)) == degree


def test_all_other_columns_are_unchanged():
    entities, relationships = described(nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c")]))
    ranked_entities, ranked_relationships = compute_degrees(entities, relationships)
    pd.testing.assert_frame_equal(ranked_entities[entities.columns], entities)
    pd.testing.assert_frame_equal(ranked_relationships[relationships.columns], relationships)
    assert list(ranked_entities.columns) == ENTITIES.columns
    assert list(ranked_relationships.columns) == RELATIONSHIPS.columns


def test_an_empty_graph_has_no_degrees():
    entities, relationships = compute_degrees(
        DESCRIBED_ENTITIES.frame(), DESCRIBED_RELATIONSHIPS.frame()
    )
    assert ENTITIES.encode(entities, "entities").num_rows == 0
    assert RELATIONSHIPS.encode(relationships, "relationships").num_rows == 0
