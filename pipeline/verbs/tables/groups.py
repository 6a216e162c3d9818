"""Verbs that combine several rows or two tables: aggregate, join."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self

import pandas as pd
import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import ANY, FLOAT, INT, TableSchema, list_of, type_name
from pipeline.verbs.tables.cells import (
    ColumnName,
    derive_schema,
    require_number,
    require_plain,
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
    # The cells are sorted and none is missing, so the first is the least.
    "min": "first",
    "max": "last",
    "first": "first",
    "last": "last",
    "list": list,
    "distinct": lambda cells: list(dict.fromkeys(cells)),
}
_EMPTY_RESULTS: Mapping[str, Callable[[], Any]] = {
    "count": int, "count_distinct": int, "sum": int, "list": list, "distinct": list,
}  # fmt: skip
"""The result for a group without cells: 0 or an empty list; that of other operations is missing."""
# No column of a table may have such a name.
_GROUP = "\0group"


class Aggregation(Params):
    """An operation over the cells of ``column``.

    ``order`` is the column by which the cells are sorted for first, last and list. Without it they
    are sorted by themselves.
    """

    operation: Operation
    column: str = ""
    order: str = ""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Check that the operation takes the column and the order. Raises ValueError if not."""
        takes_column = self.operation != "rows"
        if self.column and not takes_column:
            raise ValueError(f"{self.operation}: takes no column")
        if takes_column and not self.column:
            raise ValueError(f"{self.operation}: name a column")
        if self.order and self.operation not in ("first", "last", "list"):
            raise ValueError(f"order is for first, last and list; {self.operation} has none")
        return self


class AggregateParams(Params):
    """The groups, and the new columns.

    Rows with equal cells in the columns ``by`` are a group; without any, all rows are one group.
    ``columns`` maps a new name to an operation and its column, such as {sum: weight} or {list: id,
    order: position}; {rows: } counts rows. Operations leave out missing cells. Rows with a missing
    cell in ``by`` are a group of their own.
    """

    by: tuple[str, ...] = ()
    columns: dict[ColumnName, Aggregation] = Field(min_length=1)

    @field_validator("columns", mode="before")
    @classmethod
    def _as_operations(cls, columns: object) -> object:
        if not isinstance(columns, dict):
            return columns
        return {name: _expand_shorthand(entry) for name, entry in columns.items()}


def _expand_shorthand(entry: object) -> object:
    """Return {operation: sum, column: weight} for {sum: weight}.

    Raises ValueError if the entry has several operations or none.
    """
    if not isinstance(entry, dict) or "operation" in entry:
        return entry
    names = [name for name in entry if name != "order"]
    if len(names) != 1:
        raise ValueError("name one operation, as {sum: weight}")
    operation = names[0]
    column = entry[operation] or ""
    return {"operation": operation, "column": column, "order": entry.get("order", "")}


def _aggregate_result(read: Mapping[str, TableSchema], params: AggregateParams) -> TableSchema:
    """Return the schema of the result. Raises ValueError for columns that do not fit."""
    table = read["table"]
    for name in params.by:
        require_plain(table, name)
    both = sorted(set(params.by) & set(params.columns))
    if both:
        raise ValueError(f"columns: '{both[0]}' is in by; choose another name")
    types = types_of(table, params.by)
    for name, aggregation in params.columns.items():
        types[name] = _result_type(table, aggregation)
    return TableSchema(pa.schema(list(types.items())), params.by or tuple(types))


def _result_type(table: TableSchema, aggregation: Aggregation) -> pa.DataType:
    """Return the type of the new column. Raises ValueError for columns that do not fit."""
    operation = aggregation.operation
    if operation == "rows":
        return INT
    require_plain(table, aggregation.column)
    if aggregation.order:
        require_plain(table, aggregation.order)
    if operation in ("sum", "mean"):
        require_number(table, aggregation.column)
    if operation in ("count", "count_distinct"):
        return INT
    if operation == "mean":
        return FLOAT
    kind = type_of(table, aggregation.column)
    return list_of(kind) if operation in ("list", "distinct") else kind


@verb(inputs={"table": ANY}, outputs={"result": _aggregate_result})
def aggregate(table: pd.DataFrame, params: AggregateParams) -> pd.DataFrame:
    """Return one row for each group; no row for an empty table.

    Cells are sorted before they are added or listed, so the result does not depend on the order of
    the rows.
    """
    by = list(params.by)
    if by:
        group = table.groupby(by, dropna=False, sort=True).ngroup()
    else:
        group = pd.Series(0, index=table.index)
    numbered = table.assign(**{_GROUP: group})
    groups = numbered.drop_duplicates(_GROUP).set_index(_GROUP).sort_index()[by]
    columns: dict[str, pd.Series] = {}
    for name, aggregation in params.columns.items():
        cells = _aggregate_cells(numbered, groups.index, aggregation)
        # As objects, whole numbers stay whole beside missing cells.
        columns[name] = pd.Series(cells, groups.index, dtype=object)
    return groups.assign(**columns).reset_index(drop=True)[[*by, *columns]]


def _aggregate_cells(table: pd.DataFrame, groups: pd.Index, aggregation: Aggregation) -> list[Any]:
    """Return the result for each group. The column _GROUP of the table has the group of a row."""
    column, operation = aggregation.column, aggregation.operation
    if operation == "rows":
        return table[_GROUP].value_counts().reindex(groups).tolist()
    order = [aggregation.order, column] if aggregation.order else [column]
    # A column can be sorted by once only.
    distinct_order = list(dict.fromkeys(order))
    filled = table.dropna(subset=[column])
    ordered = filled.sort_values(distinct_order, kind="stable")
    cells_of_groups = ordered.groupby(_GROUP)[column]
    results = cells_of_groups.agg(_OPERATIONS[operation]).to_dict()
    make_empty = _EMPTY_RESULTS.get(operation, lambda: None)
    return [results[group] if group in results else make_empty() for group in groups]


class JoinTablesParams(Params):
    """The columns that partners agree in, the kind of join, and the columns that it adds.

    ``on`` is a column of both tables, several of them, or a map from a column to one of ``other``.
    ``how`` is a kind of join. inner keeps the rows that have a partner, left keeps all rows; both
    add columns. semi keeps the rows with a partner, anti those without one; they add no column.
    ``columns`` are those that are added from ``other``; by default all but those in ``on``.
    ``prefix`` is put before their names.
    """

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
        """True if the join adds columns of ``other``."""
        return self.how in ("inner", "left")

    def taken(self, other: list[str]) -> dict[str, str]:
        """Map each added column of ``other`` to its name in the result.

        ``other`` lists the columns of that table.
        """
        if not self.adds:
            return {}
        names = self.columns
        if names is None:
            names = tuple(name for name in other if name not in self.on.values())
        return {name: self.prefix + name for name in names}


def _join_result(read: Mapping[str, TableSchema], params: JoinTablesParams) -> TableSchema:
    """Return the schema of the result. Raises ValueError for columns that do not fit."""
    table, other = read["table"], read["other"]
    for left, right in params.on.items():
        require_plain(table, left)
        require_plain(other, right)
        left_type, right_type = type_of(table, left), type_of(other, right)
        if left_type != right_type:
            kinds = f"{type_name(left_type)} and {type_name(right_type)}"
            raise ValueError(f"on: '{left}' and '{right}' are {kinds}; convert one of them first")
    if not params.adds:
        return table
    added = {new: type_of(other, name) for name, new in params.taken(other.columns).items()}
    both = sorted(set(added) & set(table.columns))
    if both:
        raise ValueError(
            f"both tables have a column '{both[0]}'; set prefix, or name columns without it"
        )
    return derive_schema(table, types_of(table) | added, one_to_one=False)


@verb(inputs={"table": ANY, "other": ANY}, outputs={"result": _join_result}, rowwise="table")
def join(table: pd.DataFrame, other: pd.DataFrame, params: JoinTablesParams) -> pd.DataFrame:
    """Return each row once for every partner in ``other``: a row with equal cells in ``on``.

    A missing cell equals no other. With ``left``, the added columns of a row without a partner are
    missing. With ``semi`` and ``anti``, the rows with and without a partner are returned.
    """
    # The columns to join by get names that no column of a table may have.
    keys = [f"\0{position}" for position in range(len(params.on))]
    taken = params.taken(list(other.columns))
    candidates = other.dropna(subset=list(params.on.values()))
    right = candidates[list(taken)].rename(columns=taken)
    if params.how == "left":
        # A row without a partner leaves a gap, for which pandas would turn integers into floats.
        integers = [name for name in right.columns if right[name].dtype == "int64"]
        right = right.astype(dict.fromkeys(integers, "Int64"))
    right = right.assign(**_key_columns(keys, candidates, params.on.values()))
    left = table.assign(**_key_columns(keys, table, params.on))
    if params.adds:
        how = "left" if params.how == "left" else "inner"
        return left.merge(right, on=keys, how=how).drop(columns=keys)
    right_keys = right[keys].drop_duplicates()
    merged = left[keys].merge(right_keys, on=keys, how="left", indicator=True)
    has_partner = (merged["_merge"] == "both").to_numpy()
    return table[has_partner if params.how == "semi" else ~has_partner]


def _key_columns(
    keys: list[str], table: pd.DataFrame, columns: Iterable[str]
) -> dict[str, pd.Series]:
    """Return the columns to join by under the names ``keys``.

    Truth values become objects. In a table with a missing one they are objects already, and pandas
    merges columns of equal types only.
    """
    key_columns: dict[str, pd.Series] = {}
    for key, name in zip(keys, columns, strict=True):
        cells = table[name]
        key_columns[key] = cells.astype(object) if cells.dtype == bool else cells
    return key_columns
