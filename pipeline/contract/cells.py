"""Cells that pandas and Arrow hold differently: integers with gaps, lists, and vectors.

Lists become JSON texts where they must be compared. This code can change results, so it is not in
schemas.py, which fingerprints leave out.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa


def list_of(value: pa.DataType) -> pa.DataType:
    """Return a list type whose item has Parquet's name for it, so that writing and reading a table
    keeps its bytes."""
    return pa.large_list(pa.field("element", value))


VECTOR = list_of(pa.float32())
ROWS_FOR_THREADS = 2_000
"""The number of rows from which on Arrow may use several threads.

Starting them takes longer than the conversion of a small table.
"""


def as_frame(table: pa.Table | pa.RecordBatch) -> pd.DataFrame:
    """Return the table as a DataFrame in which integers stay integers where some are missing.

    Pandas would convert such a column to floats, which cannot represent every integer above 2^53.
    """
    frame = table.to_pandas(use_threads=len(table) >= ROWS_FOR_THREADS)
    with_gaps = [
        name
        for name in table.schema.names
        if pa.types.is_integer(table[name].type) and table[name].null_count
    ]
    if not with_gaps:
        return frame
    integers = {name: pd.array(table[name].to_pylist(), dtype="Int64") for name in with_gaps}
    return frame.assign(**integers)


def vector_column(vectors: np.ndarray) -> pd.Series:
    """Return the rows of a float32 matrix as a column of VECTOR.

    Nothing is copied: vectors may be most of a table's bytes.
    """
    rows, dimensions = vectors.shape
    ends = pa.array(np.arange(rows + 1, dtype=np.int64) * dimensions)
    array = pa.LargeListArray.from_arrays(ends, vectors.reshape(-1), type=VECTOR)
    return pd.Series(array, dtype=pd.ArrowDtype(VECTOR))


def with_json_texts(frame: pd.DataFrame, nested: list[str]) -> pd.DataFrame:
    """Return the frame with the lists and records of these columns as JSON texts.

    Such texts can be sorted and compared, arrays cannot.
    """
    texts = {name: frame[name].map(as_json_text, na_action="ignore") for name in nested}
    return frame.assign(**texts)


def as_json_text(cell: Any) -> str:
    """Return a list or a record as JSON with sorted keys."""
    return json.dumps(cell, ensure_ascii=False, sort_keys=True, default=_numpy_to_python)


def _numpy_to_python(value: Any) -> Any:
    return value.tolist()
