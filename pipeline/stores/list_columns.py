"""Helpers for data frames with columns of lists, in Arrow or in Python.

Rows on their way from a snapshot to a store keep lists in Arrow: to make a Python object for each
cell costs more than everything else that is done to it. Rows that a store returns have Python lists
and numpy arrays.
"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import is_list, is_text

# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Convert a table to pandas; columns of lists stay in Arrow."""
    return table.combine_chunks().to_pandas(types_mapper=_pandas_type)


def _pandas_type(type: pa.DataType) -> Any:
    """Return the pandas type that keeps a list in Arrow; None, the default, for other types."""
    return pd.ArrowDtype(type) if is_list(type) else None


def in_arrow(column: pd.Series) -> bool:
    """Return whether the cells of the column are in Arrow."""
    return isinstance(column.dtype, pd.ArrowDtype)


def is_texts(column: pd.Series) -> bool:
    """Return whether the lists of a column in Arrow hold texts."""
    return is_text(to_arrow(column.iloc[:0]).type.value_type)


def to_arrow(column: pd.Series, type: pa.DataType | None = None) -> pa.Array:
    """Return the column as one Arrow array without chunks, of ``type`` if it is given."""
    if in_arrow(column):
        found = pa.array(column, from_pandas=True)
    else:
        found = pa.array(column, type, from_pandas=True)
    chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    if type is not None:
        # Where some chunks are empty, chunks of texts may be of both types of texts.
        chunks = [chunk if chunk.type == type else chunk.cast(type) for chunk in chunks]
    if not chunks:
        return pa.array([], type or found.type)
    # Concatenation would copy a single chunk.
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def values_of(column: pd.Series) -> list[Any]:
    """Return the cells as Python values."""
    return to_arrow(column).to_pylist() if in_arrow(column) else column.tolist()


def lengths_of(column: pd.Series) -> np.ndarray:
    """Return the number of items of each list, 0 for a missing list."""
    if in_arrow(column):
        lengths = pc.fill_null(pc.list_value_length(to_arrow(column)), 0)
        return lengths.to_numpy(zero_copy_only=False)
    return np.array([0 if items is None else len(items) for items in column], dtype=np.int64)


def first_items(column: pd.Series, limit: int) -> pd.Series:
    """Return the column with each list cut to its first ``limit`` items."""
    if in_arrow(column):
        cut = pc.list_slice(to_arrow(column), 0, limit, return_fixed_size_list=False)
        return pd.Series(pd.arrays.ArrowExtensionArray(cut), column.index, name=column.name)
    lists = [list(items[:limit]) for items in column]
    return pd.Series(lists, column.index, dtype=object, name=column.name)
