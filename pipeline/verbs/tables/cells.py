"""Columns and cells of a derived table: their types, and their values in Python.

A derived table keeps the key of the table that it comes from. If a column of that key is gone, or
if one row may have become several, all other columns are appended to the key. So the order of the
rows always follows from their content alone.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import Field

from pipeline.contract.cells import with_json_texts
from pipeline.contract.schemas import STRING, TableSchema, type_name
from pipeline.settings.validation import did_you_mean
from pipeline.snapshots.ranks import advise_on_missing_column

ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""A name that a verb may give to a new column."""


def field_of(schema: TableSchema, name: str) -> pa.Field:
    """Return the field of this column. Raises ValueError if the table does not have it."""
    if name not in schema.columns:
        hint = advise_on_missing_column(name, schema.columns) or did_you_mean(name, schema.columns)
        raise ValueError(f"no column '{name}'; {hint}")
    return schema.arrow.field(name)


def type_of(schema: TableSchema, name: str) -> pa.DataType:
    """Return the type of this column. Raises ValueError if the table does not have it."""
    return field_of(schema, name).type


def require_text(schema: TableSchema, name: str) -> None:
    """Check that the column holds texts. Raises ValueError if it does not."""
    kind = type_of(schema, name)
    if kind != STRING:
        raise ValueError(f"column '{name}' holds {type_name(kind)}, no text; convert it first")


def require_plain(schema: TableSchema, name: str) -> None:
    """Check that the column holds no lists and no records. Raises ValueError if it does."""
    kind = type_of(schema, name)
    if pa.types.is_nested(kind):
        raise ValueError(f"column '{name}' holds {type_name(kind)}; unroll or join its items first")


def require_number(schema: TableSchema, name: str) -> None:
    """Check that the column holds numbers. Raises ValueError if it does not."""
    kind = type_of(schema, name)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"column '{name}' holds {type_name(kind)}, no number; convert it first")


def derive_schema(
    schema: TableSchema, columns: Mapping[str, pa.DataType], *, one_to_one: bool = True
) -> TableSchema:
    """Return the schema of a table with these columns that is derived from one with ``schema``.

    The key is kept as far as its columns are. ``one_to_one`` says that no row becomes several.
    """
    key = [name for name in schema.key if name in columns]
    is_key_unique = one_to_one and len(key) == len(schema.key)
    rest = [] if is_key_unique else [name for name in columns if name not in key]
    descending = tuple(name for name in schema.descending if name in key)
    return TableSchema(pa.schema(list(columns.items())), (*key, *rest), descending)


def types_of(schema: TableSchema, names: Iterable[str] | None = None) -> dict[str, pa.DataType]:
    """Return the types of these columns by name; of all columns if ``names`` is None."""
    wanted = schema.columns if names is None else names
    return {name: type_of(schema, name) for name in wanted}


def plain(cell: Any) -> Any:
    """Return a cell as a Python value: arrays as lists, missing values and NaN as None."""
    if isinstance(cell, np.ndarray):
        return [plain(item) for item in cell.tolist()]
    if isinstance(cell, list | dict):
        return cell
    if isinstance(cell, np.generic):
        cell = cell.item()
    return None if pd.isna(cell) else cell


def plain_cells(cells: pd.Series) -> list[Any]:
    """Return the cells of a column as Python values."""
    return [plain(cell) for cell in cells.tolist()]


def distinct_cells(cells: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Return the position of each row's value, and the list of distinct values.

    Lists are not compared: each of them counts as distinct.
    """
    if _holds_lists(cells):
        return np.arange(len(cells)), plain_cells(cells)
    positions, values = pd.factorize(cells, use_na_sentinel=False)
    return positions, [plain(value) for value in values]


def comparable_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with JSON texts in place of lists, its rows numbered from 0."""
    nested = [name for name in table.columns if _holds_lists(table[name])]
    return with_json_texts(table, nested).reset_index(drop=True)


def _holds_lists(cells: pd.Series) -> bool:
    """Return whether some cells are lists, arrays or records."""
    if cells.dtype != object:
        return False
    return any(isinstance(cell, np.ndarray | list | dict) for cell in cells)
