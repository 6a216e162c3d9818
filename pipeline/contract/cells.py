"""Cells that pandas holds otherwise than Arrow: whole numbers with gaps, lists as texts, which can
be compared, and vectors as a column.

What makes results is here and not beside the schemas, which no fingerprint looks into.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa


def list_of(value: pa.DataType) -> pa.DataType:
    """A list type whose item is named as Parquet names it, so that a round trip keeps the bytes."""
    return pa.large_list(pa.field("element", value))


VECTOR = list_of(pa.float32())


def as_frame(table: pa.Table | pa.RecordBatch) -> pd.DataFrame:
    """The table in pandas. Whole numbers stay whole where some are missing: pandas' own way makes
    floats of them, which skip numbers beyond 2^53."""
    frame = table.to_pandas()
    gaps = [
        name
        for name in table.schema.names
        if pa.types.is_integer(table[name].type) and table[name].null_count
    ]
    return (
        frame.assign(**{name: pd.array(table[name].to_pylist(), dtype="Int64") for name in gaps})
        if gaps
        else frame
    )


def vector_column(vectors: np.ndarray) -> pd.Series:
    """The rows of a float32 matrix as a column of VECTOR, without a copy: they may be most of a
    table's bytes."""
    rows, dimensions = vectors.shape
    ends = pa.array(np.arange(rows + 1, dtype=np.int64) * dimensions)
    array = pa.LargeListArray.from_arrays(ends, vectors.reshape(-1), type=VECTOR)
    return pd.Series(array, dtype=pd.ArrowDtype(VECTOR))


def with_json_texts(frame: pd.DataFrame, nested: list[str]) -> pd.DataFrame:
    """The frame with lists and records as JSON in these columns: such cells can be sorted and told
    apart, arrays cannot."""
    return frame.assign(
        **{name: frame[name].map(as_json_text, na_action="ignore") for name in nested}
    )


def as_json_text(cell: Any) -> str:
    """A list or a record as JSON, its keys in order."""
    return json.dumps(cell, ensure_ascii=False, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist()  # of numpy: arrays and the scalars in them
