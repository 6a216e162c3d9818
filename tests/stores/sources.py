"""Rows that have their lists of sources with them, as tests make them, in the tables that a store
has."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipeline.stores.base import Store

LISTS = {
    "entities": "chunk_ids",
    "relationships": "chunk_ids",
    "nodes": "source_id",
    "edges": "source_id",
}


def tables_of(store: Store, rows: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Those of the tables that the store has: the lists in a table of their own, or with nodes and
    edges. Nodes of which no place and no properties are told have none."""
    if "nodes" in rows and "x" not in rows["nodes"]:
        rows = {**rows, "nodes": rows["nodes"].assign(x=np.nan, y=np.nan)}
    if "sourced_nodes" in store.tables:
        if "nodes" in rows and "properties" not in rows["nodes"]:
            rows = {**rows, "nodes": rows["nodes"].assign(properties="")}
        named = {
            f"sourced_{table}" if table in LISTS else table: found for table, found in rows.items()
        }
        return {table: found for table, found in named.items() if table in store.tables}
    lists = [
        rows[table][["id", column]].rename(columns={column: "chunk_ids"})
        for table, column in LISTS.items()
        if table in rows and column in rows[table]
    ]
    found = {
        table: found.drop(columns=[LISTS.get(table, ""), "properties"], errors="ignore")
        for table, found in rows.items()
    }
    if lists:
        found["sources"] = pd.concat(lists).drop_duplicates("id").reset_index(drop=True)
    return found
