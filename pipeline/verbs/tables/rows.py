"""unroll: a row for each item of a list."""

from collections.abc import Mapping, Sized
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, INT, TableSchema, is_list, type_name
from pipeline.verbs.tables.columns import ColumnName, derived, type_of, types_of


class UnrollParams(Params):
    """``column``: the lists. ``position``: the name of a column for each item's place in its list, from 0; none by
    default. ``keep_empty``: whether a row with an empty list stays, with nothing in the cell."""

    column: str
    position: ColumnName | Literal[""] = ""
    keep_empty: bool = False


def _result(read: Mapping[str, TableSchema], params: UnrollParams) -> TableSchema:
    table, kind = read["table"], type_of(read["table"], params.column)
    if not is_list(kind):
        raise ValueError(f"column '{params.column}' holds {type_name(kind)}, no lists; name one that does")
    if params.position in table.columns:
        raise ValueError(f"position: the table has a column '{params.position}'; choose another name")
    place = {params.position: INT} if params.position else {}
    return derived(table, types_of(table) | {params.column: kind.value_type} | place, one_to_one=False)


@verb(inputs={"table": ANY}, outputs={"result": _result}, rowwise="table")
def unroll(table: pd.DataFrame, params: UnrollParams) -> pd.DataFrame:
    """The table with one item of the list in each row, all else repeated."""
    filled = np.array([_filled(cell) for cell in table[params.column]], dtype=bool)
    rows = table if params.keep_empty else table[filled]
    unrolled = rows.reset_index(drop=True).explode(params.column)
    if params.position:
        places = unrolled.groupby(level=0).cumcount()
        unrolled[params.position] = places.where(filled[unrolled.index]) if params.keep_empty else places
    return unrolled.reset_index(drop=True)


def _filled(cell: object) -> bool:
    return isinstance(cell, Sized) and len(cell) > 0
