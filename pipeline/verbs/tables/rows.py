"""Verbs on the rows of any table: filter, dedupe, order_by, concat, unroll, snapshot."""

from collections.abc import Mapping, Sized
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, field_validator, model_validator

from pipeline.contract.conditions import holds, operators
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import ANY, INT, TableSchema, is_list, type_name
from pipeline.verbs.tables.cells import (
    ColumnName,
    comparable_cells,
    derive_schema,
    distinct_cells,
    field_of,
    type_of,
    types_of,
)


class FilterRowsParams(Params):
    """The condition of each column.

    ``where`` maps a column to the condition that its cells must meet. A condition is a value, a
    list of allowed values, or a map of operators (=, !=, <, <=, >, >=, in, not in, matches,
    exists). ``match`` says whether all columns must fit, or any of them.
    """

    where: dict[str, Any] = Field(min_length=1)
    match: Literal["all", "any"] = "all"

    @field_validator("where")
    @classmethod
    def _as_operators(cls, where: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {column: operators(column, wanted) for column, wanted in where.items()}


def _filter_result(read: Mapping[str, TableSchema], params: FilterRowsParams) -> TableSchema:
    for name in params.where:
        field_of(read["table"], name)
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _filter_result}, rowwise="table")
def filter(table: pd.DataFrame, params: FilterRowsParams) -> pd.DataFrame:
    """Return the rows that satisfy ``where``, unchanged. Rows left out are no rejects."""
    fits_of_columns: list[np.ndarray] = []
    for column, condition in params.where.items():
        fits_of_columns.append(_find_fitting(table[column], condition))
    combine = np.all if params.match == "all" else np.any
    fits = combine(fits_of_columns, axis=0)
    return table[fits]


def _find_fitting(cells: pd.Series, condition: Mapping[str, Any]) -> np.ndarray:
    """Return which cells meet the condition; each distinct value is tested once."""
    positions, values = distinct_cells(cells)
    # A condition is on a field, which has no name here.
    conditions = {"": condition}
    fits = [holds(conditions, {"": value}) for value in values]
    return np.array(fits, dtype=bool)[positions]


class DedupeParams(Params):
    """Rows that are equal in the columns ``by`` count as duplicates; by default in all columns."""

    by: tuple[str, ...] = ()


def _dedupe_result(read: Mapping[str, TableSchema], params: DedupeParams) -> TableSchema:
    for name in params.by:
        field_of(read["table"], name)
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _dedupe_result})
def dedupe(table: pd.DataFrame, params: DedupeParams = DedupeParams()) -> pd.DataFrame:
    """Return one of the rows that are duplicates of each other: the smallest one.

    Rows are compared column by column from left to right. A missing cell is greater than all
    others.
    """
    cells = comparable_cells(table)
    ordered = cells.sort_values(list(cells.columns), kind="stable")
    first = ordered.drop_duplicates(subset=list(params.by) or None)
    return table.iloc[first.index]


class OrderParams(Params):
    """The columns to sort by, the first being the most significant one.

    The columns ``descending`` are sorted from the greatest value down. ``limit`` is the number of
    rows that are kept; by default all are.
    """

    by: tuple[str, ...] = Field(min_length=1)
    descending: tuple[str, ...] = ()
    limit: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        lost = [name for name in self.descending if name not in self.by]
        if lost:
            raise ValueError(f"descending: '{lost[0]}' is not in by; name it there too")
        return self


def _order_by_result(read: Mapping[str, TableSchema], params: OrderParams) -> TableSchema:
    """Return the schema of the result: its key begins with the columns to sort by."""
    table = read["table"]
    for name in params.by:
        field_of(table, name)
    by = tuple(dict.fromkeys(params.by))
    rest = tuple(name for name in (*table.key, *table.columns) if name not in by)
    return replace(table, key=(*by, *dict.fromkeys(rest)), descending=params.descending)


@verb(inputs={"table": ANY}, outputs={"result": _order_by_result})
def order_by(table: pd.DataFrame, params: OrderParams) -> pd.DataFrame:
    """Return the first ``limit`` rows in this order; the order becomes the key of the table.

    The snapshot keeps the rows in this order. Rows that are equal in ``by`` are sorted by their
    other columns. Missing cells come last.
    """
    if params.limit is None:
        return table
    cells = comparable_cells(table)
    names = list(dict.fromkeys([*params.by, *table.columns]))
    ascending = [name not in params.descending for name in names]
    ordered = cells.sort_values(names, ascending=ascending, kind="stable")
    return table.iloc[ordered.index[: params.limit]]


def _concat_result(read: Mapping[str, TableSchema], params: Params) -> TableSchema:
    """Return the schema of the result. Raises ValueError if the tables' columns differ."""
    table, other = read["table"], read["other"]
    for name in other.columns:
        field_of(table, name)
    types, other_types = types_of(table), types_of(other, table.columns)
    for name in types:
        if types[name] != other_types[name]:
            kinds = f"{type_name(types[name])} and {type_name(other_types[name])}"
            raise ValueError(f"column '{name}' is {kinds}; convert one of them first")
    return derive_schema(table, types, one_to_one=False)


@verb(inputs={"table": ANY, "other": ANY}, outputs={"result": _concat_result})
def concat(table: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return all rows of both tables; equal rows are kept.

    The tables must have the same columns, in any order.
    """
    frames = [table, other[list(table.columns)]]
    # pandas would take the types of an empty frame into account, too.
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled or [table], ignore_index=True)


class UnrollParams(Params):
    """``column`` holds the lists.

    ``position`` is the name of a new column with the position of each item in its list, from 0; by
    default there is none. ``keep_empty`` says whether a row with an empty list is kept, with a
    missing cell.
    """

    column: str
    position: ColumnName | Literal[""] = ""
    keep_empty: bool = False


def _unroll_result(read: Mapping[str, TableSchema], params: UnrollParams) -> TableSchema:
    """Return the schema of the result. Raises ValueError for a column that holds no lists."""
    table = read["table"]
    kind = type_of(table, params.column)
    if not is_list(kind):
        raise ValueError(
            f"column '{params.column}' holds {type_name(kind)}, no lists; name one that does"
        )
    if params.position in table.columns:
        raise ValueError(
            f"position: the table has a column '{params.position}'; choose another name"
        )
    types = types_of(table)
    types[params.column] = kind.value_type
    if params.position:
        types[params.position] = INT
    return derive_schema(table, types, one_to_one=False)


@verb(inputs={"table": ANY}, outputs={"result": _unroll_result}, rowwise="table")
def unroll(table: pd.DataFrame, params: UnrollParams) -> pd.DataFrame:
    """Return one row for each item of the lists; the other cells are repeated."""
    lists = table[params.column]
    filled = [isinstance(cell, Sized) and len(cell) > 0 for cell in lists]
    has_items = np.array(filled, dtype=bool)
    rows = table if params.keep_empty else table[has_items]
    unrolled = rows.reset_index(drop=True).explode(params.column)
    if params.position:
        # All items of a list have the index of its row.
        positions = unrolled.groupby(level=0).cumcount()
        if params.keep_empty:
            positions = positions.where(has_items[unrolled.index])
        unrolled[params.position] = positions
    return unrolled.reset_index(drop=True)


def _snapshot_result(read: Mapping[str, TableSchema], params: Params) -> TableSchema:
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _snapshot_result}, rowwise="table")
def snapshot(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table unchanged, to give it a name by ``outputs`` or files by ``emit``."""
    return table
