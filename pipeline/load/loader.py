"""Loads the tables of a manifest into the stores, one store after the other, writing only what
differs."""

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
from pipeline.load.projection import EMBEDDING_STEP_TABLE, HEADERS, require_sources
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Live, Store, VectorProbe, Waits, alone, silent
from pipeline.stores.connection import reconnecting

Begins = Callable[[Sequence[Live | None]], None]
"""A callback that gets what each store shows before the load.

It is called once the workspace is locked and may be loaded, before the first write. If there is
nothing to write, it gets an empty sequence."""
PATIENCE = 120.0
"""Seconds for which a load waits for a database that went away."""


@dataclass(frozen=True)
class LoadTarget:
    """The state that a load brings the stores to.

    ``version``: a fingerprint over everything that decides the rows. ``embedding``: the identity of
    the embedding model.
    """

    workflow: str
    version: str
    embedding: Mapping[str, Any]
    owner: "Owner"


@dataclass(frozen=True)
class Owner:
    """The project that owns the rows of a load; "" for nobody.

    ``place``: "machine:folder" that the rows come from.
    """

    id: str = ""
    place: str = ""


@dataclass(frozen=True)
class LoadOptions:
    """The permissions and the extent of a load.

    ``replace``: it may replace tables of another workflow. ``re_embed``: it may replace vectors of
    another model. Readers see either replacement at once, when it is complete. ``full``: it hashes
    the rows in the stores again, so that rows changed by hand are replaced as well. ``take_over``:
    other owners whose workspace it may replace, whatever that shows.
    """

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
    """Load the tables of a manifest into the stores.

    Return, by store and table, the numbers of rows {inserted, updated, deleted, unchanged}. The
    snapshots are read only if a store does not show the manifest, or its rows were changed since.

    ``max_types``: the number of relationship types that are kept as types. ``advanced`` is called
    with the store, the table or index, the rows done, and all rows. ``waits`` is called with a
    message about who holds the workspace; ``begins``: see ``Begins``.

    Raises UsageError when the manifest lacks a table, or the workspace belongs to another owner,
    or shows another workflow's tables or another model's vectors, unless ``options`` allow it.
    Raises StoreError when a store cannot be written. Raises DataError when a snapshot is missing or
    damaged, or a newer version of the software has loaded a store.
    """
    require_sources(manifest.tables)
    wanted = DesiredRows(manifest, snapshots, max_types)
    target = target_of(wanted, owner)
    if not options.full:
        unchanged = reconnecting(partial(_count_if_unchanged, stores, target), PATIENCE)
        if unchanged is not None:
            begins(())
            return unchanged
    counts: dict[str, dict[str, Counts]] = {}
    attempt = partial(_load_alone, wanted, stores, target, options, advanced, waits, begins, counts)
    reconnecting(attempt, PATIENCE)
    return counts


def _count_if_unchanged(
    stores: Sequence[Store], target: LoadTarget
) -> dict[str, dict[str, Counts]] | None:
    """Return the counts of a load that finds nothing to do, or None if there is something to do."""
    lives = [store.live() for store in stores]
    first = lives[0]
    if first is None or (first.probe and len(first.probe.vector) != first.dimensions):
        return None
    live = _live_after(target, first.dimensions)
    counts: dict[str, dict[str, Counts]] = {}
    for store, shown in zip(stores, lives, strict=True):
        count = _count_unchanged(store, shown, live)
        if not count:
            return None
        counts[store.name] = count
    return counts


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
    """Load the stores while the workspace is locked; other loads of it wait until all are loaded.

    ``counts``: the counts of the stores that an earlier attempt has written. Those of the other
    stores are added to it.
    """
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
            # A full load compares all rows, but a store that an earlier attempt has already written
            # need not be compared again.
            must_compare = options.full and store.name not in counts
            unchanged = None if must_compare else _count_unchanged(store, shown, live)
            if unchanged is not None:
                counts.setdefault(store.name, unchanged)
            else:
                counts[store.name] = load_store(
                    store, wanted, live, options.full, partial(advanced, store.name), waits
                )


def target_of(wanted: DesiredRows, owner: Owner = NOBODY) -> LoadTarget:
    """Return the target of a load of these rows; its model is that of the step that embedded text
    units."""
    manifest = wanted.manifest
    vectors = manifest.tables[EMBEDDING_STEP_TABLE]
    embedding_step = next(
        record for record in manifest.steps.values() if vectors in record.outputs.values()
    )
    identity = embedding_step.components["models"]["embedding"]
    return LoadTarget(manifest.workflow, wanted.version, identity, owner)


def live_of(
    wanted: DesiredRows, target: LoadTarget, lives: Sequence[Live | None]
) -> tuple[Live, pd.DataFrame]:
    """Return what the stores show after the load, and some of its vectors (TELLING).

    The vectors are those of the texts whose vectors the stores know, ``lives``. Their comparison
    shows whether the same model made both.
    """
    tables = wanted.manifest.tables
    vectors, headers = tables[EMBEDDING_STEP_TABLE], tables.get(HEADERS)
    found = telling_vectors(wanted.snapshots, vectors, lives, headers)
    return _live_after(target, dimensions_of(found), probe_of(found)), found


def _live_after(target: LoadTarget, dimensions: int, probe: VectorProbe | None = None) -> Live:
    """Return what a store shows after the load."""
    return Live(
        target.workflow,
        target.version,
        target.embedding,
        dimensions,
        probe=probe,
        owner=target.owner.id,
        place=target.owner.place,
    )


def _count_unchanged(store: Store, shown: Live | None, live: Live) -> dict[str, Counts] | None:
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
    counts: dict[str, Counts] = {}
    for table, state in states.items():
        unchanged = {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": state.rows}
        counts[reported_name(table)] = unchanged
    return counts
