"""What a store holds, for comparing."""

from pipeline.stores.base import Live, Store


def stored_hashes(store: Store) -> dict[str, dict[str, str]]:
    """Table -> id -> row_hash."""
    with store.writing(store.live() or Live("", "", {}, 0)) as writer:
        return {table: dict(writer.hashes(table)) for table in store.tables}
