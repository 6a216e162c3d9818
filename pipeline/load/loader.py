"""Load the tables of a manifest into the stores, one store after the other. Only what differs is
written."""

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

It is called after the workspace was locked and found to be free for this load, before the first
write. After a lost connection it is called again. If no store needs a load, no workspace is locked,
and it gets an empty sequence."""
RECONNECT_SECONDS = 120.0
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

    - ``replace``: the load may replace tables of another workflow.
    - ``re_embed``: it may replace vectors of another model. Readers see either replacement at once,
      when it is complete.
    - ``full``: it hashes the rows in the stores again, so that rows changed by hand are replaced as
      well.
    - ``take_over``: the other owners whose workspace it may replace, whatever that shows.
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
    snapshots are read only if a store does not show the manifest, or if rows in a store were
    changed after its load.

    - ``max_types``: the largest number of relationship types that keep their names; the rarer ones
      become one type.
    - ``advanced``: is called with the store, the table or index, the rows done, and all rows.
    - ``waits``: is called with a message about who holds the workspace.
    - ``begins``: see ``Begins``.

    Unless ``options`` allow it, raises OtherOwnerError, a UsageError, when the workspace belongs to
    another owner. Raises UsageError when it shows another workflow's tables or another model's
    vectors. Whatever the options are, raises:

    - UsageError when the manifest lacks a table.
    - StoreError when a store cannot be written.
    - DataError when a snapshot is missing or damaged, or a newer version of the software has loaded
      a store.
    """
    require_sources(manifest.tables)
    wanted = DesiredRows(manifest, snapshots, max_types)
    target = describe_target(wanted, owner)
    if not options.full:
        count_if_unchanged = partial(_count_if_all_unchanged, stores, target)
        unchanged = reconnecting(count_if_unchanged, RECONNECT_SECONDS)
        if unchanged is not None:
            begins(())
            return unchanged
    # The counts outlive an attempt: a store that was written before the connection was lost keeps
    # its own, and is not written again.
    counts: dict[str, dict[str, Counts]] = {}
    attempt = partial(_load_alone, wanted, stores, target, options, advanced, waits, begins, counts)
    reconnecting(attempt, RECONNECT_SECONDS)
    return counts


def _count_if_all_unchanged(
    stores: Sequence[Store], target: LoadTarget
) -> dict[str, dict[str, Counts]] | None:
    """Return the counts by store if no store needs a load, otherwise None."""
    shown_by_stores = [store.live() for store in stores]
    first = shown_by_stores[0]
    if first is None:
        return None
    # The snapshots would say how many dimensions the vectors have, but they are not read here: the
    # number that the first store records stands for them. Its probe shows whether somebody has
    # changed the number. What the other stores record is compared with it below.
    if first.probe and len(first.probe.vector) != first.dimensions:
        return None
    # The state needs no probe: the equality of Live leaves it out.
    state_after = _make_state_after(target, first.dimensions)
    counts: dict[str, dict[str, Counts]] = {}
    for store, shown in zip(stores, shown_by_stores, strict=True):
        unchanged = _count_if_store_unchanged(store, shown, state_after)
        if unchanged is None:
            return None
        counts[store.name] = unchanged
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
        # A store that is taken over from another owner counts as empty: whatever it shows may be
        # replaced.
        states_before = [None if store.name in others else store.live() for store in stores]
        if not options.replace:
            tables = wanted.manifest.tables
            refuse_other_workflow(workspace, states_before, target.workflow, tables)
        state_after, embeddings = describe_state_after(wanted, target, states_before)
        for store, before in zip(stores, states_before, strict=True):
            if not options.re_embed and VECTORS in store.tables:
                refuse_other_vectors(workspace, before, state_after, embeddings)
        begins(states_before)
        for store, before in zip(stores, states_before, strict=True):
            # A full load compares all rows, but a store that an earlier attempt has already written
            # need not be compared again.
            must_compare = options.full and store.name not in counts
            unchanged = (
                None if must_compare else _count_if_store_unchanged(store, before, state_after)
            )
            if unchanged is not None:
                counts.setdefault(store.name, unchanged)
            else:
                counts[store.name] = load_store(
                    store, wanted, state_after, options.full, partial(advanced, store.name), waits
                )


def describe_target(wanted: DesiredRows, owner: Owner = NOBODY) -> LoadTarget:
    """Return the target of a load of these rows.

    Its model is that of the step that embedded text units.
    """
    manifest = wanted.manifest
    vectors = manifest.tables[EMBEDDING_STEP_TABLE]
    embedding_step = next(
        record for record in manifest.steps.values() if vectors in record.outputs.values()
    )
    identity = embedding_step.components["models"]["embedding"]
    return LoadTarget(manifest.workflow, wanted.version, identity, owner)


def describe_state_after(
    wanted: DesiredRows, target: LoadTarget, states_before: Sequence[Live | None]
) -> tuple[Live, pd.DataFrame]:
    """Return what the stores show after the load, and vectors to compare with theirs.

    The vectors are those that the snapshots have for the texts of which the stores, as
    ``states_before`` say, keep a vector as a probe. If both are alike, the same model made them.
    """
    tables = wanted.manifest.tables
    embeddings, headers = tables[EMBEDDING_STEP_TABLE], tables.get(HEADERS)
    vectors = telling_vectors(wanted.snapshots, embeddings, states_before, headers)
    state_after = _make_state_after(target, dimensions_of(vectors), probe_of(vectors))
    return state_after, vectors


def _make_state_after(
    target: LoadTarget, dimensions: int, probe: VectorProbe | None = None
) -> Live:
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


def _count_if_store_unchanged(
    store: Store, shown: Live | None, state_after: Live
) -> dict[str, Counts] | None:
    """Return the counts by table if this store needs no load, otherwise None.

    ``shown``: what the store shows now. The counts between communities are not compared: that joins
    all relationships. ``verify`` does it.
    """
    if shown is None or shown != state_after or shown.loading:
        return None
    states = store.table_states()
    if states != shown.tables or store.outdated():
        return None
    counts: dict[str, Counts] = {}
    for table, state in states.items():
        unchanged = {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": state.rows}
        counts[reported_name(table)] = unchanged
    return counts
