"""detect_communities: hierarchical Leiden clustering of every component of the graph."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import graspologic_native as leiden
import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import COMMUNITIES, ENTITIES, NODES, RELATIONSHIPS
from pipeline.text.ids import community_id

MEMBERSHIP = ["entity_id", "level", "community_id", "parent"]
Edge = tuple[str, str, float]
"""Both ends of an edge, and its weight."""
Cluster = tuple[int, int]
"""The level of a community, and its number there."""
NAMES_IN_A_TITLE = 3


class CommunityParams(Params):
    """``max_cluster_size`` is in entities: a larger community is split on the next level.

    A higher ``resolution`` gives more and smaller communities.
    """

    max_cluster_size: int = Field(default=10, gt=1)
    resolution: float = Field(default=1.0, gt=0)
    seed: int = 20240401


@verb(
    inputs={"entities": ENTITIES, "relationships": RELATIONSHIPS},
    outputs={"communities": COMMUNITIES, "nodes": NODES},
    libraries=("graspologic-native", "networkx"),
)
def detect_communities(
    entities: pd.DataFrame, relationships: pd.DataFrame, params: CommunityParams = CommunityParams()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Group the entities into a hierarchy of communities, level 0 being the coarsest.

    An entity without relationships belongs to no community. The graph is read as undirected, and
    the weights of both directions are added. The algorithm is that of Traag, Waltman, van Eck 2019,
    "From Louvain to Leiden", as graspologic-native implements it. Sorted edges and a fixed seed
    give the same communities in every process. Each connected component is clustered by itself, so
    a change in one leaves the communities of the others as they are. The id of a community comes
    from its level and its members. Its title lists the members of the highest degree. The columns
    ``x`` and ``y`` of the nodes are null until ``layout_graph`` places them.
    """
    nodes = partition(relationships, params)
    communities = describe_communities(nodes, entities, relationships)
    return communities, nodes.assign(x=None, y=None)[NODES.columns]


def partition(relationships: pd.DataFrame, params: CommunityParams) -> pd.DataFrame:
    """Return the columns MEMBERSHIP, with a row for each entity and each level that it is in.

    ``parent`` is the id of the community one level up that contains this one, or empty.
    """
    rows: list[tuple[str, int, str, str]] = []
    for edges in _split_components(_merge_directions(relationships)):
        rows += _partition_component(edges, params)
    return pd.DataFrame(rows, columns=MEMBERSHIP).astype({"level": "int64"})


def _merge_directions(relationships: pd.DataFrame) -> list[Edge]:
    """Return an edge for each pair of related entities, in sorted order, with its total weight."""
    ends = relationships[["source_entity_id", "target_entity_id"]]
    columns = {
        # The direction does not matter: the smaller id always comes first.
        "a": ends.min(axis=1),
        "b": ends.max(axis=1),
        "weight": relationships["weight"],
    }
    by_pair = pd.DataFrame(columns).groupby(["a", "b"], sort=True)
    total_weights = by_pair["weight"].sum().reset_index()
    return list(total_weights.itertuples(index=False, name=None))


def _split_components(edges: list[Edge]) -> Iterable[list[Edge]]:
    """Return the edges of each connected component; they keep their order."""
    from networkx.utils import UnionFind

    joined = UnionFind()
    for one, other, _ in edges:
        joined.union(one, other)
    components: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        one_end = edge[0]
        component = joined[one_end]
        components[component].append(edge)
    return components.values()


def _partition_component(
    edges: list[Edge], params: CommunityParams
) -> Iterator[tuple[str, int, str, str]]:
    """Yield the rows of MEMBERSHIP for one connected component."""
    clusters = leiden.hierarchical_leiden(  # pyright: ignore[reportAttributeAccessIssue]
        edges=edges,
        max_cluster_size=params.max_cluster_size,
        resolution=params.resolution,
        seed=params.seed,
    )
    members: dict[Cluster, list[str]] = defaultdict(list)
    parents: dict[Cluster, Cluster] = {}
    for entry in clusters:
        key = (entry.level, entry.cluster)
        members[key].append(entry.node)
        if entry.parent_cluster is not None:
            parents[key] = (entry.level - 1, entry.parent_cluster)
    ids: dict[Cluster, str] = {}
    for (level, cluster), names in members.items():
        ids[level, cluster] = community_id(level, names)
    for (level, cluster), names in members.items():
        key = (level, cluster)
        parent = ids[parents[key]] if key in parents else ""
        for name in names:
            yield name, level, ids[key], parent


def describe_communities(
    nodes: pd.DataFrame, entities: pd.DataFrame, relationships: pd.DataFrame
) -> pd.DataFrame:
    """Return COMMUNITIES; ``nodes`` has the columns MEMBERSHIP."""
    parents = dict(zip(nodes["community_id"], nodes["parent"], strict=True))
    children: dict[str, list[str]] = defaultdict(list)
    for child, parent in sorted(parents.items()):
        children[parent].append(child)
    units_of = dict(zip(entities["id"], entities["text_unit_ids"], strict=True))
    inside = _find_inner_relationships(nodes, relationships)
    by_degree = entities.sort_values(["degree", "id"], ascending=[False, True])
    ranks = {id: rank for rank, id in enumerate(by_degree["id"])}
    names = by_degree["name"].tolist()
    rows = []
    for level, id, members in _list_members(nodes):
        text_units: set[str] = set()
        for member in members:
            text_units.update(units_of[member])
        best_ranks = sorted(ranks[member] for member in members)[:NAMES_IN_A_TITLE]
        title = ", ".join(names[rank] for rank in best_ranks)
        rows.append(
            {
                "id": id,
                "level": level,
                "parent": parents[id],
                "children": children[id],
                "entity_ids": members,
                "relationship_ids": inside.get(id, []),
                "text_unit_ids": sorted(text_units),
                "size": len(members),
                "title": title,
            }
        )
    return COMMUNITIES.frame(rows)


def _list_members(nodes: pd.DataFrame) -> list[tuple[int, str, list[str]]]:
    """Return level, id and sorted members of each community, sorted by level and id."""
    # A group keeps the order of its rows.
    by_entity = nodes.sort_values("entity_id")
    by_community = by_entity.groupby(["level", "community_id"], sort=True)
    members = by_community["entity_id"].agg(list).reset_index()
    return list(members.itertuples(index=False, name=None))


def _find_inner_relationships(
    nodes: pd.DataFrame, relationships: pd.DataFrame
) -> dict[str, list[str]]:
    """Map the id of a community to the sorted ids of the relationships between its members."""
    community = nodes[["entity_id", "level", "community_id"]]
    ends = relationships[["id", "source_entity_id", "target_entity_id"]]
    sources = ends.merge(community, left_on="source_entity_id", right_on="entity_id")
    both = sources.merge(
        community,
        left_on=["target_entity_id", "level", "community_id"],
        right_on=["entity_id", "level", "community_id"],
    )
    inside = both.sort_values("id").groupby("community_id")["id"].agg(list)
    return {str(community): ids for community, ids in inside.items()}
