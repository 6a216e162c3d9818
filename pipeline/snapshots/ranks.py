"""The degrees of a relationship's ends, and its rank, their sum: joined as it is read.

A table that kept them would have another row for every relationship of an entity with each new
neighbour of it.
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
    """Whether a table of these columns is to be read with ranks: relationships that have none
    themselves, as those of earlier versions do, in a workflow whose entities have degrees."""
    if table != RELATIONSHIPS or ENTITIES not in manifest.tables or not set(ENDS) <= set(columns):
        return False
    return "rank" not in columns and {"id", "degree"} <= set(
        snapshots.columns(manifest.tables[ENTITIES])
    )


def told_of_missing(column: str, columns: Collection[str]) -> str:
    """What to do where somebody asks relationships for what they had in earlier versions; "" for
    any other column."""
    if column in RANKS and set(ENDS) <= set(columns):
        return "degrees are in 'entities' alone: join them by source_entity_id and target_entity_id"
    return ""


def degrees(manifest: Manifest, snapshots: SnapshotStore) -> pd.Series:
    """Of the entities, by id. Raises DataError when the snapshot is gone or damaged."""
    entities = snapshots.read(manifest.tables[ENTITIES], ["id", "degree"])
    return pd.Series(entities["degree"].to_numpy(), index=entities["id"])


def with_ranks(relationships: pd.DataFrame, degree: pd.Series) -> pd.DataFrame:
    """``source_degree``, ``target_degree`` and ``rank`` as the last columns, whole numbers.
    ``degree``: by entity id; an entity that is not there has none."""
    told = {
        name: relationships[end].map(degree).fillna(0).astype("int64") for end, name in ENDS.items()
    }
    return relationships.assign(**told, rank=sum(told.values()))
