"""Personalised PageRank by power iteration (Page, Brin, Motwani and Winograd 1999, "The PageRank citation ranking")
over a small undirected graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

STEPS, TOLERANCE = 50, 1e-9


@dataclass(frozen=True)
class Edge:
    """Two nodes and how strongly they are linked, above 0."""

    one: str
    other: str
    weight: float


def personalised_pagerank(edges: Sequence[Edge], restart: Mapping[str, float], damping: float) -> dict[str, float]:
    """Each node's share of the mass, which sums to one: with ``damping`` a step goes on along an edge in proportion to
    its weight, else back to a node in proportion to ``restart``. From a node without edges it goes back. Nothing where
    nothing restarts.

    The result is the same in whatever order edges and nodes come.
    """
    total = sum(restart[node] for node in sorted(restart))
    if total <= 0:
        return {}
    nodes = sorted({node for edge in edges for node in (edge.one, edge.other)} | set(restart))
    place = {node: number for number, node in enumerate(nodes)}
    back = np.array([restart.get(node, 0.0) for node in nodes]) / total
    pairs = sorted((place[one], place[other], edge.weight) for edge in edges for one, other in _both_ways(edge))
    start = np.array([pair[0] for pair in pairs], dtype=np.int64)
    end = np.array([pair[1] for pair in pairs], dtype=np.int64)
    weight = np.array([pair[2] for pair in pairs], dtype=np.float64)
    outgoing = np.bincount(start, weight, len(nodes))
    share = weight / outgoing[start]
    stuck = outgoing == 0
    mass = back
    for _ in range(STEPS):
        moved = np.bincount(end, mass[start] * share, len(nodes)) + mass[stuck].sum() * back
        following = (1 - damping) * back + damping * moved
        settled = np.abs(following - mass).sum() < TOLERANCE
        mass = following
        if settled:
            break
    return dict(zip(nodes, mass.tolist(), strict=True))


def _both_ways(edge: Edge) -> tuple[tuple[str, str], tuple[str, str]]:
    return (edge.one, edge.other), (edge.other, edge.one)
