"""filter: the rows that are wanted."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from pipeline.documents.conditions import holds, operators
from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema
from pipeline.verbs.tables.cells import distinct_cells
from pipeline.verbs.tables.columns import field_of


class FilterRowsParams(Params):
    """``where``: column -> a value, a list of which any will do, or a mapping of operators (=, !=, <, <=, >, >=, in,
    not in, matches, exists). ``match``: whether all columns must fit or any."""

    where: dict[str, Any] = Field(min_length=1)
    match: Literal["all", "any"] = "all"

    @field_validator("where")
    @classmethod
    def _as_operators(cls, where: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {column: operators(column, wanted) for column, wanted in where.items()}


def _result(read: Mapping[str, TableSchema], params: FilterRowsParams) -> TableSchema:
    for name in params.where:
        field_of(read["table"], name)
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _result}, rowwise="table")
def filter(table: pd.DataFrame, params: FilterRowsParams) -> pd.DataFrame:
    """The rows that satisfy ``where``, unchanged. One left out is a choice, no reject."""
    fits = [_fits(table[column], condition) for column, condition in params.where.items()]
    return table[np.all(fits, axis=0) if params.match == "all" else np.any(fits, axis=0)]


def _fits(cells: pd.Series, condition: Mapping[str, Any]) -> np.ndarray:
    places, values = distinct_cells(cells)
    return np.array([holds({"": condition}, {"": value}) for value in values], dtype=bool)[places]
