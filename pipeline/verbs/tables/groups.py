"""Verbs over several rows or tables: aggregate, join."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self

import pandas as pd
import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import ANY, FLOAT, INT, TableSchema, list_of, type_name
from pipeline.verbs.tables.cells import (
    ColumnName,
    derived,
    number_column,
    plain_column,
    type_of,
    types_of,
)

Operation = Literal[
    "rows",
    "count",
    "count_distinct",
    "sum",
    "mean",
    "min",
    "max",
    "first",
    "last",
    "list",
    "distinct",
]
_OPERATIONS: Mapping[str, str | Callable[[pd.Series], Any]] = {
    "count": "count",
    "count_distinct": "nunique",
    "sum": "sum",
    "mean": "mean",
    "min": "first",  # cells are in order, and none is missing
    "max": "last",
    "first": "first",
    "last": "last",
    "list": list,
    "distinct": lambda cells: list(dict.fromkeys(cells)),
}
_OF_NOTHING: Mapping[str, Callable[[], Any]] = {
    "count": int, "count_distinct": int, "sum": int, "list": list, "distinct": list,
}  # fmt: skip
_GROUP = "\0group"


class Aggregation(Params):
    """``operation`` over ``column``; ``order``: the column by which first, last and list go, else
    the cells' own."""

    operation: Operation
    column: str = ""
    order: str = ""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.operation == "rows") == bool(self.column):
            raise ValueError(
                f"{self.operation}: " + ("takes no column" if self.column else "name a column")
            )
        if self.order and self.operation not in ("first", "last", "list"):
            raise ValueError(f"order is for first, last and list; {self.operation} has none")
        return self


class AggregateParams(Params):
    """``by``: the columns whose cells make a group; without any, all rows are one. ``columns``:
    name -> an operation and its column, as {sum: weight}, or {list: id, order: position}; {rows: }
    counts rows. Missing cells are left out of all operations, and make a group of their own."""

    by: tuple[str, ...] = ()
    columns: dict[ColumnName, Aggregation] = Field(min_length=1)

    @field_validator("columns", mode="before")
    @classmethod
    def _as_operations(cls, columns: object) -> object:
        if not isinstance(columns, dict):
            return columns
        return {name: _written_short(entry) for name, entry in columns.items()}


def _written_short(entry: object) -> object:
    """{sum: weight} as {operation: sum, column: weight}."""
    if not isinstance(entry, dict) or "operation" in entry:
        return entry
    names = [name for name in entry if name != "order"]
    if len(names) != 1:
        raise ValueError("name one operation, as {sum: weight}")
    return {"operation": names[0], "column": entry[names[0]] or "", "order": entry.get("order", "")}


def _aggregate_result(read: Mapping[str, TableSchema], params: AggregateParams) -> TableSchema:
    table = read["table"]
    for name in params.by:
        plain_column(table, name)
    if both := sorted(set(params.by) & set(params.columns)):
        raise ValueError(f"columns: '{both[0]}' is in by; choose another name")
    types = types_of(table, params.by) | {
        name: _type(table, aggregation) for name, aggregation in params.columns.items()
    }
    return TableSchema(pa.schema(list(types.items())), params.by or tuple(types))


def _type(table: TableSchema, aggregation: Aggregation) -> pa.DataType:
    operation = aggregation.operation
    if operation == "rows":
        return INT
    plain_column(table, aggregation.column)
    if aggregation.order:
        plain_column(table, aggregation.order)
    if operation in ("sum", "mean"):
        number_column(table, aggregation.column)
    if operation in ("count", "count_distinct"):
        return INT
    if operation == "mean":
        return FLOAT
    kind = type_of(table, aggregation.column)
    return list_of(kind) if operation in ("list", "distinct") else kind


@verb(inputs={"table": ANY}, outputs={"result": _aggregate_result})
def aggregate(table: pd.DataFrame, params: AggregateParams) -> pd.DataFrame:
    """A row a group; of no rows none. Cells are added and listed in an order that they fix
    themselves, so that that of the rows cannot be seen."""
    by = list(params.by)
    group = (
        table.groupby(by, dropna=False, sort=True).ngroup()
        if by
        else pd.Series(0, index=table.index)
    )
    numbered = table.assign(**{_GROUP: group})
    groups = numbered.drop_duplicates(_GROUP).set_index(_GROUP).sort_index()[by]
    made = {
        name: _aggregated(numbered, groups.index, entry) for name, entry in params.columns.items()
    }
    columns = {
        name: pd.Series(cells, groups.index, dtype=object) for name, cells in made.items()
    }  # whole beside gaps
    return groups.assign(**columns).reset_index(drop=True)[[*by, *columns]]


def _aggregated(table: pd.DataFrame, groups: pd.Index, aggregation: Aggregation) -> list[Any]:
    """A cell for each group."""
    if aggregation.operation == "rows":
        return table[_GROUP].value_counts().reindex(groups).tolist()
    names = list(dict.fromkeys(filter(None, [aggregation.order, aggregation.column])))
    ordered = table.dropna(subset=[aggregation.column]).sort_values(names, kind="stable")
    cells = (
        ordered.groupby(_GROUP)[aggregation.column]
        .agg(_OPERATIONS[aggregation.operation])
        .to_dict()
    )
    nothing = _OF_NOTHING.get(aggregation.operation, lambda: None)
    return [cells[group] if group in cells else nothing() for group in groups]


class JoinTablesParams(Params):
    """``on``: a column of both tables, several, or column -> column of ``other``. ``how``: inner
    keeps the rows that have a partner, left keeps all, semi and anti keep those with and without
    one and add no column. ``columns``: what is taken of ``other`` (all but ``on`` by default);
    ``prefix``: put before their names."""

    on: dict[str, str] = Field(min_length=1)
    how: Literal["inner", "left", "semi", "anti"] = "inner"
    columns: tuple[str, ...] | None = None
    prefix: ColumnName | Literal[""] = ""

    @field_validator("on", mode="before")
    @classmethod
    def _as_pairs(cls, on: object) -> object:
        if isinstance(on, str):
            return {on: on}
        return {name: name for name in on} if isinstance(on, list | tuple) else on

    @property
    def adds(self) -> bool:
        return self.how in ("inner", "left")

    def taken(self, other: list[str]) -> dict[str, str]:
        """Column of ``other`` -> its name in the result."""
        names = (
            [name for name in other if name not in self.on.values()]
            if self.columns is None
            else self.columns
        )
        return {name: self.prefix + name for name in names} if self.adds else {}


def _join_result(read: Mapping[str, TableSchema], params: JoinTablesParams) -> TableSchema:
    table, other = read["table"], read["other"]
    for left, right in params.on.items():
        plain_column(table, left)
        plain_column(other, right)
        if type_of(table, left) != type_of(other, right):
            kinds = f"{type_name(type_of(table, left))} and {type_name(type_of(other, right))}"
            raise ValueError(f"on: '{left}' and '{right}' are {kinds}; convert one of them first")
    if not params.adds:
        return table
    added = {new: type_of(other, name) for name, new in params.taken(other.columns).items()}
    if both := sorted(set(added) & set(table.columns)):
        raise ValueError(
            f"both tables have a column '{both[0]}'; set prefix, or name columns without it"
        )
    return derived(table, types_of(table) | added, one_to_one=False)


@verb(inputs={"table": ANY, "other": ANY}, outputs={"result": _join_result}, rowwise="table")
def join(table: pd.DataFrame, other: pd.DataFrame, params: JoinTablesParams) -> pd.DataFrame:
    """Each row once for every partner it has in ``other``. A missing cell is equal to none. With
    ``left`` a row without a partner has nothing in the columns that are added."""
    keys = [f"\0{place}" for place in range(len(params.on))]  # names that no column has
    taken = params.taken(list(other.columns))
    there = other.dropna(subset=list(params.on.values()))
    right = there[list(taken)].rename(columns=taken)
    if (
        params.how == "left"
    ):  # a row without a partner leaves a gap, for which floats would be made of whole numbers
        right = right.astype(
            {name: "Int64" for name in right.columns if right[name].dtype == "int64"}
        )
    right = right.assign(**_keyed(keys, there, params.on.values()))
    left = table.assign(**_keyed(keys, table, params.on))
    if params.adds:
        return left.merge(right, on=keys, how="left" if params.how == "left" else "inner").drop(
            columns=keys
        )
    partners = (
        left[keys].merge(right[keys].drop_duplicates(), on=keys, how="left", indicator=True)[
            "_merge"
        ]
        == "both"
    )
    return table[(partners if params.how == "semi" else ~partners).to_numpy()]


def _keyed(keys: list[str], table: pd.DataFrame, columns: Iterable[str]) -> dict[str, pd.Series]:
    """Truth values as objects: with one missing they are so in one of the tables already."""
    cells = [table[name] for name in columns]
    return {
        key: cell.astype(object) if cell.dtype == bool else cell
        for key, cell in zip(keys, cells, strict=True)
    }
