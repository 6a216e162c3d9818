"""detect_communities: hierarchical Leiden over every component of the graph."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import graspologic_native as leiden
import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import COMMUNITIES, ENTITIES, NODES, RELATIONSHIPS
from pipeline.text.ids import digest

MEMBERSHIP = ["entity_id", "level", "community_id", "parent"]
Edge = tuple[str, str, float]
TITLE_NAMES = 3


class CommunityParams(Params):
    """``max_cluster_size``: a larger community is split one level down. ``resolution``: higher
    gives more."""

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
    """Level 0 is the coarsest. An entity without relationships belongs to no community.

    The graph is read as undirected, weights of both directions added. Traag, Waltman, van Eck 2019,
    "From Louvain to Leiden", as graspologic-native implements it; sorted edges and a fixed seed
    give one partition in every process. Each connected component is partitioned by itself, so that
    a change in one leaves the communities of the others as they are. A community's id comes from
    its level and its members, its title names those of the highest degree. ``x``, ``y``: null until
    ``layout_graph`` places the nodes.
    """
    nodes = _partition(relationships, params)
    parents = dict(zip(nodes["community_id"], nodes["parent"], strict=True))
    communities = _communities(nodes, parents, entities, relationships)
    return communities, nodes.assign(x=None, y=None)[NODES.columns]


def _partition(relationships: pd.DataFrame, params: CommunityParams) -> pd.DataFrame:
    """(entity_id, level, community_id, parent): one row for each entity and level it is in."""
    rows = [
        row
        for edges in _components(_undirected(relationships))
        for row in _of_component(edges, params)
    ]
    return pd.DataFrame(rows, columns=MEMBERSHIP).astype({"level": "int64"})


def _undirected(relationships: pd.DataFrame) -> list[Edge]:
    ends = relationships[["source_entity_id", "target_entity_id"]]
    pairs = pd.DataFrame(
        {"a": ends.min(axis=1), "b": ends.max(axis=1), "weight": relationships["weight"]}
    )
    summed = pairs.groupby(["a", "b"], sort=True)["weight"].sum().reset_index()
    return list(summed.itertuples(index=False, name=None))


def _components(edges: list[Edge]) -> Iterable[list[Edge]]:
    """The edges of each connected component, in their order."""
    from networkx.utils import UnionFind

    joined = UnionFind()
    for one, other, _ in edges:
        joined.union(one, other)
    components: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        components[joined[edge[0]]].append(edge)
    return components.values()


def _of_component(
    edges: list[Edge], params: CommunityParams
) -> Iterator[tuple[str, int, str, str]]:
    clusters = leiden.hierarchical_leiden(  # pyright: ignore[reportAttributeAccessIssue]
        edges=edges,
        max_cluster_size=params.max_cluster_size,
        resolution=params.resolution,
        seed=params.seed,
    )
    members: dict[tuple[int, int], list[str]] = defaultdict(list)
    parents: dict[tuple[int, int], tuple[int, int]] = {}
    for entry in clusters:
        key = (entry.level, entry.cluster)
        members[key].append(entry.node)
        if entry.parent_cluster is not None:
            parents[key] = (entry.level - 1, entry.parent_cluster)
    ids = {key: f"com-{digest(str(key[0]), *sorted(names))}" for key, names in members.items()}
    for key, names in members.items():
        for name in names:
            yield name, key[0], ids[key], ids[parents[key]] if key in parents else ""


def _communities(
    nodes: pd.DataFrame,
    parents: dict[str, str],
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
) -> pd.DataFrame:
    children: dict[str, list[str]] = defaultdict(list)
    for child, parent in sorted(parents.items()):
        children[parent].append(child)
    units_of = dict(zip(entities["id"], entities["text_unit_ids"], strict=True))
    inside = _relationships_inside(nodes, relationships)
    ranked = entities.sort_values(["degree", "id"], ascending=[False, True])
    places = {id: place for place, id in enumerate(ranked["id"])}
    names = ranked["name"].tolist()
    rows = []
    for level, id, members in _members(nodes):
        rows.append(
            {
                "id": id,
                "level": level,
                "parent": parents[id],
                "children": children[id],
                "entity_ids": members,
                "relationship_ids": inside.get(id, []),
                "text_unit_ids": sorted({unit for member in members for unit in units_of[member]}),
                "size": len(members),
                "title": ", ".join(
                    names[place] for place in sorted(places[id] for id in members)[:TITLE_NAMES]
                ),
            }
        )
    return COMMUNITIES.frame(rows)


def _members(nodes: pd.DataFrame) -> list[tuple[int, str, list[str]]]:
    grouped = nodes.sort_values("entity_id").groupby(["level", "community_id"], sort=True)[
        "entity_id"
    ]
    members = grouped.agg(list).reset_index()
    return list(members.itertuples(index=False, name=None))


def _relationships_inside(nodes: pd.DataFrame, relationships: pd.DataFrame) -> dict[str, list[str]]:
    """community id -> ids of the relationships whose two ends it holds."""
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
