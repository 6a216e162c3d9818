"""dedupe: of rows that are alike, one."""

from collections.abc import Mapping

import pandas as pd

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema
from pipeline.verbs.tables.cells import comparable_cells
from pipeline.verbs.tables.columns import field_of


class DedupeParams(Params):
    """``by``: the columns in which rows are alike; all by default."""

    by: tuple[str, ...] = ()


def _result(read: Mapping[str, TableSchema], params: DedupeParams) -> TableSchema:
    for name in params.by:
        field_of(read["table"], name)
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _result})
def dedupe(table: pd.DataFrame, params: DedupeParams = DedupeParams()) -> pd.DataFrame:
    """The first of each: that with the smaller cells, columns compared from left to right, nothing last."""
    cells = comparable_cells(table)
    ordered = cells.sort_values(list(cells.columns), kind="stable")
    first = ordered.drop_duplicates(subset=list(params.by) or None)
    return table.iloc[first.index]
