"""derive: new columns made of those of the row."""

from collections.abc import Mapping
from typing import Annotated

import pandas as pd
from pydantic import BeforeValidator, Field

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema
from pipeline.verbs.tables.columns import ColumnName, derived, types_of
from pipeline.verbs.tables.operations import Operation, cells_of, type_made, written_short


class DeriveParams(Params):
    """``columns``: name -> one of the operations in operations.py and what it takes, as {lower: name}, or
    {concat: [name, description], separator: " "}. All read the table as it was; a new column may replace one of it."""

    columns: dict[ColumnName, Annotated[Operation, BeforeValidator(written_short)]] = Field(min_length=1)


def _result(read: Mapping[str, TableSchema], params: DeriveParams) -> TableSchema:
    table = read["table"]
    return derived(table, types_of(table) | {name: type_made(entry, table) for name, entry in params.columns.items()})


@verb(inputs={"table": ANY}, outputs={"result": _result}, rowwise="table")
def derive(table: pd.DataFrame, params: DeriveParams) -> pd.DataFrame:
    """The table and the new columns. Where an operand is missing, so is the result, unless the operation says else."""
    made = {name: cells_of(entry, table) for name, entry in params.columns.items()}
    return table.assign(**{name: pd.Series(cells, table.index, dtype=object) for name, cells in made.items()})
