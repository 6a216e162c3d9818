"""What a table of a store needs to become what the snapshots say."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from xxhash import xxh3_128_hexdigest

from pipeline.stores.base import Delta
from pipeline.stores.binary_copy import Kind, encoded_rows, slices
from pipeline.stores.lists import in_arrow, is_texts


def with_hashes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``row_hash``: a digest of every column, in the order of their names."""
    kinds: dict[str, Kind] = {name: _kind(rows[name]) for name in sorted(rows.columns)}
    hashes = [digest for encoded in encoded_rows(rows, kinds) for digest in map(xxh3_128_hexdigest, slices(encoded))]
    return rows.assign(row_hash=pd.Series(hashes, index=rows.index, dtype=str))


def diff(rows: pd.DataFrame, stored: Mapping[str, str]) -> Delta:
    """``rows`` have ``id`` and ``row_hash``; ``stored`` maps the ids in the store to their row_hash."""
    ids = rows["id"].tolist()
    before = list(map(stored.get, ids))
    new = np.array([row_hash is None for row_hash in before], dtype=bool)
    differs = np.array([one != other for one, other in zip(before, rows["row_hash"].tolist(), strict=True)], dtype=bool)
    return Delta(
        inserted=rows[new],
        updated=rows[differs & ~new],
        deleted=sorted(stored.keys() - set(ids)),
        unchanged=int((~differs).sum()),
        after=rows[["id", "row_hash"]],
    )


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
