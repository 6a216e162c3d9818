"""compute_degrees: count the neighbours of each entity."""

import pandas as pd

from pipeline.contract.laws import Law, Part
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import (
    DESCRIBED_ENTITIES,
    DESCRIBED_RELATIONSHIPS,
    ENTITIES,
    RELATIONSHIPS,
    STRING,
    table,
)

ENDS = ("source_entity_id", "target_entity_id")
NEIGHBOURS = table(*ENDS, source_entity_id=STRING, target_entity_id=STRING)
"""The columns of relationships that degrees depend on.

Other columns are not read. So an incremental run counts no degree again if only texts have changed.
"""


def with_degrees(
    described_entities: pd.DataFrame, described_relationships: pd.DataFrame
) -> pd.DataFrame:
    """Return the entities with ``degree``, the number of distinct neighbours in any direction."""
    source = described_relationships["source_entity_id"].to_numpy()
    target = described_relationships["target_entity_id"].to_numpy()
    one_way = pd.DataFrame({"entity": source, "neighbour": target})
    other_way = pd.DataFrame({"entity": target, "neighbour": source})
    pairs = pd.concat([one_way, other_way]).drop_duplicates()
    neighbours = pairs["entity"].value_counts()
    degrees = described_entities["id"].map(neighbours).fillna(0).astype("int64")
    return described_entities.assign(degree=degrees)


def as_described(described_relationships: pd.DataFrame) -> pd.DataFrame:
    """Return the relationships unchanged: in this sub-step they only get another name."""
    return described_relationships


def _list_degree_parts(params: Params) -> tuple[Part, ...]:
    """Return the sub-steps: one for entities, one for relationships.

    A new relationship changes the degrees of its two ends, but no other relationship.
    """
    by_entity = Law(
        {"described_entities": ("id",), "described_relationships": ENDS}, {"entities": "id"}
    )
    by_relationship = Law({"described_relationships": ("id",)}, {"relationships": "id"})
    read = {"described_entities": DESCRIBED_ENTITIES, "described_relationships": NEIGHBOURS}
    entities = Part(with_degrees, read, {"entities": ENTITIES}, by_entity)
    relationships = Part(
        as_described,
        {"described_relationships": DESCRIBED_RELATIONSHIPS},
        {"relationships": RELATIONSHIPS},
        by_relationship,
    )
    return entities, relationships


@verb(
    inputs={
        "described_entities": DESCRIBED_ENTITIES,
        "described_relationships": DESCRIBED_RELATIONSHIPS,
    },
    outputs={"entities": ENTITIES, "relationships": RELATIONSHIPS},
    parts=_list_degree_parts,
)
def compute_degrees(
    described_entities: pd.DataFrame, described_relationships: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the entities with ``degree``, and the relationships unchanged.

    ``degree`` is the number of distinct neighbours in any direction. The rank of a relationship,
    the sum of the degrees of both ends, is no column: it is computed when a table is read.
    """
    entities = with_degrees(described_entities, described_relationships)
    return entities, as_described(described_relationships)
