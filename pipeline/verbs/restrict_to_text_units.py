"""restrict_to_text_units: of a table's rows those that came of some text units."""

from collections.abc import Mapping

import pandas as pd

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import STRING, TableSchema, at_least, table

UNIT_IDS = table("id", id=STRING)
"""What the verb reads of text units."""


def _result(read: Mapping[str, TableSchema], params: Params) -> TableSchema:
    return read["rows"]


@verb(
    inputs={"rows": at_least(text_unit_id=STRING), "text_units": UNIT_IDS},
    outputs={"result": _result},
    keyed={"rows": ("text_unit_id",), "text_units": ("id",)},
    row_of={"result": "text_unit_id"},
)
def restrict_to_text_units(rows: pd.DataFrame, text_units: pd.DataFrame) -> pd.DataFrame:
    """The rows whose ``text_unit_id`` is an id of ``text_units``, unchanged. One left out is a
    choice, no reject."""
    return rows[rows["text_unit_id"].isin(text_units["id"])]
