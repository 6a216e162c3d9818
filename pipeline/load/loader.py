"""Bring the stores to what a manifest says, writing only what differs."""

from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.fingerprint import fingerprint
from pipeline.load.diff import diff, with_hashes
from pipeline.load.projection import SOURCES, project
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.base import Live, Store

EMBEDDING_STEP_TABLE = "text_unit_embeddings"


def load(
    manifest: Manifest, snapshots: SnapshotStore, stores: Sequence[Store], max_types: int
) -> dict[str, dict[str, dict[str, int]]]:
    """Store -> table -> {inserted, updated, deleted, unchanged}.

    Raises UsageError when the manifest lacks a table, StoreError when a store cannot be written.
    """
    tables = {name: snapshots.read(manifest.tables[name]) for name in SOURCES if name in manifest.tables}
    rows = {name: with_hashes(frame) for name, frame in project(tables, max_types).items()}
    live = live_version(manifest, tables)
    return {store.name: _load_store(store, rows, live) for store in stores}


def live_version(manifest: Manifest, tables: Mapping[str, pd.DataFrame]) -> Live:
    vectors = tables[EMBEDDING_STEP_TABLE]["vector"]
    identity = next(
        record.components["models"]["embedding"]
        for record in manifest.steps.values()
        if manifest.tables[EMBEDDING_STEP_TABLE] in record.outputs.values()
    )
    version = fingerprint({name: manifest.tables[name].sha256 for name in SOURCES})
    return Live(manifest.workflow, version, identity, len(vectors.iloc[0]) if len(vectors) else 0)


def _load_store(store: Store, rows: Mapping[str, pd.DataFrame], live: Live) -> dict[str, dict[str, int]]:
    counts = {}
    changed = store.live() != live
    with store.writing() as writer:
        for table in store.tables:
            delta = diff(rows[table], writer.hashes(table))
            if not delta.empty:
                writer.apply(table, delta)
                changed = True
            counts[table] = delta.counts
        if changed:
            writer.publish(live)
    return {_reported(table, store): count for table, count in counts.items()}


def _reported(table: str, store: Store) -> str:
    return "relationships" if table == "edges" and "relationships" not in store.tables else table
