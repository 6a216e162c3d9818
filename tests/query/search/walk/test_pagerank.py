import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.query.search.walk.pagerank import Edge, compute_pagerank

NODES = st.sampled_from("abcdefgh")
EDGES = st.lists(st.tuples(NODES, NODES, st.floats(0.01, 10)), max_size=20)
RESTART = st.dictionaries(NODES, st.floats(0.01, 5), min_size=1)
DAMPING = st.floats(0, 0.95)


@given(EDGES, RESTART, DAMPING)
def test_the_mass_sums_to_one(edges: list[Edge], restart: dict[str, float], damping: float):
    mass = compute_pagerank(edges, restart, damping)
    assert sum(mass.values()) == pytest.approx(1)
    assert min(mass.values()) >= 0


@given(EDGES, RESTART, DAMPING, st.randoms())
def test_the_order_of_edges_and_nodes_does_not_change_the_mass(
    edges: list[Edge], restart: dict[str, float], damping: float, chance: random.Random
):
    shuffled = [
        (other, one, weight) if chance.random() < 0.5 else (one, other, weight)
        for one, other, weight in edges
    ]
    chance.shuffle(shuffled)
    nodes = list(restart)
    chance.shuffle(nodes)
    again = compute_pagerank(shuffled, {node: restart[node] for node in nodes}, damping)
    assert list(again.items()) == list(compute_pagerank(edges, restart, damping).items())


@given(EDGES, RESTART)
def test_the_mass_is_the_solution_of_the_linear_system(
    edges: list[Edge], restart: dict[str, float]
):
    mass = compute_pagerank(edges, restart, 0.5)
    nodes = list(mass)
    weights = np.zeros((len(nodes), len(nodes)))
    for one, other, weight in edges:
        for start, end in ((one, other), (other, one)):
            weights[nodes.index(start), nodes.index(end)] += weight
    back = np.array([restart.get(node, 0) for node in nodes]) / sum(restart.values())
    outgoing = weights.sum(axis=1)
    step = np.where(
        outgoing[:, None] > 0, weights / np.where(outgoing > 0, outgoing, 1)[:, None], back
    )
    expected = np.linalg.solve(np.eye(len(nodes)) - 0.5 * step.T, 0.5 * back)
    np.testing.assert_allclose(list(mass.values()), expected, atol=1e-7)


def test_the_mass_of_a_small_graph_is_as_computed_by_hand():
    """The graph is a - b. The walk starts at a and returns half of the time: a = 1/2 + b/2, b =
    a/2."""
    mass = compute_pagerank([("a", "b", 3.0)], {"a": 2.0}, 0.5)
    assert mass == pytest.approx({"a": 2 / 3, "b": 1 / 3})


def test_the_heavier_edge_carries_more():
    mass = compute_pagerank([("a", "b", 3.0), ("a", "c", 1.0)], {"a": 1.0}, 0.5)
    assert mass["b"] == pytest.approx(3 * mass["c"])


def test_the_mass_is_empty_without_a_restart():
    assert compute_pagerank([("a", "b", 1.0)], {}, 0.5) == {}
    assert compute_pagerank([("a", "b", 1.0)], {"a": 0.0}, 0.5) == {}
