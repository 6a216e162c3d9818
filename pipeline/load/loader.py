"""Bring the stores to what a manifest says, writing only what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.fingerprint import code_fingerprint, fingerprint
from pipeline.load.contents import Expected, altered_ids
from pipeline.load.diff import diff, with_hashes
from pipeline.load.projection import SOURCES, project, require_sources
from pipeline.schema_version import SCHEMA_VERSION
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.base import Live, Store

EMBEDDING_STEP_TABLE = "text_unit_embeddings"


@dataclass(frozen=True)
class Target:
    """What the stores shall show. ``version`` covers everything that decides their rows."""

    workflow: str
    version: str
    embedding: Mapping[str, Any]


def load(
    manifest: Manifest, snapshots: SnapshotStore, stores: Sequence[Store], max_types: int, full: bool = False
) -> dict[str, dict[str, dict[str, int]]]:
    """Store -> table -> {inserted, updated, deleted, unchanged}.

    The snapshots are read only if a store does not show the manifest, or holds other rows than the load left.
    ``full``: the rows in the stores are hashed anew, so that those changed by hand are replaced as well.

    Raises UsageError when the manifest lacks a table, StoreError when a store cannot be written, DataError when
    a snapshot is gone or damaged or a store was loaded by a newer version.
    """
    require_sources(manifest.tables)
    target = target_of(manifest, max_types)
    counts = {store.name: None if full else _unchanged(store, target) for store in stores}
    if None not in counts.values():
        return {name: count for name, count in counts.items() if count is not None}
    tables = {name: snapshots.read(manifest.tables[name]) for name in SOURCES}
    vectors = tables[EMBEDDING_STEP_TABLE]["vector"]
    live = Live(target.workflow, target.version, target.embedding, len(vectors.iloc[0]) if len(vectors) else 0)
    rows = {name: with_hashes(frame) for name, frame in project(tables, max_types).items()}
    return {store.name: counts[store.name] or _load_store(store, rows, live, full) for store in stores}


def target_of(manifest: Manifest, max_types: int) -> Target:
    identity = next(
        record.components["models"]["embedding"]
        for record in manifest.steps.values()
        if manifest.tables[EMBEDDING_STEP_TABLE] in record.outputs.values()
    )
    tables = {name: manifest.tables[name].sha256 for name in SOURCES}
    code = [code_fingerprint(project), code_fingerprint(with_hashes)]
    version = fingerprint({"tables": tables, "max_types": max_types, "code": code})
    return Target(manifest.workflow, version, identity)


def _unchanged(store: Store, target: Target) -> dict[str, dict[str, int]] | None:
    """The counts of a load that finds nothing to do; None where there is something."""
    live = store.live()
    if (
        live is None
        or Target(live.workflow, live.version, live.embedding) != target
        or live.schema_version != SCHEMA_VERSION
    ):
        return None
    states = store.table_states()
    if states != live.tables:
        return None
    none = {"inserted": 0, "updated": 0, "deleted": 0}
    return {reported_name(table, store): {**none, "unchanged": state.rows} for table, state in states.items()}


def _load_store(store: Store, rows: Mapping[str, pd.DataFrame], live: Live, full: bool) -> dict[str, dict[str, int]]:
    counts = {}
    with store.writing() as writer:
        altered = {table: _altered(store, table, rows[table]) if full else {} for table in store.tables}
        for table in store.tables:
            delta = diff(rows[table], {**writer.hashes(table), **altered[table]})
            if not delta.empty:
                writer.apply(table, delta)
            counts[table] = delta.counts
        writer.publish(live)
    return {reported_name(table, store): count for table, count in counts.items()}


def _altered(store: Store, table: str, rows: pd.DataFrame) -> dict[str, str]:
    """The rows that are not what their row_hash says, with one that says so."""
    return dict.fromkeys(altered_ids(store.rows(table), Expected.of(store, table, rows)), "")


def reported_name(table: str, store: Store) -> str:
    """What people call it: a graph database has no table of vectors to tell its relationships from."""
    return "relationships" if table == "edges" and "relationships" not in store.tables else table
