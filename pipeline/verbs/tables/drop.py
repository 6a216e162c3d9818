"""drop: a table without some of its columns."""

from collections.abc import Mapping

import pandas as pd
from pydantic import Field

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema
from pipeline.verbs.tables.columns import derived, field_of, types_of


class DropParams(Params):
    """``columns``: those to leave out."""

    columns: tuple[str, ...] = Field(min_length=1)


def _result(read: Mapping[str, TableSchema], params: DropParams) -> TableSchema:
    for name in params.columns:
        field_of(read["table"], name)
    kept = [name for name in read["table"].columns if name not in params.columns]
    if not kept:
        raise ValueError("columns: no column would be left; keep one")
    return derived(read["table"], types_of(read["table"], kept))


@verb(inputs={"table": ANY}, outputs={"result": _result}, rowwise="table")
def drop(table: pd.DataFrame, params: DropParams) -> pd.DataFrame:
    """The table without these columns; equal rows stay."""
    return table.drop(columns=list(params.columns))
