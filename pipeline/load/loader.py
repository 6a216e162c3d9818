"""Bring the stores to what a manifest says, one after the other, writing only what differs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from pipeline.load.desired_rows import DesiredRows
from pipeline.load.one_store import Counts, load_store, reported_name
from pipeline.load.overwrite_guard import (
    VECTORS,
    dimensions_of,
    probe_of,
    refuse_other_vectors,
    refuse_other_workflow,
    telling_vectors,
)
from pipeline.load.owners import of_others, refuse_other_owner
from pipeline.load.projection import EMBEDDING_STEP_TABLE, require_sources
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Live, Store, VectorProbe, Waits, alone, silent
from pipeline.stores.connection import reconnecting

Begins = Callable[[Sequence[Live | None]], None]
"""Told what the stores show, when the workspace is held and may be loaded, before the first write;
nothing where there is nothing to write."""
PATIENCE = 120.0
"""Seconds a load waits for a database that went away."""


@dataclass(frozen=True)
class LoadTarget:
    """What the stores shall show, and for whom. ``version`` covers everything that decides their
    rows."""

    workflow: str
    version: str
    embedding: Mapping[str, Any]
    owner: "Owner"


@dataclass(frozen=True)
class Owner:
    """Whose rows a load writes, and the machine and folder they come from. Nobody's where ``id`` is
    empty."""

    id: str = ""
    place: str = ""


@dataclass(frozen=True)
class LoadOptions:
    """``replace``: the workspace may show another workflow's tables; ``re_embed``: its vectors may
    be another model's. Both are then replaced whole, in one go for those who read. ``full``: the
    rows in the stores are hashed anew, so that those changed by hand are replaced as well.
    ``take_over``: other owners whose workspace may be replaced, whatever it shows."""

    replace: bool = False
    re_embed: bool = False
    full: bool = False
    take_over: Collection[str] = ()


NOBODY = Owner()
DEFAULTS = LoadOptions()


def load(
    manifest: Manifest,
    snapshots: SnapshotStore,
    stores: Sequence[Store],
    max_types: int,
    options: LoadOptions = DEFAULTS,
    advanced: Callable[[str, str, int, int], None] = silent,
    owner: Owner = NOBODY,
    waits: Waits = silent,
    begins: Begins = silent,
) -> dict[str, dict[str, Counts]]:
    """Store -> table -> {inserted, updated, deleted, unchanged}.

    The snapshots are read only if a store does not show the manifest, or holds other rows than the
    load left. ``advanced`` is told of store, table or index, rows done, and rows in all; ``waits``
    of who holds the workspace; ``begins`` of what is there before (see ``Begins``).

    Raises UsageError when the manifest lacks a table, or the workspace is another owner's, or shows
    another workflow's tables or another model's vectors, and may not; StoreError when a store
    cannot be written, DataError when a snapshot is gone or damaged or a store was loaded by a newer
    version.
    """
    require_sources(manifest.tables)
    wanted = DesiredRows(manifest, snapshots, max_types)
    target = target_of(wanted, owner)
    nothing = (
        None if options.full else reconnecting(partial(_nothing_to_do, stores, target), PATIENCE)
    )
    if nothing is not None:
        begins(())
        return nothing
    counts: dict[str, dict[str, Counts]] = {}
    reconnecting(
        partial(_load_alone, wanted, stores, target, options, advanced, waits, begins, counts),
        PATIENCE,
    )
    return counts


def _nothing_to_do(
    stores: Sequence[Store], target: LoadTarget
) -> dict[str, dict[str, Counts]] | None:
    """The counts of a load that finds nothing to do; None where there is something."""
    lives = [store.live() for store in stores]
    first = lives[0]
    if first is None or (first.probe and len(first.probe.vector) != first.dimensions):
        return None
    live = _live(target, first.dimensions)
    counts = {
        store.name: _unchanged(store, shown, live)
        for store, shown in zip(stores, lives, strict=True)
    }
    return (
        {name: count for name, count in counts.items() if count} if all(counts.values()) else None
    )


def _load_alone(
    wanted: DesiredRows,
    stores: Sequence[Store],
    target: LoadTarget,
    options: LoadOptions,
    advanced: Callable[[str, str, int, int], None],
    waits: Waits,
    begins: Begins,
    counts: dict[str, dict[str, Counts]],
) -> None:
    """Every other load of the workspace waits until all of its stores show the target. ``counts``:
    of the stores that an earlier attempt has written; those of the others come to it."""
    workspace = stores[0].workspace
    with alone(stores, waits):
        others = of_others(stores, target.owner.id)
        refuse_other_owner(workspace, others.values(), options.take_over)
        lives = [None if store.name in others else store.live() for store in stores]
        if not options.replace:
            refuse_other_workflow(workspace, lives, target.workflow, wanted.manifest.tables)
        live, embeddings = live_of(wanted, target, lives)
        for store, shown in zip(stores, lives, strict=True):
            if not options.re_embed and VECTORS in store.tables:
                refuse_other_vectors(workspace, shown, live, embeddings)
        begins(lives)
        for store, shown in zip(stores, lives, strict=True):
            full = options.full and store.name not in counts
            if (same := None if full else _unchanged(store, shown, live)) is not None:
                counts.setdefault(store.name, same)
            else:
                counts[store.name] = load_store(
                    store, wanted, live, options.full, partial(advanced, store.name), waits
                )


def target_of(wanted: DesiredRows, owner: Owner = NOBODY) -> LoadTarget:
    manifest = wanted.manifest
    identity = next(
        record.components["models"]["embedding"]
        for record in manifest.steps.values()
        if manifest.tables[EMBEDDING_STEP_TABLE] in record.outputs.values()
    )
    return LoadTarget(manifest.workflow, wanted.version, identity, owner)


def live_of(
    wanted: DesiredRows, target: LoadTarget, lives: Sequence[Live | None]
) -> tuple[Live, pd.DataFrame]:
    """What a load makes the stores show, and those of its vectors that tell whether its model made
    ``lives``."""
    found = telling_vectors(wanted.snapshots, wanted.manifest.tables[EMBEDDING_STEP_TABLE], lives)
    return _live(target, dimensions_of(found), probe_of(found)), found


def _live(target: LoadTarget, dimensions: int, probe: VectorProbe | None = None) -> Live:
    """What a store shows after the load."""
    owner, place = target.owner.id, target.owner.place
    return Live(
        target.workflow,
        target.version,
        target.embedding,
        dimensions,
        probe=probe,
        owner=owner,
        place=place,
    )


def _unchanged(store: Store, shown: Live | None, live: Live) -> dict[str, Counts] | None:
    """Return the counts of a load of this store that finds nothing to do, or None if there is
    something.

    The counts between communities are not compared: that joins all relationships. ``verify`` does
    it.
    """
    if shown is None or shown != live or shown.loading:
        return None
    states = store.table_states()
    if states != shown.tables or store.outdated():
        return None
    nothing = {"inserted": 0, "updated": 0, "deleted": 0}
    return {
        reported_name(table): {**nothing, "unchanged": state.rows}
        for table, state in states.items()
    }
