"""Verbs over the rows of any table: filter, dedupe, order_by, concat, unroll, snapshot."""

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
    derived,
    distinct_cells,
    field_of,
    type_of,
    types_of,
)


class FilterRowsParams(Params):
    """``where``: column -> a value, a list of which any will do, or a mapping of operators (=, !=,
    <, <=, >, >=, in, not in, matches, exists). ``match``: whether all columns must fit or any."""

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
    """The rows that satisfy ``where``, unchanged. One left out is a choice, no reject."""
    fits = [_fits(table[column], condition) for column, condition in params.where.items()]
    return table[np.all(fits, axis=0) if params.match == "all" else np.any(fits, axis=0)]


def _fits(cells: pd.Series, condition: Mapping[str, Any]) -> np.ndarray:
    places, values = distinct_cells(cells)
    return np.array([holds({"": condition}, {"": value}) for value in values], dtype=bool)[places]


class DedupeParams(Params):
    """``by``: the columns in which rows are alike; all by default."""

    by: tuple[str, ...] = ()


def _dedupe_result(read: Mapping[str, TableSchema], params: DedupeParams) -> TableSchema:
    for name in params.by:
        field_of(read["table"], name)
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _dedupe_result})
def dedupe(table: pd.DataFrame, params: DedupeParams = DedupeParams()) -> pd.DataFrame:
    """The first of each: that with the smaller cells, columns compared from left to right, nothing
    last."""
    cells = comparable_cells(table)
    ordered = cells.sort_values(list(cells.columns), kind="stable")
    first = ordered.drop_duplicates(subset=list(params.by) or None)
    return table.iloc[first.index]


class OrderParams(Params):
    """``by``: the columns, the first first; ``descending``: those of them from the greatest down.
    ``limit``: how many rows stay; all by default."""

    by: tuple[str, ...] = Field(min_length=1)
    descending: tuple[str, ...] = ()
    limit: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if lost := [name for name in self.descending if name not in self.by]:
            raise ValueError(f"descending: '{lost[0]}' is not in by; name it there too")
        return self


def _order_by_result(read: Mapping[str, TableSchema], params: OrderParams) -> TableSchema:
    table = read["table"]
    for name in params.by:
        field_of(table, name)
    by = tuple(dict.fromkeys(params.by))
    rest = tuple(name for name in (*table.key, *table.columns) if name not in by)
    return replace(table, key=(*by, *dict.fromkeys(rest)), descending=params.descending)


@verb(inputs={"table": ANY}, outputs={"result": _order_by_result})
def order_by(table: pd.DataFrame, params: OrderParams) -> pd.DataFrame:
    """The rows, which the snapshot keeps in this order; equal ones by their other columns. Nothing
    comes last."""
    if params.limit is None:
        return table
    cells = comparable_cells(table)
    names = list(dict.fromkeys([*params.by, *table.columns]))
    ascending = [name not in params.descending for name in names]
    return table.iloc[
        cells.sort_values(names, ascending=ascending, kind="stable").index[: params.limit]
    ]


def _concat_result(read: Mapping[str, TableSchema], params: Params) -> TableSchema:
    table, other = read["table"], read["other"]
    for schema, columns in ((table, other.columns), (other, table.columns)):
        for name in columns:
            field_of(schema, name)
    for name, kind in types_of(table).items():
        if kind != (second := types_of(other)[name]):
            kinds = f"{type_name(kind)} and {type_name(second)}"
            raise ValueError(f"column '{name}' is {kinds}; convert one of them first")
    return derived(table, types_of(table), one_to_one=False)


@verb(inputs={"table": ANY, "other": ANY}, outputs={"result": _concat_result})
def concat(table: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """All rows of both; equal rows stay. The tables must have the same columns, in whatever
    order."""
    frames = [frame for frame in (table, other[list(table.columns)]) if len(frame)] or [table]
    return pd.concat(frames, ignore_index=True)


class UnrollParams(Params):
    """``column``: the lists. ``position``: the name of a column for each item's place in its list,
    from 0; none by default. ``keep_empty``: whether a row with an empty list stays, with nothing in
    the cell."""

    column: str
    position: ColumnName | Literal[""] = ""
    keep_empty: bool = False


def _unroll_result(read: Mapping[str, TableSchema], params: UnrollParams) -> TableSchema:
    table, kind = read["table"], type_of(read["table"], params.column)
    if not is_list(kind):
        raise ValueError(
            f"column '{params.column}' holds {type_name(kind)}, no lists; name one that does"
        )
    if params.position in table.columns:
        raise ValueError(
            f"position: the table has a column '{params.position}'; choose another name"
        )
    place = {params.position: INT} if params.position else {}
    return derived(
        table, types_of(table) | {params.column: kind.value_type} | place, one_to_one=False
    )


@verb(inputs={"table": ANY}, outputs={"result": _unroll_result}, rowwise="table")
def unroll(table: pd.DataFrame, params: UnrollParams) -> pd.DataFrame:
    """The table with one item of the list in each row, all else repeated."""
    filled = np.array([_filled(cell) for cell in table[params.column]], dtype=bool)
    rows = table if params.keep_empty else table[filled]
    unrolled = rows.reset_index(drop=True).explode(params.column)
    if params.position:
        places = unrolled.groupby(level=0).cumcount()
        unrolled[params.position] = (
            places.where(filled[unrolled.index]) if params.keep_empty else places
        )
    return unrolled.reset_index(drop=True)


def _filled(cell: object) -> bool:
    return isinstance(cell, Sized) and len(cell) > 0


def _snapshot_result(read: Mapping[str, TableSchema], params: Params) -> TableSchema:
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _snapshot_result}, rowwise="table")
def snapshot(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is; ``outputs`` names it, and the step's ``emit`` makes it files."""
    return table
