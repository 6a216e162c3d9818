"""Our communities beside those of graspologic's Leiden, on graphs with a known division: as good,
by modularity."""

import random
import warnings

import pandas as pd

from pipeline.contract.schemas import ENTITIES, RELATIONSHIPS
from pipeline.verbs.detect_communities import CommunityParams, detect_communities

GROUPS, SIZE = 6, 30
SLACK = 0.005
"""The difference by which our modularity may be lower: both programs draw at random."""


def links(seed: int) -> list[tuple[str, str, float]]:
    """Return links with weights that are far more frequent within groups than between them."""
    draws = random.Random(seed)
    names = [f"{group}-{place:02}" for group in range(GROUPS) for place in range(SIZE)]
    return [
        (one, other, float(draws.randint(1, 5)))
        for place, one in enumerate(names)
        for other in names[:place]
        if draws.random() < (0.3 if one[0] == other[0] else 0.01)
    ]


def ours(edges: list[tuple[str, str, float]]) -> dict[str, str]:
    columns = dict.fromkeys(RELATIONSHIPS.columns, "")
    lists = {"keywords": [], "text_unit_ids": []}
    numbers = {"source_degree": 0, "target_degree": 0, "rank": 0}
    relationships = RELATIONSHIPS.frame(
        {**columns, **lists, **numbers, "id": f"{place:05}", "source_entity_id": one,
            "target_entity_id": other,
         "weight": weight}
        for place, (one, other, weight) in enumerate(edges)
    )  # fmt: skip
    ids = sorted({end for edge in edges for end in edge[:2]})
    entities = ENTITIES.frame(
        {
            "id": id,
            "name": id,
            "type": "",
            "types": [],
            "description": "",
            "text_unit_ids": [],
            "frequency": 1,
            "degree": 1,
        }
        for id in ids
    )  # fmt: skip
    _, nodes = detect_communities(
        entities, relationships, CommunityParams(max_cluster_size=SIZE * 2)
    )
    top = nodes[nodes["level"] == 0]
    return dict(zip(top["entity_id"], top["community_id"], strict=True))


def theirs(edges: list[tuple[str, str, float]]) -> dict[str, int]:
    from graspologic.partition import hierarchical_leiden

    found = hierarchical_leiden(sorted(edges), max_cluster_size=SIZE * 2, random_seed=20240401)
    return {entry.node: entry.cluster for entry in found if entry.level == 0}


def modularity(edges: list[tuple[str, str, float]], communities: dict[str, object]) -> float:
    import networkx as nx

    graph: nx.Graph = nx.Graph()
    graph.add_weighted_edges_from(edges)
    groups = pd.Series(communities).groupby(pd.Series(communities)).groups.values()
    return nx.community.modularity(graph, [set(group) for group in groups])


def main() -> None:
    warnings.simplefilter("ignore")
    failed = 0
    for seed in range(5):
        edges = links(seed)
        our, their = modularity(edges, dict(ours(edges))), modularity(edges, dict(theirs(edges)))
        good = our >= their - SLACK
        failed += not good
        print(
            f"seed {seed}: modularity {our:.4f}, graspologic {their:.4f}{'' if good else '  BELOW'}"
        )
    print(f"{5 - failed} passed, {failed} failed")
    raise SystemExit(failed > 0)


main()
