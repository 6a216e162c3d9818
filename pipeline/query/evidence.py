"""What a retriever finds, before it is cut to a budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from pipeline.stores.base import CLAIM_COLUMNS, ENTITY_COLUMNS, RELATIONSHIP_COLUMNS, REPORT_COLUMNS

Picks = Mapping[str, int]
"""Text units that a lane has chosen, best first, each with how often it came up there."""


def _empty(columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame(columns=columns)


@dataclass(frozen=True)
class Evidence:
    """Entities, relationships, reports and claims ranked; text units by the lane that found them, each lane ranked;
    what is to be said of the search."""

    entities: pd.DataFrame = field(default_factory=lambda: _empty(ENTITY_COLUMNS))
    relationships: pd.DataFrame = field(default_factory=lambda: _empty(RELATIONSHIP_COLUMNS))
    chunk_lanes: Mapping[str, Picks] = field(default_factory=dict)
    reports: pd.DataFrame = field(default_factory=lambda: _empty(REPORT_COLUMNS))
    claims: pd.DataFrame = field(default_factory=lambda: _empty(CLAIM_COLUMNS))
    notes: tuple[str, ...] = ()
