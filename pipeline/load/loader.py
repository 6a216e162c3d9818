"""Bring the stores to what a manifest says, writing only what differs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipeline.load.identity import dimensions_of, known_vectors, probe_of, refuse_other_vectors, refuse_other_workflow
from pipeline.load.one_store import Counts, load_store, reported_name, unchanged
from pipeline.load.projection import require_sources
from pipeline.load.remembered import Remembered
from pipeline.load.wanted import Wanted
from pipeline.schema_version import SCHEMA_VERSION
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.base import Live, Store
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
) -> dict[str, dict[str, Counts]]:
    """Store -> table -> {inserted, updated, deleted, unchanged}.

    The snapshots are read only if a store does not show the manifest, or holds other rows than the load left.
    ``advanced`` is told of store, table or index, rows done, and rows in all.

    Raises UsageError when the manifest lacks a table, or the workspace shows another workflow's tables or another
    model's vectors and may not; StoreError when a store cannot be written, DataError when a snapshot is gone or
    damaged or a store was loaded by a newer version.
    """
    require_sources(manifest.tables)
    wanted = Wanted(manifest, snapshots, max_types)
    target = target_of(wanted)
    shown = {store.name: reconnecting(store.live, PATIENCE) for store in stores}
    if not options.replace:
        for store in stores:
            refuse_other_workflow(store.workspace, shown[store.name], target.workflow)
    counts = {store.name: None if options.full else _unchanged(store, shown[store.name], target) for store in stores}
    if None not in counts.values():
        return {name: count for name, count in counts.items() if count is not None}
    wanted.require_whole()
    embeddings = known_vectors(snapshots, manifest.tables[EMBEDDING_STEP_TABLE], list(shown.values()))
    live = Live(
        target.workflow, target.version, target.embedding, dimensions_of(embeddings), probe=probe_of(embeddings)
    )
    if not options.re_embed:
        for store in stores:
            refuse_other_vectors(store.workspace, shown[store.name], live, embeddings)
    for store in stores:
        if counts[store.name] is None:
            told = partial(advanced, store.name)
            counts[store.name] = reconnecting(partial(load_store, store, wanted, live, options.full, told), PATIENCE)
    Remembered(snapshots.root).publish(wanted.version, wanted.versions)
    return {name: count for name, count in counts.items() if count is not None}


def target_of(wanted: Wanted) -> Target:
    manifest = wanted.manifest
    identity = next(
        record.components["models"]["embedding"]
        for record in manifest.steps.values()
        if manifest.tables[EMBEDDING_STEP_TABLE] in record.outputs.values()
    )
    return Target(manifest.workflow, wanted.version, identity)


def _unchanged(store: Store, live: Live | None, target: Target) -> dict[str, Counts] | None:
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
    return {reported_name(table, store): unchanged(state) for table, state in states.items()}
