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
    table = next((name for name in (PLACED, FOUND) if source.has(name)), None)
    if table is None:
        return pd.DataFrame(index=pd.Index([], dtype=object))
    nodes = source.table(table).to_pandas().sort_values("level", kind="stable")
    of_levels = nodes.pivot(index="entity_id", columns="level", values="community_id")
    # Rows are sorted by level, so the last one of an entity is that of its smallest community.
    smallest = nodes.drop_duplicates("entity_id", keep="last").set_index("entity_id")
    smallest = smallest.astype({"level": "Int64"}).rename(columns={"community_id": "community"})
    found = smallest[["community", "level", "x", "y"]].join(of_levels.add_prefix(LEVEL))
    return found.dropna(axis="columns", how="all")
