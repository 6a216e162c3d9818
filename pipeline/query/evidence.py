"""What a retriever finds, before it is cut to a budget."""

from dataclasses import dataclass, field

import pandas as pd

from pipeline.stores.base import ENTITY_COLUMNS, RELATIONSHIP_COLUMNS


def _empty(columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(columns=columns)


@dataclass(frozen=True)
class Evidence:
    """Entities and relationships ranked, and chunk ids by the lane that found them, each lane ranked."""

    entities: pd.DataFrame = field(default_factory=lambda: _empty(ENTITY_COLUMNS))
    relationships: pd.DataFrame = field(default_factory=lambda: _empty(RELATIONSHIP_COLUMNS))
    chunk_lanes: dict[str, list[str]] = field(default_factory=dict)
