"""What a store holds, for comparing."""

import numpy as np
import pyarrow as pa

from pipeline.stores.base import Live, Store
from pipeline.stores.reads import Hits, VectorReads, VectorSearch, Within


def nearest(
    vectors: VectorReads, table: str, vector: np.ndarray, limit: int, within: Within = ()
) -> Hits:
    """One search alone."""
    return vectors.nearest([VectorSearch(table, vector, limit)], within)[0]


def stored_hashes(store: Store) -> dict[str, dict[str, str]]:
    """Table -> id -> row_hash."""
    with store.writing(store.live() or Live("", "", {}, 0)) as writer:
        return {table: hashes_by_id(writer.hashes(table)) for table in store.tables}


def hashes_by_id(hashes: pa.Table) -> dict[str, str]:
    """id -> row_hash."""
    return dict(zip(hashes["id"].to_pylist(), hashes["row_hash"].to_pylist(), strict=True))
