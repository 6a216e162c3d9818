"""Bring the stores to what a manifest says, writing only what differs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from pipeline.fingerprint import code_fingerprint, fingerprint
from pipeline.load.contents import Expected, altered_ids
from pipeline.load.diff import diff, with_hashes
from pipeline.load.identity import dimensions_of, probe_of, refuse_other_vectors, refuse_other_workflow
from pipeline.load.projection import SOURCES, project, require_sources
from pipeline.schema_version import SCHEMA_VERSION
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.base import Advanced, Live, Store
from pipeline.stores.reconnect import reconnecting

EMBEDDING_STEP_TABLE = "text_unit_embeddings"
PATIENCE = 120.0
"""Seconds a load waits for a database that went away."""


@dataclass(frozen=True)
class Target:
    """What the stores shall show. ``version`` covers everything that decides their rows."""

    workflow: str
    version: str
    embedding: Mapping[str, Any]


@dataclass(frozen=True)
class LoadOptions:
    """``replace``: the workspace may show another workflow's tables; ``re_embed``: its vectors may be another
    model's. Both are then replaced whole, in one go for those who read. ``full``: the rows in the stores are hashed
    anew, so that those changed by hand are replaced as well."""

    replace: bool = False
    re_embed: bool = False
    full: bool = False


DEFAULTS = LoadOptions()


def load(
    manifest: Manifest,
    snapshots: SnapshotStore,
    stores: Sequence[Store],
    max_types: int,
    options: LoadOptions = DEFAULTS,
    advanced: Callable[[str, str, int, int], None] = lambda store, part, done, expected: None,
) -> dict[str, dict[str, dict[str, int]]]:
    """Store -> table -> {inserted, updated, deleted, unchanged}.

    The snapshots are read only if a store does not show the manifest, or holds other rows than the load left.
    ``advanced`` is told of store, table or index, rows done, and rows in all.

    Raises UsageError when the manifest lacks a table, or the workspace shows another workflow's tables or another
    model's vectors and may not; StoreError when a store cannot be written, DataError when a snapshot is gone or
    damaged or a store was loaded by a newer version.
    """
    require_sources(manifest.tables)
    target = target_of(manifest, max_types)
    shown = {store.name: reconnecting(store.live, PATIENCE) for store in stores}
    if not options.replace:
        for store in stores:
            refuse_other_workflow(store.workspace, shown[store.name], target.workflow)
    counts = {store.name: None if options.full else _unchanged(store, shown[store.name], target) for store in stores}
    if None not in counts.values():
        return {name: count for name, count in counts.items() if count is not None}
    tables = {name: snapshots.read(manifest.tables[name]) for name in SOURCES}
    embeddings = tables[EMBEDDING_STEP_TABLE]
    live = Live(
        target.workflow, target.version, target.embedding, dimensions_of(embeddings), probe=probe_of(embeddings)
    )
    if not options.re_embed:
        for store in stores:
            refuse_other_vectors(store.workspace, shown[store.name], live, embeddings)
    needed = {table for store in stores if counts[store.name] is None for table in store.tables}
    projected = project(tables, max_types)
    rows = {table: with_hashes(projected[table]) for table in needed}
    return {
        store.name: counts[store.name]
        or reconnecting(partial(_load_store, store, rows, live, options.full, partial(advanced, store.name)), PATIENCE)
        for store in stores
    }


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


def _unchanged(store: Store, live: Live | None, target: Target) -> dict[str, dict[str, int]] | None:
    """The counts of a load that finds nothing to do; None where there is something."""
    if (
        live is None
        or Target(live.workflow, live.version, live.embedding) != target
        or live.schema_version != SCHEMA_VERSION
    ):
        return None
    states = reconnecting(store.table_states, PATIENCE)
    if states != live.tables:
        return None
    none = {"inserted": 0, "updated": 0, "deleted": 0}
    return {reported_name(table, store): {**none, "unchanged": state.rows} for table, state in states.items()}


def _load_store(
    store: Store, rows: Mapping[str, pd.DataFrame], live: Live, full: bool, advanced: Advanced
) -> dict[str, dict[str, int]]:
    counts = {}
    with store.writing(live, advanced) as writer:
        altered = {table: _altered(store, table, rows[table]) if full else {} for table in store.tables}
        for table in store.tables:
            delta = diff(rows[table], {**writer.hashes(table), **altered[table]})
            if not delta.empty:
                writer.apply(table, delta)
            counts[table] = delta.counts
        writer.publish()
    return {reported_name(table, store): count for table, count in counts.items()}


def _altered(store: Store, table: str, rows: pd.DataFrame) -> dict[str, str]:
    """The rows that are not what their row_hash says, with one that says so."""
    return dict.fromkeys(altered_ids(store.rows(table), Expected.of(store, rows)), "")


def reported_name(table: str, store: Store) -> str:
    """What people call it: a graph database has no table of vectors to tell its relationships from."""
    return "relationships" if table == "edges" and "relationships" not in store.tables else table
