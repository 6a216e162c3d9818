"""Columns of a derived table: whether they are there, of which type, and in which order its rows are kept.

A derived table keeps the key of the table it comes from. Where a column of the key is gone, or one row may have become
several, all other columns follow in the key, so that the order of the rows is a matter of their content alone.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

import pyarrow as pa
from pydantic import Field

from pipeline.schemas import STRING, TableSchema, type_name
from pipeline.validation import did_you_mean

ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""Of a column that a verb makes."""


def field_of(schema: TableSchema, name: str) -> pa.Field:
    """Raises ValueError for a column that the table has not."""
    if name not in schema.columns:
        raise ValueError(f"no column '{name}'; {did_you_mean(name, schema.columns)}")
    return schema.arrow.field(name)


def type_of(schema: TableSchema, name: str) -> pa.DataType:
    return field_of(schema, name).type


def text_column(schema: TableSchema, name: str) -> None:
    """Raises ValueError unless the column holds texts."""
    if type_of(schema, name) != STRING:
        raise ValueError(f"column '{name}' holds {type_name(type_of(schema, name))}, no text; convert it first")


def plain_column(schema: TableSchema, name: str) -> None:
    """Raises ValueError for a column of lists or records."""
    if pa.types.is_nested(type_of(schema, name)):
        raise ValueError(f"column '{name}' holds {type_name(type_of(schema, name))}; unroll or join its items first")


def number_column(schema: TableSchema, name: str) -> None:
    """Raises ValueError unless the column holds numbers."""
    kind = type_of(schema, name)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"column '{name}' holds {type_name(kind)}, no number; convert it first")


def derived(schema: TableSchema, columns: Mapping[str, pa.DataType], *, one_to_one: bool = True) -> TableSchema:
    """The schema of what comes of the table: these columns, the key kept as far as it can be. ``one_to_one``: no row
    becomes two."""
    key = [name for name in schema.key if name in columns]
    whole = one_to_one and len(key) == len(schema.key)
    rest = [] if whole else [name for name in columns if name not in key]
    descending = tuple(name for name in schema.descending if name in key)
    return TableSchema(pa.schema(list(columns.items())), (*key, *rest), descending)


def types_of(schema: TableSchema, names: Iterable[str] | None = None) -> dict[str, pa.DataType]:
    """Column -> type, of all columns or of some."""
    return {name: type_of(schema, name) for name in (schema.columns if names is None else names)}
