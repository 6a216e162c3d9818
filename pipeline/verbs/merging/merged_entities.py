"""Tell which entities resolve_entities merged, by its decisions on pairs of them."""

from collections.abc import Collection, Iterable

import pandas as pd

MERGE = "merge"
"""The decision of RESOLUTIONS by which two names are one entity."""


def groups_of_merged(resolutions: pd.DataFrame) -> Iterable[set[str]]:
    """Return the sets of ids of entities that became one.

    ``resolutions`` has the columns left_id, right_id and decision of a table of resolve_entities.
    """
    import networkx as nx

    # Entities that were merged, pair by pair, are connected components of this graph.
    graph = nx.Graph()
    merged = resolutions[resolutions["decision"] == MERGE]
    graph.add_edges_from(merged[["left_id", "right_id"]].itertuples(index=False, name=None))
    return nx.connected_components(graph)


def find_merged_into(resolutions: pd.DataFrame, remaining: Collection[str]) -> dict[str, str]:
    """Map the id of each merged entity to that of the entity it became.

    ``remaining`` has the ids of the entities that are left; each of them that takes part maps to
    itself. Groups of which none is left are not in the result.
    """
    left = set(remaining)
    merged_into: dict[str, str] = {}
    for members in groups_of_merged(resolutions):
        heads = sorted(members & left)
        if heads:
            merged_into |= dict.fromkeys(members, heads[0])
    return merged_into
