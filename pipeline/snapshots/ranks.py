"""Degrees of a relationship's ends and its rank, which is their sum; computed when it is read.

If the table kept them, each new neighbour of an entity would change the rows of all its
relationships.
"""

from collections.abc import Collection

import pandas as pd

from pipeline.snapshots.store import Manifest, SnapshotStore

ENTITIES, RELATIONSHIPS = "entities", "relationships"
ENDS = {"source_entity_id": "source_degree", "target_entity_id": "target_degree"}
RANKS = (*ENDS.values(), "rank")


def lack_ranks(
    table: str, columns: Collection[str], manifest: Manifest, snapshots: SnapshotStore
) -> bool:
    """Return whether a table with these columns is read with ranks added.

    That holds for relationships that have no ranks themselves (those of earlier versions do), in a
    workflow whose entities have degrees.
    """
    if table != RELATIONSHIPS or ENTITIES not in manifest.tables:
        return False
    if not set(ENDS) <= set(columns) or "rank" in columns:
        return False
    columns_of_entities = snapshots.tables.columns(manifest.tables[ENTITIES])
    return {"id", "degree"} <= set(columns_of_entities)


def advise_on_missing_column(column: str, columns: Collection[str]) -> str:
    """Return advice for a caller who asks for a column that relationships had in earlier versions.

    Return "" for any other column.
    """
    if column in RANKS and set(ENDS) <= set(columns):
        return "degrees are in 'entities' alone: join them by source_entity_id and target_entity_id"
    return ""


def degrees(manifest: Manifest, snapshots: SnapshotStore) -> pd.Series:
    """Return the degree of each entity by its id. Raises DataError if the snapshot is gone or
    damaged."""
    entities = snapshots.tables.read(manifest.tables[ENTITIES], ["id", "degree"])
    return pd.Series(entities["degree"].to_numpy(), index=entities["id"])


def with_ranks(relationships: pd.DataFrame, degree: pd.Series) -> pd.DataFrame:
    """Return relationships with ``source_degree``, ``target_degree`` and ``rank`` as last columns,
    int64.

    ``degree`` maps the id of an entity; an entity that is not in it has degree 0.
    """
    degrees_of_ends: dict[str, pd.Series] = {}
    for end, name in ENDS.items():
        degrees_of_end = relationships[end].map(degree)
        degrees_of_ends[name] = degrees_of_end.fillna(0).astype("int64")
    rank = sum(degrees_of_ends.values())
    return relationships.assign(**degrees_of_ends, rank=rank)
