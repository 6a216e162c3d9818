"""restrict_to_text_units: select the rows of a table that come from some text units."""

from collections.abc import Mapping

import pandas as pd

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import STRING, TableSchema, at_least, table

UNIT_IDS = table("id", id=STRING)
"""The columns of text units that the verb reads."""


def _result(read: Mapping[str, TableSchema], params: Params) -> TableSchema:
    return read["rows"]


@verb(
    inputs={"rows": at_least(text_unit_id=STRING), "text_units": UNIT_IDS},
    outputs={"result": _result},
    keyed={"rows": ("text_unit_id",), "text_units": ("id",)},
    row_of={"result": "text_unit_id"},
)
def restrict_to_text_units(rows: pd.DataFrame, text_units: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose ``text_unit_id`` is an id of ``text_units``, unchanged.

    Rows left out are no rejects.
    """
    return rows[rows["text_unit_id"].isin(text_units["id"])]
