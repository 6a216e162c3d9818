"""compute_degrees: how connected each entity is, and from that each relationship's rank."""

import pandas as pd

from pipeline.contract.registry import verb
from pipeline.contract.schemas import DESCRIBED_ENTITIES, DESCRIBED_RELATIONSHIPS, ENTITIES, RELATIONSHIPS


@verb(
    inputs={
        "described_entities": DESCRIBED_ENTITIES,
        "described_relationships": DESCRIBED_RELATIONSHIPS,
    },
    outputs={"entities": ENTITIES, "relationships": RELATIONSHIPS},
)
def compute_degrees(
    described_entities: pd.DataFrame, described_relationships: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """``degree``: distinct neighbours, direction left aside; ``rank``: the degrees of both ends together."""
    ends = described_relationships[["source_entity_id", "target_entity_id"]]
    both_ways = pd.concat(
        [
            ends.set_axis(["entity", "neighbour"], axis=1),
            ends.set_axis(["neighbour", "entity"], axis=1),
        ]
    )
    degrees = both_ways.drop_duplicates()["entity"].value_counts()
    entities = described_entities.assign(degree=_degree(described_entities["id"], degrees))
    relationships = described_relationships.assign(
        source_degree=_degree(ends["source_entity_id"], degrees),
        target_degree=_degree(ends["target_entity_id"], degrees),
    )
    relationships["rank"] = relationships["source_degree"] + relationships["target_degree"]
    return entities, relationships


def _degree(ids: pd.Series, degrees: pd.Series) -> pd.Series:
    return ids.map(degrees).fillna(0).astype("int64")
