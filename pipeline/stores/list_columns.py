"""Columns whose cells are lists. Rows on their way from a snapshot to a store keep them in Arrow: a
Python object for each cell costs more than all else that is done to it. What a store gives back has
Python's lists and numpy's arrays."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import is_list, is_text

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them


def frame_of(table: pa.Table) -> pd.DataFrame:
    """The table in pandas, its lists still in Arrow."""
    return table.combine_chunks().to_pandas(types_mapper=_kept)


def _kept(found: pa.DataType) -> Any:
    return pd.ArrowDtype(found) if is_list(found) else None


def in_arrow(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.ArrowDtype)


def is_texts(column: pd.Series) -> bool:
    """Of a column in Arrow: whether its lists hold texts."""
    return is_text(to_arrow(column.iloc[:0]).type.value_type)


def to_arrow(column: pd.Series, type: pa.DataType | None = None) -> pa.Array:
    """In one piece."""
    found = (
        pa.array(column, from_pandas=True)
        if in_arrow(column)
        else pa.array(column, type, from_pandas=True)
    )
    chunks = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    # Chunks of texts may be of both kinds of texts where some are empty.
    pieces = [
        chunk.cast(type) if type is not None and chunk.type != type else chunk for chunk in chunks
    ]
    return (
        pieces[0]
        if len(pieces) == 1
        else pa.concat_arrays(pieces)
        if pieces
        else pa.array([], type or found.type)
    )


def values_of(column: pd.Series) -> list[Any]:
    """The cells as Python's values."""
    return to_arrow(column).to_pylist() if in_arrow(column) else column.tolist()


def lengths_of(column: pd.Series) -> np.ndarray:
    """How many items each list has, 0 where there is none."""
    if in_arrow(column):
        return pc.fill_null(pc.list_value_length(to_arrow(column)), 0).to_numpy(
            zero_copy_only=False
        )
    return np.array([0 if items is None else len(items) for items in column], dtype=np.int64)


def first_items(column: pd.Series, limit: int) -> pd.Series:
    """The first ``limit`` items of each list."""
    if in_arrow(column):
        kept = pc.list_slice(to_arrow(column), 0, limit, return_fixed_size_list=False)
        return pd.Series(pd.arrays.ArrowExtensionArray(kept), column.index, name=column.name)
    return pd.Series(
        [list(items[:limit]) for items in column], column.index, dtype=object, name=column.name
    )
