"""Personalised PageRank by power iteration over a small undirected graph.

Page, Brin, Motwani and Winograd 1999, "The PageRank citation ranking".
"""

from collections.abc import Mapping, Sequence

import numpy as np

DAMPING = 0.3
STEPS, TOLERANCE = 50, 1e-9
Edge = tuple[str, str, float]
"""Two nodes and how strongly they are linked, above 0."""


def personalised_pagerank(
    edges: Sequence[Edge], restart: Mapping[str, float], damping: float
) -> dict[str, float]:
    """Each node's share of the mass, which sums to one: with ``damping`` a step goes on along an
    edge in proportion to its weight, else back to a node in proportion to ``restart``. From a node
    without edges it goes back. Nothing where nothing restarts.

    The result is the same in whatever order edges and nodes come.
    """
    total = sum(restart[node] for node in sorted(restart))
    if total <= 0:
        return {}
    nodes = sorted({node for *ends, _ in edges for node in ends} | set(restart))
    place = {node: number for number, node in enumerate(nodes)}
    back = np.array([restart.get(node, 0.0) for node in nodes]) / total
    both_ways = [*edges, *((other, one, weight) for one, other, weight in edges)]
    pairs = sorted((place[one], place[other], weight) for one, other, weight in both_ways)
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
