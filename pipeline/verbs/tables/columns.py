"""convert: columns in another type."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import Field

from pipeline.documents.metadata import as_text
from pipeline.registry import Params, verb
from pipeline.schemas import ANY, BOOL, FLOAT, INT, REJECTS, STRING, TableSchema
from pipeline.text import digest
from pipeline.verbs.tables.cells import distinct_cells, plain_cells
from pipeline.verbs.tables.columns import derived, plain_column, types_of

Type = Literal["text", "integer", "number", "boolean"]
TYPES: Mapping[Type, pa.DataType] = {"text": STRING, "integer": INT, "number": FLOAT, "boolean": BOOL}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_LARGEST = 2**53
"""Beyond it a float, which pandas may hold an integer in, skips integers."""


class ConvertParams(Params):
    """``columns``: name -> text, integer, number or boolean. ``invalid``: whether a row with a cell that is none is a
    reject, or has nothing in that cell."""

    columns: dict[str, Type] = Field(min_length=1)
    invalid: Literal["reject", "null"] = "reject"


def _result(read: Mapping[str, TableSchema], params: ConvertParams) -> TableSchema:
    for name in params.columns:
        plain_column(read["table"], name)
    return derived(read["table"], types_of(read["table"]) | {name: TYPES[to] for name, to in params.columns.items()})


@verb(inputs={"table": ANY}, outputs={"result": _result, "rejects": REJECTS}, rowwise="table")
def convert(table: pd.DataFrame, params: ConvertParams) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table with these types; nothing stays nothing. A text is an integer or a number as JSON writes it, a truth
    value as true/false, yes/no or 1/0. A reject is named by its column ``id``, or by a digest of the row."""
    converted = {name: _converted(table[name], _TO[to]) for name, to in params.columns.items()}
    result = table.assign(**{name: pd.Series(cells, index=table.index) for name, (cells, _) in converted.items()})
    if params.invalid == "null":
        return result, REJECTS.frame()
    lost = np.any([wrong for _, wrong in converted.values()], axis=0)
    first = [next(name for name, (_, wrong) in converted.items() if wrong[row]) for row in np.flatnonzero(lost)]
    messages = [f"column '{name}': no {params.columns[name]}; correct it, or set invalid: null" for name in first]
    rows = zip(_row_ids(table[lost]), messages, strict=True)
    return result[~lost], REJECTS.frame([("", id, "row", "parse", message) for id, message in rows])


def _converted(cells: pd.Series, to: Callable[[Any], Any]) -> tuple[np.ndarray, np.ndarray]:
    """The cells, None for what is none, and where that is so though something was there."""
    places, values = distinct_cells(cells)
    new = np.empty(len(values), dtype=object)
    new[:] = [None if value is None else to(value) for value in values]
    wrong = np.array([value is not None and cell is None for value, cell in zip(values, new, strict=True)], dtype=bool)
    return new[places], wrong[places]


def _integer(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() and abs(number) <= _LARGEST else None


def _number(value: Any) -> float | None:
    try:
        number = float(value.strip() if isinstance(value, str) and "_" not in value else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _boolean(value: Any) -> bool | None:
    return _TRUTH.get(as_text(value).lower())


_TO: Mapping[str, Callable[[Any], Any]] = {"text": as_text, "integer": _integer, "number": _number, "boolean": _boolean}


def _row_ids(table: pd.DataFrame) -> list[str]:
    if "id" in table.columns:
        return [as_text(cell) for cell in plain_cells(table["id"])]
    return [f"row-{digest(*map(repr, row))}" for row in zip(*(plain_cells(table[name]) for name in table), strict=True)]
