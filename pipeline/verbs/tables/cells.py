"""Columns and cells of a derived table: of which type they are, and as Python has them.

A derived table keeps the key of the table it comes from. Where a column of the key is gone, or one
row may have become several, all other columns follow in the key, so that the order of the rows is a
matter of their content alone.
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
from pipeline.snapshots.ranks import told_of_missing

ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""Of a column that a verb makes."""


def field_of(schema: TableSchema, name: str) -> pa.Field:
    """Raises ValueError for a column that the table has not."""
    if name not in schema.columns:
        told = told_of_missing(name, schema.columns) or did_you_mean(name, schema.columns)
        raise ValueError(f"no column '{name}'; {told}")
    return schema.arrow.field(name)


def type_of(schema: TableSchema, name: str) -> pa.DataType:
    return field_of(schema, name).type


def text_column(schema: TableSchema, name: str) -> None:
    """Raises ValueError unless the column holds texts."""
    if type_of(schema, name) != STRING:
        raise ValueError(
            f"column '{name}' holds {type_name(type_of(schema, name))}, no text; convert it first"
        )


def plain_column(schema: TableSchema, name: str) -> None:
    """Raises ValueError for a column of lists or records."""
    if pa.types.is_nested(type_of(schema, name)):
        raise ValueError(
            f"column '{name}' holds {type_name(type_of(schema, name))}; unroll or join its items"
            " first"
        )


def number_column(schema: TableSchema, name: str) -> None:
    """Raises ValueError unless the column holds numbers."""
    kind = type_of(schema, name)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"column '{name}' holds {type_name(kind)}, no number; convert it first")


def derived(
    schema: TableSchema, columns: Mapping[str, pa.DataType], *, one_to_one: bool = True
) -> TableSchema:
    """The schema of what comes of the table: these columns, the key kept as far as it can be.
    ``one_to_one``: no row becomes two."""
    key = [name for name in schema.key if name in columns]
    whole = one_to_one and len(key) == len(schema.key)
    rest = [] if whole else [name for name in columns if name not in key]
    descending = tuple(name for name in schema.descending if name in key)
    return TableSchema(pa.schema(list(columns.items())), (*key, *rest), descending)


def types_of(schema: TableSchema, names: Iterable[str] | None = None) -> dict[str, pa.DataType]:
    """Column -> type, of all columns or of some."""
    return {name: type_of(schema, name) for name in (schema.columns if names is None else names)}


def plain(cell: Any) -> Any:
    """A cell without numpy's types: lists for arrays, None for what is missing, a number that is
    NaN too."""
    if isinstance(cell, np.ndarray):
        return [plain(item) for item in cell.tolist()]
    if isinstance(cell, list | dict):
        return cell
    if isinstance(cell, np.generic):
        cell = cell.item()
    return None if pd.isna(cell) else cell


def plain_cells(cells: pd.Series) -> list[Any]:
    return [plain(cell) for cell in cells.tolist()]


def distinct_cells(cells: pd.Series) -> tuple[np.ndarray, list[Any]]:
    """Each different cell once, and for each row which of them it has; lists are not compared."""
    if _holds_lists(cells):
        return np.arange(len(cells)), plain_cells(cells)
    places, values = pd.factorize(cells, use_na_sentinel=False)
    return places, [plain(value) for value in values]


def comparable_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a text in place of every list, its rows numbered from 0."""
    nested = [name for name in table.columns if _holds_lists(table[name])]
    return with_json_texts(table, nested).reset_index(drop=True)


def _holds_lists(cells: pd.Series) -> bool:
    return cells.dtype == object and any(
        isinstance(cell, np.ndarray | list | dict) for cell in cells
    )
