"""concat: the rows of two tables in one."""

from collections.abc import Mapping

import pandas as pd

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema, type_name
from pipeline.verbs.tables.columns import derived, field_of, types_of


def _result(read: Mapping[str, TableSchema], params: Params) -> TableSchema:
    table, other = read["table"], read["other"]
    for schema, columns in ((table, other.columns), (other, table.columns)):
        for name in columns:
            field_of(schema, name)
    for name, kind in types_of(table).items():
        if kind != (second := types_of(other)[name]):
            kinds = f"{type_name(kind)} and {type_name(second)}"
            raise ValueError(f"column '{name}' is {kinds}; convert one of them first")
    return derived(table, types_of(table), one_to_one=False)


@verb(inputs={"table": ANY, "other": ANY}, outputs={"result": _result})
def concat(table: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """All rows of both; equal rows stay. The tables must have the same columns, in whatever order."""
    frames = [frame for frame in (table, other[list(table.columns)]) if len(frame)] or [table]
    return pd.concat(frames, ignore_index=True)
