"""Verbs on the columns of any table: select, drop, rename, convert, replace_text, derive."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
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
    derive_schema,
    distinct_cells,
    field_of,
    plain_cells,
    require_plain,
    require_text,
    types_of,
)
from pipeline.verbs.tables.operations import (
    EXACT,
    LARGEST,
    Operation,
    cells_of,
    expand_shorthand,
    type_made,
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
    """``columns`` are the columns to keep."""

    columns: tuple[str, ...] = Field(min_length=1)


def _select_result(read: Mapping[str, TableSchema], params: SelectColumnsParams) -> TableSchema:
    table = read["table"]
    return derive_schema(table, types_of(table, params.columns))


@verb(inputs={"table": ANY}, outputs={"result": _select_result}, rowwise="table")
def select(table: pd.DataFrame, params: SelectColumnsParams) -> pd.DataFrame:
    """Return the table with these columns only; equal rows are kept."""
    return table[list(dict.fromkeys(params.columns))]


class DropParams(Params):
    """``columns`` are the columns to remove."""

    columns: tuple[str, ...] = Field(min_length=1)


def _drop_result(read: Mapping[str, TableSchema], params: DropParams) -> TableSchema:
    """Return the schema of the result. Raises ValueError if no column would be left."""
    table = read["table"]
    for name in params.columns:
        field_of(table, name)
    kept = [name for name in table.columns if name not in params.columns]
    if not kept:
        raise ValueError("columns: no column would be left; keep one")
    return derive_schema(table, types_of(table, kept))


@verb(inputs={"table": ANY}, outputs={"result": _drop_result}, rowwise="table")
def drop(table: pd.DataFrame, params: DropParams) -> pd.DataFrame:
    """Return the table without these columns; equal rows are kept."""
    return table.drop(columns=list(params.columns))


class RenameParams(Params):
    """``columns`` maps a name to its new name."""

    columns: dict[str, ColumnName] = Field(min_length=1)


def _rename_result(read: Mapping[str, TableSchema], params: RenameParams) -> TableSchema:
    """Return the schema of the result. Raises ValueError if two columns would have one name."""
    table, new = read["table"], params.columns
    for name in new:
        field_of(table, name)
    names = [new.get(name, name) for name in table.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"columns: two would be called '{twice[0]}'; choose another name, or drop one first"
        )
    fields = list(zip(names, table.arrow.types, strict=True))
    key = tuple(new.get(name, name) for name in table.key)
    descending = tuple(new.get(name, name) for name in table.descending)
    return replace(table, arrow=pa.schema(fields), key=key, descending=descending)


@verb(inputs={"table": ANY}, outputs={"result": _rename_result}, rowwise="table")
def rename(table: pd.DataFrame, params: RenameParams) -> pd.DataFrame:
    """Return the table with the new names; its rows keep their order."""
    return table.rename(columns=params.columns)


class ConvertParams(Params):
    """``columns`` maps a name to text, integer, number or boolean.

    ``invalid`` says what happens to a cell that cannot be converted: its row becomes a reject, or
    the cell is missing.
    """

    columns: dict[str, Type] = Field(min_length=1)
    invalid: Literal["reject", "null"] = "reject"


def _convert_result(read: Mapping[str, TableSchema], params: ConvertParams) -> TableSchema:
    """Return the schema of the result. Raises ValueError for columns of lists or records."""
    table = read["table"]
    for name in params.columns:
        require_plain(table, name)
    types = types_of(table)
    for name, to in params.columns.items():
        types[name] = TYPES[to]
    return derive_schema(table, types)


@verb(
    inputs={"table": ANY}, outputs={"result": _convert_result, "rejects": REJECTS}, rowwise="table"
)
def convert(table: pd.DataFrame, params: ConvertParams) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table with these types, and rejects. Missing cells stay missing.

    A text becomes an integer or a number if it is written as in JSON. It becomes a truth value if
    it is true or false, yes or no, 1 or 0. A reject has the ``id`` of the row, or a digest of the
    row if there is no such column.
    """
    new_columns: dict[str, pd.Series] = {}
    wrong_cells: dict[str, np.ndarray] = {}
    for name, to in params.columns.items():
        cells, wrong_cells[name] = _convert_cells(table[name], _CONVERTERS[to])
        new_columns[name] = pd.Series(cells, index=table.index)
    result = table.assign(**new_columns)
    if params.invalid == "null":
        return result, REJECTS.frame()
    is_rejected = np.any(list(wrong_cells.values()), axis=0)
    rejected_rows = np.flatnonzero(is_rejected)
    row_ids = _make_row_ids(table[is_rejected])
    rejects: list[tuple[str, ...]] = []
    for row, id in zip(rejected_rows, row_ids, strict=True):
        # The first column with a fault stands for all.
        column = next(name for name, is_wrong in wrong_cells.items() if is_wrong[row])
        kind = params.columns[column]
        message = f"column '{column}': no {kind}; correct it, or set invalid: null"
        rejects.append(("", id, "row", "parse", message))
    return result[~is_rejected], REJECTS.frame(rejects)


def _convert_cells(
    cells: pd.Series, convert: Callable[[Any], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the converted cells, and which of them could not be converted.

    These become None, as missing cells do. Each distinct value is converted once.
    """
    positions, values = distinct_cells(cells)
    new = np.empty(len(values), dtype=object)
    is_wrong = np.zeros(len(values), dtype=bool)
    for position, value in enumerate(values):
        if value is not None:
            new[position] = convert(value)
            is_wrong[position] = new[position] is None
    return new[positions], is_wrong[positions]


# The next functions convert a cell. They return None if it cannot be converted.


def _to_integer(value: Any) -> int | None:
    if isinstance(value, int) or (isinstance(value, str) and _WHOLE.fullmatch(value)):
        whole = int(value)
        return whole if -LARGEST <= whole < LARGEST else None
    number = _to_number(value)
    # A larger float stands for several integers.
    if number is None or not number.is_integer() or abs(number) > EXACT:
        return None
    return int(number)


def _to_number(value: Any) -> float | None:
    # float() would read "1_000" as 1000, which no table of numbers means.
    if isinstance(value, str) and "_" in value:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _to_boolean(value: Any) -> bool | None:
    return _TRUTH.get(as_text(value).lower())


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "text": as_text,
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
}


def _make_row_ids(table: pd.DataFrame) -> list[str]:
    """Return an id for each row: its ``id``, or a digest of its cells."""
    if "id" in table.columns:
        return [as_text(cell) for cell in plain_cells(table["id"])]
    columns = [plain_cells(table[name]) for name in table]
    ids: list[str] = []
    for cells in zip(*columns, strict=True):
        texts = map(repr, cells)
        ids.append(f"row-{digest(*texts)}")
    return ids


class Replacement(Params):
    """``find`` is replaced by ``put``.

    With ``regex``, find is a regular expression of Python's re, and put is a template for it.
    """

    find: str = Field(min_length=1)
    put: str = ""
    regex: bool = False

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        """Check the regular expression and its template. Raises ValueError if they are invalid."""
        if not self.regex:
            return self
        try:
            # A substitution checks the template, too.
            re.sub(self.find, self.put, "")
        except (re.error, IndexError) as error:
            raise ValueError(
                f"no regular expression and template ({error}); correct them"
            ) from error
        return self


class ReplaceParams(Params):
    """``columns`` are those whose texts change; ``replace`` has the replacements, in order."""

    columns: tuple[str, ...] = Field(min_length=1)
    replace: tuple[Replacement, ...] = Field(min_length=1)


def _replace_text_result(read: Mapping[str, TableSchema], params: ReplaceParams) -> TableSchema:
    for name in params.columns:
        require_text(read["table"], name)
    return read["table"]


@verb(inputs={"table": ANY}, outputs={"result": _replace_text_result}, rowwise="table")
def replace_text(table: pd.DataFrame, params: ReplaceParams) -> pd.DataFrame:
    """Return the table with the replacements made in every text of the columns.

    Each replacement works on the result of the one before. Missing cells stay missing.
    """

    def replace_all(text: str) -> str:
        for entry in params.replace:
            if entry.regex:
                text = re.sub(entry.find, entry.put, text)
            else:
                text = text.replace(entry.find, entry.put)
        return text

    new_columns = {
        name: table[name].map(replace_all, na_action="ignore") for name in params.columns
    }
    return table.assign(**new_columns)


class DeriveParams(Params):
    """``columns`` maps the name of a new column to an operation and its operands.

    Examples are {lower: name} and {concat: [name, description], separator: " "}; operations.py
    lists the operations. All of them read the table as it was. A new column may replace an old one.
    """

    columns: dict[ColumnName, Annotated[Operation, BeforeValidator(expand_shorthand)]] = Field(
        min_length=1
    )


def _derive_result(read: Mapping[str, TableSchema], params: DeriveParams) -> TableSchema:
    """Return the schema of the result. Raises ValueError for operands that do not fit."""
    table = read["table"]
    types = types_of(table)
    for name, operation in params.columns.items():
        types[name] = type_made(operation, table)
    return derive_schema(table, types)


@verb(inputs={"table": ANY}, outputs={"result": _derive_result}, rowwise="table")
def derive(table: pd.DataFrame, params: DeriveParams) -> pd.DataFrame:
    """Return the table with the new columns.

    If an operand is missing, so is the result, except for operations that accept missing operands.
    """
    new_columns = {
        name: pd.Series(cells_of(operation, table), table.index, dtype=object)
        for name, operation in params.columns.items()
    }
    return table.assign(**new_columns)
