"""Personalised PageRank by power iteration over a small undirected graph.

Page, Brin, Motwani and Winograd 1999, "The PageRank citation ranking".
"""

from collections.abc import Mapping, Sequence

import numpy as np

DAMPING = 0.3
"""The probability that a step follows an edge. The less, the nearer the mass stays to the start."""
STEPS, TOLERANCE = 50, 1e-9
"""STEPS: most steps of the iteration. TOLERANCE: the change of all mass below which it ends."""
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
    distinct_nodes = set(restart)
    for one, other, _ in edges:
        distinct_nodes.update((one, other))
    nodes = sorted(distinct_nodes)
    place = {node: number for number, node in enumerate(nodes)}
    restart_weights = [restart.get(node, 0.0) for node in nodes]
    restart_share = np.array(restart_weights) / total

    # An edge is two arcs, one in each direction.
    arcs: list[tuple[int, int, float]] = []
    for one, other, weight in edges:
        arcs.append((place[one], place[other], weight))
        arcs.append((place[other], place[one], weight))
    arcs.sort()
    start = np.array([arc_start for arc_start, _, _ in arcs], dtype=np.int64)
    end = np.array([arc_end for _, arc_end, _ in arcs], dtype=np.int64)
    weights = np.array([arc_weight for _, _, arc_weight in arcs], dtype=np.float64)

    outgoing_weight = np.bincount(start, weights, len(nodes))
    share_of_arc = weights / outgoing_weight[start]
    has_no_edges = outgoing_weight == 0
    mass = restart_share
    for _ in range(STEPS):
        along_arcs = mass[start] * share_of_arc
        arrived = np.bincount(end, along_arcs, len(nodes))
        returned = mass[has_no_edges].sum() * restart_share
        moved = arrived + returned
        next_mass = (1 - damping) * restart_share + damping * moved
        change = np.abs(next_mass - mass).sum()
        mass = next_mass
        if change < TOLERANCE:
            break
    return dict(zip(nodes, mass.tolist(), strict=True))
