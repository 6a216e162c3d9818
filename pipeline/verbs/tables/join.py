"""join: the columns of another table beside those of a table."""

from collections.abc import Iterable, Mapping
from typing import Literal

import pandas as pd
from pydantic import Field, field_validator

from pipeline.registry import Params, verb
from pipeline.schemas import ANY, TableSchema, type_name
from pipeline.verbs.tables.columns import ColumnName, derived, plain_column, type_of, types_of


class JoinTablesParams(Params):
    """``on``: a column of both tables, several, or column -> column of ``other``. ``how``: inner keeps the rows that
    have a partner, left keeps all, semi and anti keep those with and without one and add no column. ``columns``: what
    is taken of ``other`` (all but ``on`` by default); ``prefix``: put before their names."""

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
        names = [name for name in other if name not in self.on.values()] if self.columns is None else self.columns
        return {name: self.prefix + name for name in names} if self.adds else {}


def _result(read: Mapping[str, TableSchema], params: JoinTablesParams) -> TableSchema:
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
        raise ValueError(f"both tables have a column '{both[0]}'; set prefix, or name columns without it")
    return derived(table, types_of(table) | added, one_to_one=False)


@verb(inputs={"table": ANY, "other": ANY}, outputs={"result": _result}, rowwise="table")
def join(table: pd.DataFrame, other: pd.DataFrame, params: JoinTablesParams) -> pd.DataFrame:
    """Each row once for every partner it has in ``other``. A missing cell is equal to none. With ``left`` a row
    without a partner has nothing in the columns that are added."""
    keys = [f"\0{place}" for place in range(len(params.on))]  # names that no column has
    taken = params.taken(list(other.columns))
    there = other.dropna(subset=list(params.on.values()))
    right = there[list(taken)].rename(columns=taken)
    right = right.assign(**_keyed(keys, there, params.on.values()))
    left = table.assign(**_keyed(keys, table, params.on))
    if params.adds:
        return left.merge(right, on=keys, how="left" if params.how == "left" else "inner").drop(columns=keys)
    partners = left[keys].merge(right[keys].drop_duplicates(), on=keys, how="left", indicator=True)["_merge"] == "both"
    return table[(partners if params.how == "semi" else ~partners).to_numpy()]


def _keyed(keys: list[str], table: pd.DataFrame, columns: Iterable[str]) -> dict[str, pd.Series]:
    """Truth values as objects: with one missing they are so in one of the tables already."""
    cells = [table[name] for name in columns]
    return {key: cell.astype(object) if cell.dtype == bool else cell for key, cell in zip(keys, cells, strict=True)}
