"""keep_frequent: a verb of one's own. settings.yaml: verbs: [verbs/keep_frequent.py]"""

import pandas as pd
from graphmill import Params, verb
from pydantic import Field

from pipeline.contract.schemas import ENTITIES


class KeepParams(Params):
    """``units``: how many text units must mention an entity."""

    units: int = Field(default=2, ge=1)


@verb(
    inputs={"entities": ENTITIES},
    outputs={"frequent_entities": ENTITIES},
    rowwise="entities",
    row_of={"frequent_entities": "id"},
)
def keep_frequent(entities: pd.DataFrame, params: KeepParams = KeepParams()) -> pd.DataFrame:
    """Entities that at least ``params.units`` text units mention."""
    return entities[entities["frequency"] >= params.units]
