"""rename: a table with other names for some of its columns."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import pyarrow as pa
from pydantic import Field

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema
from pipeline.verbs.tables.columns import ColumnName, field_of


class RenameParams(Params):
    """``columns``: name -> new name."""

    columns: dict[str, ColumnName] = Field(min_length=1)


def _result(read: Mapping[str, TableSchema], params: RenameParams) -> TableSchema:
    table, new = read["table"], params.columns
    for name in new:
        field_of(table, name)
    names = [new.get(name, name) for name in table.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"columns: two would be called '{twice[0]}'; choose another name, or drop one first")
    return replace(
        table,
        arrow=pa.schema(list(zip(names, table.arrow.types, strict=True))),
        key=tuple(new.get(name, name) for name in table.key),
        descending=tuple(new.get(name, name) for name in table.descending),
    )


@verb(inputs={"table": ANY}, outputs={"result": _result}, rowwise="table")
def rename(table: pd.DataFrame, params: RenameParams) -> pd.DataFrame:
    """The table with the new names; its rows keep their order."""
    return table.rename(columns=params.columns)
