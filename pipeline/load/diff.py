"""What a table of a store needs to become what the snapshots say."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.stores.base import Delta
from pipeline.stores.binary_copy import Kind, digests
from pipeline.stores.lists import in_arrow, is_texts, to_arrow

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

TEXT = pa.large_string()


def with_hashes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``row_hash``: a digest of every column, in the order of their names."""
    kinds: dict[str, Kind] = {name: _kind(rows[name]) for name in sorted(rows.columns)}
    return rows.assign(row_hash=pd.Series(digests(rows, kinds), index=rows.index, dtype=str))


def diff(rows: pd.DataFrame, stored: Mapping[str, str] | pa.Table) -> Delta:
    """``rows`` have ``id`` and ``row_hash``; ``stored`` maps the ids in the store to their row_hash, or is a table of
    both."""
    before = _table(stored)
    ids, hashes = (to_arrow(rows[name], TEXT) for name in ("id", "row_hash"))
    ids_before, hashes_before = (before[name].cast(TEXT).combine_chunks() for name in ("id", "row_hash"))
    places = pc.index_in(ids, value_set=ids_before)
    new = _flags(pc.is_null(places))
    gone = np.ones(len(ids_before), dtype=bool)
    gone[places.drop_null().to_numpy()] = False
    same = _flags(pc.fill_null(pc.equal(hashes, hashes_before.take(places)), False))
    return Delta(
        inserted=rows if new.all() else rows[new],
        updated=rows[~same & ~new],
        deleted=sorted(ids_before.filter(pa.array(gone)).to_pylist()),
        unchanged=int(same.sum()),
        after=rows[["id", "row_hash"]],
    )


def _table(hashes: Mapping[str, str] | pa.Table) -> Any:
    if isinstance(hashes, pa.Table):
        return hashes
    return pa.table({"id": pa.array(list(hashes), TEXT), "row_hash": pa.array(list(hashes.values()), TEXT)})


def _flags(values: pa.BooleanArray) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False)


def _kind(column: pd.Series) -> Kind:
    if pd.api.types.is_float_dtype(column):
        return "float8"
    if pd.api.types.is_integer_dtype(column):
        return "int8"
    if in_arrow(column):
        return "text[]" if is_texts(column) else "vector"
    present = column.dropna()
    first = present.iloc[0] if len(present) else ""
    if isinstance(first, dict):
        return "jsonb"
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        return "vector"
    return "text" if isinstance(first, str) else "text[]"
