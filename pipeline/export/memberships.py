"""What communities and a layout say of each entity, in columns beside those of the entities."""

import pandas as pd

from pipeline.export.source import ExportSource

PLACED, FOUND = "placed_nodes", "nodes"
"""By layout_graph, whose table has all that of detect_communities has."""
LEVEL = "community_"


def memberships(source: ExportSource) -> pd.DataFrame:
    """By entity id: ``community``, the smallest that it is in, ``level``, that of this community,
    ``community_0`` and on, that of each level, and ``x`` and ``y``. A column of which nothing is
    known is not there."""
    table = next((name for name in (PLACED, FOUND) if source.has(name)), None)
    if table is None:
        return pd.DataFrame(index=pd.Index([], dtype=object))
    nodes = source.table(table).to_pandas().sort_values("level", kind="stable")
    by_level = nodes.pivot(index="entity_id", columns="level", values="community_id").add_prefix(
        LEVEL
    )
    smallest = (
        nodes.drop_duplicates("entity_id", keep="last")
        .set_index("entity_id")
        .astype({"level": "Int64"})
    )
    told = smallest.rename(columns={"community_id": "community"})[["community", "level", "x", "y"]]
    return told.join(by_level).dropna(axis="columns", how="all")
