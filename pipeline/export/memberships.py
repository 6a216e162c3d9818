"""The communities and the place of each entity, as columns to join to the table of entities."""

import pandas as pd

from pipeline.export.source import ExportSource

PLACED, FOUND = "placed_nodes", "nodes"
"""The tables of layout_graph and of detect_communities. The first has all columns of the second."""
LEVEL = "community_"


def memberships(source: ExportSource) -> pd.DataFrame:
    """Return the communities and places of entities; the index is the id of the entity.

    ``community`` is the smallest community of the entity, and ``level`` its level. ``community_0``,
    ``community_1`` and so on are its communities of each level. ``x`` and ``y`` are its place. A
    column without any value is left out.
    """
    if source.has(PLACED):
        table = source.table(PLACED)
    elif source.has(FOUND):
        table = source.table(FOUND)
    else:
        return pd.DataFrame(index=pd.Index([], dtype=object))
    nodes = table.to_pandas().sort_values("level", kind="stable")
    # Rows are sorted by level, so the last one of an entity is that of its smallest community.
    smallest = nodes.drop_duplicates("entity_id", keep="last").set_index("entity_id")
    smallest = smallest.rename(columns={"community_id": "community"})
    # This type of integers has missing values: entities without a community have none.
    smallest = smallest.astype({"level": "Int64"})
    community_of_level = nodes.pivot(index="entity_id", columns="level", values="community_id")
    community_of_level = community_of_level.add_prefix(LEVEL)
    columns = smallest[["community", "level", "x", "y"]].join(community_of_level)
    return columns.dropna(axis="columns", how="all")
