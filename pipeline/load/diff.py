"""What a table of a store needs to become what the snapshots say."""

import hashlib
from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipeline.stores.base import Delta
from pipeline.stores.binary_copy import Kind, encoded_rows


def with_hashes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``row_hash``: a digest of every column, in the order of their names."""
    kinds: dict[str, Kind] = {name: _kind(rows[name]) for name in sorted(rows.columns)}
    hashes = [
        hashlib.blake2b(row, digest_size=16).hexdigest()
        for encoded in encoded_rows(rows, kinds)
        for row in encoded.to_pylist()
    ]
    return rows.assign(row_hash=pd.Series(hashes, index=rows.index, dtype=object))


def diff(rows: pd.DataFrame, stored: Mapping[str, str]) -> Delta:
    """``rows`` have ``id`` and ``row_hash``; ``stored`` maps the ids in the store to their row_hash."""
    before = rows["id"].map(stored)
    new = before.isna()
    changed = ~new & (before != rows["row_hash"])
    return Delta(
        inserted=rows[new],
        updated=rows[changed],
        deleted=sorted(set(stored) - set(rows["id"])),
        unchanged=int((~new & ~changed).sum()),
    )


def _kind(column: pd.Series) -> Kind:
    if pd.api.types.is_float_dtype(column):
        return "float8"
    if pd.api.types.is_integer_dtype(column):
        return "int8"
    first = next((value for value in column if value is not None), "")
    if isinstance(first, dict):
        return "jsonb"
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        return "vector"
    return "text" if isinstance(first, str) else "text[]"
