"""What a store holds, for comparing."""

import pyarrow as pa

from pipeline.stores.base import Live, Store


def stored_hashes(store: Store) -> dict[str, dict[str, str]]:
    """Table -> id -> row_hash."""
    with store.writing(store.live() or Live("", "", {}, 0)) as writer:
        return {table: hashes_by_id(writer.hashes(table)) for table in store.tables}


def hashes_by_id(hashes: pa.Table) -> dict[str, str]:
    """id -> row_hash."""
    return dict(zip(hashes["id"].to_pylist(), hashes["row_hash"].to_pylist(), strict=True))
