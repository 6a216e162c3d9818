"""Personalised PageRank by power iteration over a small undirected graph.

Page, Brin, Motwani and Winograd 1999, "The PageRank citation ranking".
"""

from collections.abc import Mapping, Sequence

import numpy as np

DAMPING = 0.3
STEPS, TOLERANCE = 50, 1e-9
Edge = tuple[str, str, float]
"""Two nodes, and the weight of the link between them, which is above 0."""


def compute_pagerank(
    edges: Sequence[Edge], restart: Mapping[str, float], damping: float
) -> dict[str, float]:
    """Return each node's share of the probability mass; the shares sum to 1.

    With probability ``damping`` a step follows an edge, in proportion to its weight. Otherwise it
    returns to a node, in proportion to ``restart`` (node -> weight). A node without edges always
    returns. The result is empty if the restart weights sum to 0, and it does not depend on the
    order of edges and nodes.
    """
    # Floating-point sums depend on the order, so nodes and edges are sorted first.
    total = sum(restart[node] for node in sorted(restart))
    if total <= 0:
        return {}
    linked = {node for one, other, _ in edges for node in (one, other)}
    nodes = sorted(linked | set(restart))
    place = {node: number for number, node in enumerate(nodes)}
    restart_share = np.array([restart.get(node, 0.0) for node in nodes]) / total

    arcs = []
    for one, other, weight in edges:
        arcs.append((place[one], place[other], weight))
        arcs.append((place[other], place[one], weight))
    arcs.sort()
    start = np.array([arc[0] for arc in arcs], dtype=np.int64)
    end = np.array([arc[1] for arc in arcs], dtype=np.int64)
    weights = np.array([arc[2] for arc in arcs], dtype=np.float64)

    outgoing = np.bincount(start, weights, len(nodes))
    share = weights / outgoing[start]
    has_no_edges = outgoing == 0
    mass = restart_share
    for _ in range(STEPS):
        along_edges = np.bincount(end, mass[start] * share, len(nodes))
        returned = mass[has_no_edges].sum() * restart_share
        moved = along_edges + returned
        following = (1 - damping) * restart_share + damping * moved
        change = np.abs(following - mass).sum()
        mass = following
        if change < TOLERANCE:
            break
    return dict(zip(nodes, mass.tolist(), strict=True))
