"""order_by: a table in another order of its rows, or the first of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import pandas as pd
from pydantic import Field, model_validator

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema
from pipeline.verbs.tables.cells import comparable_cells
from pipeline.verbs.tables.columns import field_of


class OrderParams(Params):
    """``by``: the columns, the first first; ``descending``: those of them from the greatest down. ``limit``: how many
    rows stay; all by default."""

    by: tuple[str, ...] = Field(min_length=1)
    descending: tuple[str, ...] = ()
    limit: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if lost := [name for name in self.descending if name not in self.by]:
            raise ValueError(f"descending: '{lost[0]}' is not in by; name it there too")
        return self


def _result(read: Mapping[str, TableSchema], params: OrderParams) -> TableSchema:
    table = read["table"]
    for name in params.by:
        field_of(table, name)
    by = tuple(dict.fromkeys(params.by))
    rest = tuple(name for name in (*table.key, *table.columns) if name not in by)
    return replace(table, key=(*by, *dict.fromkeys(rest)), descending=params.descending)


@verb(inputs={"table": ANY}, outputs={"result": _result})
def order_by(table: pd.DataFrame, params: OrderParams) -> pd.DataFrame:
    """The rows, which the snapshot keeps in this order; equal ones by their other columns. Nothing comes last."""
    if params.limit is None:
        return table
    cells = comparable_cells(table)
    names = list(dict.fromkeys([*params.by, *table.columns]))
    ascending = [name not in params.descending for name in names]
    return table.iloc[cells.sort_values(names, ascending=ascending, kind="stable").index[: params.limit]]
