"""select: some columns of a table, in the order named."""

from collections.abc import Mapping

import pandas as pd
from pydantic import Field

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema
from pipeline.verbs.tables.columns import derived, types_of


class SelectColumnsParams(Params):
    """``columns``: those to keep."""

    columns: tuple[str, ...] = Field(min_length=1)


def _result(read: Mapping[str, TableSchema], params: SelectColumnsParams) -> TableSchema:
    return derived(read["table"], types_of(read["table"], params.columns))


@verb(inputs={"table": ANY}, outputs={"result": _result}, rowwise="table")
def select(table: pd.DataFrame, params: SelectColumnsParams) -> pd.DataFrame:
    """The table with these columns alone; equal rows stay."""
    return table[list(dict.fromkeys(params.columns))]
