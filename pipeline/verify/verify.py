"""Compare what the stores hold with what a manifest says, row by row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from pipeline.contract.schema_version import SCHEMA_VERSION
from pipeline.contract.schemas import HASHES
from pipeline.contract.views import split_name
from pipeline.errors import UsageError, counted
from pipeline.load.desired_rows import DesiredRows
from pipeline.load.loader import live_of, target_of
from pipeline.load.one_store import reported_name
from pipeline.load.overwrite_guard import VECTORS, other_vectors, other_workflow
from pipeline.load.owners import VERIFY, of_others, refuse_other_owner
from pipeline.load.projection import require_sources
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Advanced, Live, Store, TableState, silent
from pipeline.verify.references import IN_STORES, Dangling, References, dangling_in_snapshots
from pipeline.verify.table_check import TableCheck, check_hashes, check_rows, check_state

NOTHING = HASHES.empty_table()
REFERRED_TO = frozenset(target for columns in IN_STORES.values() for target in columns.values())


@dataclass(frozen=True)
class Verification:
    """``problems``: what is wrong with what is loaded as a whole. ``quick``: counts, checksums and
    hashes beside the rows were compared, and not the rows. ``load``: the command that a load takes
    here. ``miscounted``: whether counts between communities differ from what is loaded."""

    workflow: str
    version: str
    quick: bool
    problems: tuple[str, ...]
    tables: tuple[TableCheck, ...]
    dangling: tuple[Dangling, ...]
    load: str
    miscounted: bool = False

    @property
    def agrees(self) -> bool:
        return not (
            self.problems or self.dangling or any(check.differences for check in self.tables)
        )

    @property
    def repair(self) -> str:
        """Return the command that makes the stores agree, or "" if there is nothing for it to
        do."""
        kinds = {difference.kind for check in self.tables for difference in check.differences}
        # Counts also differ because rows are missing: a load of these rows makes them agree again.
        only_counts_differ = self.miscounted and not kinds
        # A plain load compares neither the content of rows nor the counts.
        if "altered" in kinds or only_counts_differ:
            return f"{self.load} --full"
        return self.load if kinds or self.problems else ""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "agrees": self.agrees, "repair": self.repair}


def verify(
    manifest: Manifest,
    snapshots: SnapshotStore,
    stores: Sequence[Store],
    max_types: int,
    quick: bool = False,
    advanced: Advanced = silent,
    owner: str = "",
) -> Verification:
    """Compare the stores with the manifest's snapshots; nothing is written.

    ``quick``: compare how many rows each table has, and their checksum, with what its load left;
    where they are others, or another version is shown, the row_hash beside each row. Else every row
    is read and hashed anew, and ``advanced`` is told of store and table, rows of the store that are
    done, and rows in all. Raises UsageError when the manifest is empty or lacks a table,
    OtherOwnerError when the workspace is another's than ``owner``'s, StoreError when a store cannot
    be read, DataError when a snapshot is gone or damaged or a store was loaded by a newer version.
    """
    if not manifest.tables:
        raise UsageError(
            f"workflow '{manifest.workflow}': no tables yet; run 'graphmill index"
            f" {manifest.workflow}'"
        )
    require_sources(manifest.tables)
    refuse_other_owner(stores[0].workspace, of_others(stores, owner).values(), action=VERIFY)
    wanted = DesiredRows(manifest, snapshots, max_types)
    wanted.require_whole()
    target = target_of(wanted)
    dangling = dangling_in_snapshots(manifest, snapshots)
    before = {store.name: store.live() for store in stores}
    begun = {store.name: store.begun() for store in stores}
    readable = [store for store in stores if begun[store.name] or _is_readable(before[store.name])]
    held = {store.name: _held(store) for store in readable} if not quick else {}
    states = {store.name: store.table_states() for store in readable} if quick else {}
    checks = []
    for store in stores:
        ids = _ids(held, store)
        for table in store.tables:
            if store not in readable:
                checks.append(check_hashes(store, table, wanted, NOTHING))
            elif quick and _as_left(before[store.name], wanted, table, states[store.name]):
                checks.append(check_state(store, table, wanted, states[store.name][table]))
            elif quick:
                checks.append(check_hashes(store, table, wanted, store.hashes(table)))
            else:
                known = {
                    column: target
                    for column, target in IN_STORES.get(table, {}).items()
                    if target in ids
                }
                references = References(store.name, reported_name(table), known, ids)
                stored = (
                    held[store.name][table] if table in held[store.name] else store.hashes(table)
                )
                told = partial(advanced, f"{store.name} {references.table}")
                checks.append(check_rows(store, table, wanted, stored, references, told))
                dangling += references.dangling()
    lives = list(before.values())
    live, embeddings = live_of(wanted, target, lives)
    name, view = split_name(target.workflow)
    command = ["graphmill", "load", name]
    if not view:  # a view follows the workspace of its project, whatever it shows
        command += ["--replace"] if other_workflow(lives, name, manifest.tables) else []
        has_vectors = [before[store.name] for store in stores if VECTORS in store.tables]
        command += (
            ["--re-embed"]
            if any(other_vectors(shown, live, embeddings) for shown in has_vectors)
            else []
        )
    repair = " ".join(command)
    # Counting again takes a scan of all relationships, which a quick check promises to leave out.
    counts = [] if quick else list(_wrong_counts(readable, repair))
    problems = [*_problems(before, begun, live, repair), *_settings(readable, repair), *counts]
    problems += _changes(before, stores)
    return Verification(
        target.workflow,
        target.version,
        quick,
        tuple(problems),
        tuple(checks),
        tuple(dangling),
        repair,
        bool(counts),
    )


def with_view(found: Verification, view: str, of_view: Verification) -> Verification:
    """Return a workspace's verification with that of one of its views: one load brings both to
    their tables."""
    told = f" (view {view})"
    return replace(
        found,
        problems=(*found.problems, *(f"view {view}: {problem}" for problem in of_view.problems)),
        tables=(
            *found.tables,
            *(replace(check, store=f"{check.store}{told}") for check in of_view.tables),
        ),
        dangling=(
            *found.dangling,
            *(replace(one, where=f"{one.where}{told}") for one in of_view.dangling),
        ),
        miscounted=found.miscounted or of_view.miscounted,
    )


def _as_left(
    shown: Live | None, wanted: DesiredRows, table: str, states: Mapping[str, TableState]
) -> bool:
    """Whether a table has as many rows, of the same checksum, as when the load of these very rows
    had ended."""
    if shown is None or shown.loading or shown.version != wanted.version:
        return False
    return states[table] == shown.tables.get(table)


def _is_readable(live: Live | None) -> bool:
    """Another version's tables may lack columns."""
    return live is not None and live.schema_version == SCHEMA_VERSION


def _held(store: Store) -> dict[str, pa.Table]:
    """id and row_hash of the rows that others refer to."""
    return {
        table: store.hashes(table) for table in store.tables if reported_name(table) in REFERRED_TO
    }


def _ids(held: Mapping[str, Mapping[str, pa.Table]], store: Store) -> dict[str, pa.ChunkedArray]:
    """Of the tables that others refer to, as people call them: the store's own, and those of other
    stores that it does not have."""
    others = [tables for name, tables in held.items() if name != store.name]
    return {
        reported_name(table): rows["id"]
        for tables in (*others, held.get(store.name, {}))
        for table, rows in tables.items()
    }


def _problems(
    lives: Mapping[str, Live | None], begun: Mapping[str, bool], target: Live, repair: str
) -> Iterator[str]:
    load = f"run '{repair}'"
    for store, live in lives.items():
        if live is None and begun[store]:
            yield f"{store}: its first load is under way, or was cut off; {load}"
        elif live is None:
            yield f"{store}: nothing is loaded; {load}"
        elif live.schema_version != SCHEMA_VERSION:
            yield (
                f"{store}: loaded by an earlier graphmill (schema {live.schema_version}), not"
                f" compared; {load}"
            )
        elif live.workflow != target.workflow:
            yield (
                f"{store}: workflow '{live.workflow}' is loaded, not '{target.workflow}'; "
                f"run 'graphmill verify {split_name(live.workflow)[0]}', or '{repair}'"
            )
        elif live.version != target.version:
            yield (
                f"{store}: version {short(live.version)} is loaded, not {short(target.version)};"
                f" {load}"
            )
        elif live.embedding != target.embedding:
            yield (
                f"{store}: vectors of {dict(live.embedding)} are loaded, not of"
                f" {dict(target.embedding)}; {load}"
            )
        elif live.dimensions != target.dimensions:
            yield (
                f"{store}: {live.dimensions} dimensions are said to be loaded, not"
                f" {target.dimensions}; {load}"
            )
        if live is not None and live.loading:
            yield f"{store}: a load is under way, or was cut off; {load}"
    versions = {store: short(live.version) if live else "nothing" for store, live in lives.items()}
    if len(set(versions.values())) > 1:
        shown = ", ".join(f"{store} {version}" for store, version in versions.items())
        yield f"stores: they show different versions ({shown}); {load}"


def _settings(stores: Sequence[Store], repair: str) -> Iterator[str]:
    for store in stores:
        for fact in store.outdated():
            yield f"{store.name}: {fact}; run '{repair}'"


def _wrong_counts(stores: Sequence[Store], repair: str) -> Iterator[str]:
    for store in stores:
        if wrong := store.miscounted():
            yield (
                f"{store.name}: between communities, {counted(wrong, 'count')} of relationships"
                f" differ from what is loaded; run '{repair} --full'"
            )


def _changes(before: Mapping[str, Live | None], stores: Sequence[Store]) -> Iterator[str]:
    for store in stores:
        if _state(store.live()) != _state(before[store.name]):
            yield f"{store.name}: loaded while it was read; run 'graphmill verify' again"


def _state(live: Live | None) -> Any:
    return live and (live, live.tables, live.loading)


def short(version: str) -> str:
    """Enough of a version to tell it from another."""
    return version[:12]
