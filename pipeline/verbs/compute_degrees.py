"""compute_degrees: how connected each entity is."""

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
"""What of relationships makes a degree, so that a night counts none anew where their texts alone
are others."""


def with_degrees(
    described_entities: pd.DataFrame, described_relationships: pd.DataFrame
) -> pd.DataFrame:
    """The entities with ``degree``: distinct neighbours, direction left aside."""
    source, target = (described_relationships[end].to_numpy() for end in ENDS)
    one_way = pd.DataFrame({"entity": source, "neighbour": target})
    other_way = pd.DataFrame({"entity": target, "neighbour": source})
    counted = pd.concat([one_way, other_way]).drop_duplicates()["entity"].value_counts()
    degrees = described_entities["id"].map(counted).fillna(0).astype("int64")
    return described_entities.assign(degree=degrees)


def as_described(described_relationships: pd.DataFrame) -> pd.DataFrame:
    return described_relationships


def parts(params: Params) -> tuple[Part, ...]:
    """A new neighbour is a matter of the two entities: their other relationships stay as they
    are."""
    by_entity = Law(
        {"described_entities": ("id",), "described_relationships": ENDS}, {"entities": "id"}
    )
    by_relationship = Law({"described_relationships": ("id",)}, {"relationships": "id"})
    read = {"described_entities": DESCRIBED_ENTITIES, "described_relationships": NEIGHBOURS}
    return (
        Part(with_degrees, read, {"entities": ENTITIES}, by_entity),
        Part(
            as_described,
            {"described_relationships": DESCRIBED_RELATIONSHIPS},
            {"relationships": RELATIONSHIPS},
            by_relationship,
        ),
    )


@verb(
    inputs={
        "described_entities": DESCRIBED_ENTITIES,
        "described_relationships": DESCRIBED_RELATIONSHIPS,
    },
    outputs={"entities": ENTITIES, "relationships": RELATIONSHIPS},
    parts=parts,
)
def compute_degrees(
    described_entities: pd.DataFrame, described_relationships: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """``degree``: distinct neighbours, direction left aside. The relationships stay as they are:
    their ranks, the degrees of both ends together, are joined as they are read."""
    return with_degrees(described_entities, described_relationships), as_described(
        described_relationships
    )
