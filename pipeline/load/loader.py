"""Bring the stores to what a manifest says, writing only what differs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from pipeline.errors import UsageError
from pipeline.fingerprint import code_fingerprint, fingerprint
from pipeline.load.diff import diff, with_hashes
from pipeline.load.projection import SOURCES, project, require_sources
from pipeline.schema_version import SCHEMA_VERSION
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.base import Advanced, Live, Probe, Store
from pipeline.stores.reconnect import reconnecting

EMBEDDING_STEP_TABLE = "text_unit_embeddings"
NORM_TOLERANCE = 1e-3
SAME_MODEL = 0.99
"""Cosine similarity of two vectors that one model made of one text; by another model it is near 0."""
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
    model's. Both are then replaced whole, in one go for those who read."""

    replace: bool = False
    re_embed: bool = False


def load(
    manifest: Manifest,
    snapshots: SnapshotStore,
    stores: Sequence[Store],
    max_types: int,
    options: LoadOptions = LoadOptions(),
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
    for store in stores:
        _refuse_other_workflow(store, shown[store.name], target, options)
    counts = {store.name: _unchanged(store, shown[store.name], target) for store in stores}
    if None not in counts.values():
        return {name: count for name, count in counts.items() if count is not None}
    tables = {name: snapshots.read(manifest.tables[name]) for name in SOURCES}
    live = _live(target, tables[EMBEDDING_STEP_TABLE])
    for store in stores:
        _refuse_other_vectors(store, shown[store.name], live, tables[EMBEDDING_STEP_TABLE], options)
    rows = {name: with_hashes(frame) for name, frame in project(tables, max_types).items()}
    return {
        store.name: counts[store.name]
        or reconnecting(partial(_load_store, store, rows, live, partial(advanced, store.name)), PATIENCE)
        for store in stores
    }


def _live(target: Target, embeddings: pd.DataFrame) -> Live:
    if embeddings.empty:
        return Live(target.workflow, target.version, target.embedding, 0)
    first = embeddings["vector"].iloc[0]
    normalised = bool(abs(np.linalg.norm(first) - 1) < NORM_TOLERANCE)
    probe = Probe(embeddings["id"].iloc[0], first.tolist(), normalised)
    return Live(target.workflow, target.version, target.embedding, len(first), probe=probe)


def _refuse_other_workflow(store: Store, shown: Live | None, target: Target, options: LoadOptions) -> None:
    if shown is not None and shown.workflow != target.workflow and not options.replace:
        raise UsageError(
            f"workspace '{store.workspace}': shows the tables of workflow '{shown.workflow}'; to have those of "
            f"'{target.workflow}' instead add --replace, to have both set another workspace"
        )


def _refuse_other_vectors(
    store: Store, shown: Live | None, live: Live, embeddings: pd.DataFrame, options: LoadOptions
) -> None:
    if shown is None or not shown.dimensions or not live.dimensions or options.re_embed:
        return
    if shown.embedding_key != live.embedding_key:
        raise UsageError(
            f"workspace '{store.workspace}': its vectors were made by {_named(shown)}, those of the snapshots by "
            f"{_named(live)}; 'graphmill load {live.workflow} --re-embed' replaces them all, while the old ones "
            "keep serving"
        )
    if shown.probe and _similarity(shown.probe, embeddings) < SAME_MODEL:
        raise UsageError(
            f"workspace '{store.workspace}': the same text has another vector than when it was loaded, so "
            f"{_named(live)} is another model now; 'graphmill load {live.workflow} --re-embed' replaces all vectors"
        )


def _similarity(probe: Probe, embeddings: pd.DataFrame) -> float:
    """Between the probe's vector and that of the same chunk now; 1 where the chunk is gone."""
    now = embeddings.loc[embeddings["id"] == probe.chunk_id, "vector"]
    if now.empty:
        return 1.0
    before, vector = np.asarray(probe.vector), now.iloc[0]
    lengths = np.linalg.norm(before) * np.linalg.norm(vector)
    return float(before @ vector / lengths) if lengths else 1.0


def _named(live: Live) -> str:
    return f"{dict(live.embedding)} with {live.dimensions} dimensions"


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
    return {_reported(table, store): {**none, "unchanged": state.rows} for table, state in states.items()}


def _load_store(
    store: Store, rows: Mapping[str, pd.DataFrame], live: Live, advanced: Advanced
) -> dict[str, dict[str, int]]:
    counts = {}
    with store.writing(live, advanced) as writer:
        for table in store.tables:
            delta = diff(rows[table], writer.hashes(table))
            if not delta.empty:
                writer.apply(table, delta)
            counts[table] = delta.counts
        writer.publish()
    return {_reported(table, store): count for table, count in counts.items()}


def _reported(table: str, store: Store) -> str:
    return "relationships" if table == "edges" and "relationships" not in store.tables else table
