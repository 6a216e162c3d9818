"""Verbs over the columns of any table: select, drop, rename, convert, replace_text, derive."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import BeforeValidator, Field, model_validator

from pipeline.contract.conditions import as_text
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import ANY, BOOL, FLOAT, INT, REJECTS, STRING, TableSchema
from pipeline.text.ids import digest
from pipeline.verbs.tables.cells import (
    ColumnName,
    derived,
    distinct_cells,
    field_of,
    plain_cells,
    plain_column,
    text_column,
    types_of,
)
from pipeline.verbs.tables.operations import (
    EXACT,
    LARGEST,
    Operation,
    cells_of,
    type_made,
    written_short,
)

Type = Literal["text", "integer", "number", "boolean"]
TYPES: Mapping[Type, pa.DataType] = {
    "text": STRING,
    "integer": INT,
    "number": FLOAT,
    "boolean": BOOL,
}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_WHOLE = re.compile(r"\s*[+-]?\d{1,30}\s*")


class SelectColumnsParams(Params):
    """``columns``: those to keep."""

    columns: tuple[str, ...] = Field(min_length=1)


def _select_result(read: Mapping[str, TableSchema], params: SelectColumnsParams) -> TableSchema:
    return derived(read["table"], types_of(read["table"], params.columns))


@verb(inputs={"table": ANY}, outputs={"result": _select_result}, rowwise="table")
def select(table: pd.DataFrame, params: SelectColumnsParams) -> pd.DataFrame:
    """The table with these columns alone; equal rows stay."""
    return table[list(dict.fromkeys(params.columns))]


class DropParams(Params):
    """``columns``: those to leave out."""

    columns: tuple[str, ...] = Field(min_length=1)


def _drop_result(read: Mapping[str, TableSchema], params: DropParams) -> TableSchema:
    for name in params.columns:
        field_of(read["table"], name)
    kept = [name for name in read["table"].columns if name not in params.columns]
    if not kept:
        raise ValueError("columns: no column would be left; keep one")
    return derived(read["table"], types_of(read["table"], kept))


@verb(inputs={"table": ANY}, outputs={"result": _drop_result}, rowwise="table")
def drop(table: pd.DataFrame, params: DropParams) -> pd.DataFrame:
    """The table without these columns; equal rows stay."""
    return table.drop(columns=list(params.columns))


class RenameParams(Params):
    """``columns``: name -> new name."""

    columns: dict[str, ColumnName] = Field(min_length=1)


def _rename_result(read: Mapping[str, TableSchema], params: RenameParams) -> TableSchema:
    table, new = read["table"], params.columns
    for name in new:
        field_of(table, name)
    names = [new.get(name, name) for name in table.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"columns: two would be called '{twice[0]}'; choose another name, or drop one first"
        )
    return replace(
        table,
        arrow=pa.schema(list(zip(names, table.arrow.types, strict=True))),
        key=tuple(new.get(name, name) for name in table.key),
        descending=tuple(new.get(name, name) for name in table.descending),
    )


@verb(inputs={"table": ANY}, outputs={"result": _rename_result}, rowwise="table")
def rename(table: pd.DataFrame, params: RenameParams) -> pd.DataFrame:
    """The table with the new names; its rows keep their order."""
    return table.rename(columns=params.columns)


class ConvertParams(Params):
    """``columns``: name -> text, integer, number or boolean. ``invalid``: whether a row with a cell
    that is none is a reject, or has nothing in that cell."""

    columns: dict[str, Type] = Field(min_length=1)
    invalid: Literal["reject", "null"] = "reject"


def _convert_result(read: Mapping[str, TableSchema], params: ConvertParams) -> TableSchema:
    for name in params.columns:
        plain_column(read["table"], name)
    return derived(
        read["table"],
        types_of(read["table"]) | {name: TYPES[to] for name, to in params.columns.items()},
    )


@verb(
    inputs={"table": ANY}, outputs={"result": _convert_result, "rejects": REJECTS}, rowwise="table"
)
def convert(table: pd.DataFrame, params: ConvertParams) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table with these types; nothing stays nothing. A text is an integer or a number as JSON
    writes it, a truth value as true/false, yes/no or 1/0. A reject is named by its column ``id``,
    or by a digest of the row."""
    converted = {name: _converted(table[name], _TO[to]) for name, to in params.columns.items()}
    result = table.assign(
        **{name: pd.Series(cells, index=table.index) for name, (cells, _) in converted.items()}
    )
    if params.invalid == "null":
        return result, REJECTS.frame()
    lost = np.any([wrong for _, wrong in converted.values()], axis=0)
    first = [
        next(name for name, (_, wrong) in converted.items() if wrong[row])
        for row in np.flatnonzero(lost)
    ]
    messages = [
        f"column '{name}': no {params.columns[name]}; correct it, or set invalid: null"
        for name in first
    ]
    rows = zip(_row_ids(table[lost]), messages, strict=True)
    return result[~lost], REJECTS.frame([("", id, "row", "parse", message) for id, message in rows])


def _converted(cells: pd.Series, to: Callable[[Any], Any]) -> tuple[np.ndarray, np.ndarray]:
    """The cells, None for what is none, and where that is so though something was there."""
    places, values = distinct_cells(cells)
    new = np.empty(len(values), dtype=object)
    new[:] = [None if value is None else to(value) for value in values]
    wrong = np.array(
        [value is not None and cell is None for value, cell in zip(values, new, strict=True)],
        dtype=bool,
    )
    return new[places], wrong[places]


def _integer(value: Any) -> int | None:
    if isinstance(value, int) or (isinstance(value, str) and _WHOLE.fullmatch(value)):
        whole = int(value)
        return whole if -LARGEST <= whole < LARGEST else None
    number = _number(value)
    return (
        int(number) if number is not None and number.is_integer() and abs(number) <= EXACT else None
    )


def _number(value: Any) -> float | None:
    try:
        number = float(value.strip() if isinstance(value, str) and "_" not in value else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _boolean(value: Any) -> bool | None:
    return _TRUTH.get(as_text(value).lower())


_TO: Mapping[str, Callable[[Any], Any]] = {
    "text": as_text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}


def _row_ids(table: pd.DataFrame) -> list[str]:
    if "id" in table.columns:
        return [as_text(cell) for cell in plain_cells(table["id"])]
    return [
        f"row-{digest(*map(repr, row))}"
        for row in zip(*(plain_cells(table[name]) for name in table), strict=True)
    ]


class Replacement(Params):
    """``find`` becomes ``put``; ``regex``: find is a regular expression of Python's re, put its
    template."""

    find: str = Field(min_length=1)
    put: str = ""
    regex: bool = False

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            re.sub(self.find if self.regex else "", self.put if self.regex else "", "")
            if self.regex:
                re.compile(self.find)
        except (re.error, IndexError) as error:
            raise ValueError(
                f"no regular expression and template ({error}); correct them"
            ) from error
        return self


class ReplaceParams(Params):
    """``columns``: those whose texts change; ``replace``: what becomes what, one after the
    other."""

    columns: tuple[str, ...] = Field(min_length=1)
    replace: tuple[Replacement, ...] = Field(min_length=1)


def _replace_text_result(read: Mapping[str, TableSchema], params: ReplaceParams) -> TableSchema:
    for name in params.columns:
        text_column(read["table"], name)
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _replace_text_result}, rowwise="table")
def replace_text(table: pd.DataFrame, params: ReplaceParams) -> pd.DataFrame:
    """The table with these texts replaced in every place; nothing stays nothing."""

    def replaced(text: str) -> str:
        return reduce(_replaced, params.replace, text)

    return table.assign(
        **{name: table[name].map(replaced, na_action="ignore") for name in params.columns}
    )


def _replaced(text: str, entry: Replacement) -> str:
    return (
        re.sub(entry.find, entry.put, text) if entry.regex else text.replace(entry.find, entry.put)
    )


class DeriveParams(Params):
    """``columns``: name -> one of the operations in operations.py and what it takes, as {lower:
    name}, or {concat: [name, description], separator: " "}. All read the table as it was; a new
    column may replace one of it."""

    columns: dict[ColumnName, Annotated[Operation, BeforeValidator(written_short)]] = Field(
        min_length=1
    )


def _derive_result(read: Mapping[str, TableSchema], params: DeriveParams) -> TableSchema:
    table = read["table"]
    return derived(
        table,
        types_of(table) | {name: type_made(entry, table) for name, entry in params.columns.items()},
    )


@verb(inputs={"table": ANY}, outputs={"result": _derive_result}, rowwise="table")
def derive(table: pd.DataFrame, params: DeriveParams) -> pd.DataFrame:
    """The table and the new columns. Where an operand is missing, so is the result, unless the
    operation says else."""
    made = {name: cells_of(entry, table) for name, entry in params.columns.items()}
    return table.assign(
        **{name: pd.Series(cells, table.index, dtype=object) for name, cells in made.items()}
    )
