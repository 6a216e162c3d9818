"""Compare the rows in the stores with those of a manifest's snapshots."""

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
from pipeline.load.loader import describe_state_after, describe_target
from pipeline.load.one_store import reported_name
from pipeline.load.overwrite_guard import VECTORS, other_vectors, other_workflow
from pipeline.load.owners import VERIFY, of_others, refuse_other_owner
from pipeline.load.projection import require_sources
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Advanced, Live, Store, TableState, silent
from pipeline.verify.references import IN_STORES, Dangling, References, dangling_in_snapshots
from pipeline.verify.table_check import (
    Kind,
    TableCheck,
    check_hashes,
    check_rows,
    check_state,
)

NO_HASHES = HASHES.empty_table()


def _list_tables_referred_to() -> frozenset[str]:
    """Return the tables to which a column of another table refers (``IN_STORES``)."""
    tables: set[str] = set()
    for table_of_column in IN_STORES.values():
        tables.update(table_of_column.values())
    return frozenset(tables)


REFERRED_TO = _list_tables_referred_to()
"""The tables of stores that others refer to, by the names that reports use."""


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    - ``quick``: whether only counts, checksums and hashes were compared, and no contents of rows.
    - ``problems``: messages about the stores as a whole.
    - ``load``: the command that loads the tables.
    - ``miscounted``: whether counts between communities do not match the rows in the stores. False
      after a quick verification, which does not look.
    - ``changed_meanwhile``: whether a store was loaded while it was read, so that what differs may
      be of no importance.
    """

    workflow: str
    version: str
    quick: bool
    problems: tuple[str, ...]
    tables: tuple[TableCheck, ...]
    dangling: tuple[Dangling, ...]
    load: str
    miscounted: bool = False
    changed_meanwhile: bool = False

    @property
    def agrees(self) -> bool:
        """Return whether nothing differs: no problem, no dangling reference, no row."""
        rows_differ = any(check.differences for check in self.tables)
        return not (self.problems or self.dangling or rows_differ)

    @property
    def repair(self) -> str:
        """Return the command that makes the stores agree; "" if there is nothing for it to do.

        No load can repair dangling references. After a load that ran meanwhile, only another
        verification can tell whether there is anything to repair.
        """
        if self.changed_meanwhile:
            return ""
        kinds: set[Kind] = set()
        for check in self.tables:
            kinds.update(difference.kind for difference in check.differences)
        # Counts also differ because rows are missing: a load of these rows makes them agree again.
        only_counts_differ = self.miscounted and not kinds
        # A plain load compares neither the content of rows nor the counts.
        if "altered" in kinds or only_counts_differ:
            return f"{self.load} --full"
        return self.load if kinds or self.problems else ""

    @property
    def advice(self) -> str:
        """Return what to do where something differs."""
        if self.changed_meanwhile:
            return "a store was loaded while it was read; run 'graphmill verify' again"
        if self.repair:
            return f"repair with: {self.repair}"
        return (
            f"the snapshots disagree; write them again: graphmill run {self.workflow} --force"
            " merge_graphs"
        )

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

    By default, every row of the stores is read and hashed again. ``advanced`` is called with the
    store and table, the rows that are done, and all rows.

    With ``quick``, the number of rows of each table and their checksum are compared with those at
    the end of its load. If they differ, or the store shows another version, the row_hash of each
    row is compared. Dangling references in stores, and counts between communities, are left out.

    Raises UsageError when the manifest is empty or lacks a table. Raises OtherOwnerError when the
    workspace belongs to another owner than ``owner``. Raises StoreError when a store cannot be
    read. Raises DataError when a snapshot is missing or damaged, and when a newer version of the
    software has loaded a store.
    """
    if not manifest.tables:
        advice = snapshots.advise_without_tables(manifest.workflow, "graphmill verify")
        raise UsageError(f"workflow '{manifest.workflow}': no tables yet; {advice}")
    require_sources(manifest.tables)
    refuse_other_owner(stores[0].workspace, of_others(stores, owner).values(), action=VERIFY)
    wanted = DesiredRows(manifest, snapshots, max_types)
    wanted.require_whole()
    target = describe_target(wanted)
    dangling = dangling_in_snapshots(manifest, snapshots)
    shown_at_start = {store.name: store.live() for store in stores}
    begun = {store.name: store.begun() for store in stores}
    # A first load that is under way has made its tables already, with this version's columns.
    readable = [
        store for store in stores if begun[store.name] or _is_readable(shown_at_start[store.name])
    ]
    target_hashes = {} if quick else {store.name: _read_target_hashes(store) for store in readable}
    checks: list[TableCheck] = []
    for store in stores:
        if store not in readable:
            # Nothing can be read, so all rows count as missing.
            checks += [check_hashes(store, table, wanted, NO_HASHES) for table in store.tables]
        elif quick:
            checks += _check_quickly(store, wanted, shown_at_start[store.name])
        else:
            checks_of_store, dangling_in_store = _check_all_rows(
                store, wanted, target_hashes, advanced
            )
            checks += checks_of_store
            dangling += dangling_in_store
    shown_by_stores = list(shown_at_start.values())
    wanted_state, embeddings = describe_state_after(wanted, target, shown_by_stores)
    name, view = split_name(target.workflow)
    command = ["graphmill", "load", name]
    # A view is replaced together with the workspace of its project, so its load needs no option.
    if not view:
        if other_workflow(shown_by_stores, name, manifest.tables):
            command.append("--replace")
        shown_by_vector_stores = [
            shown_at_start[store.name] for store in stores if VECTORS in store.tables
        ]
        if any(other_vectors(shown, wanted_state, embeddings) for shown in shown_by_vector_stores):
            command.append("--re-embed")
    load_command = " ".join(command)
    # Counting again takes a scan of all relationships, which a quick check promises to leave out.
    wrong_counts = [] if quick else list(_find_wrong_counts(readable, load_command))
    changes = list(_find_changes(shown_at_start, stores))
    problems = [
        *_find_problems(shown_at_start, begun, wanted_state, load_command),
        *_find_outdated(readable, load_command),
        *wrong_counts,
        *changes,
    ]
    return Verification(
        workflow=target.workflow,
        version=target.version,
        quick=quick,
        problems=tuple(problems),
        tables=tuple(checks),
        dangling=tuple(dangling),
        load=load_command,
        miscounted=bool(wrong_counts),
        changed_meanwhile=bool(changes),
    )


def with_view(found: Verification, view: str, of_view: Verification) -> Verification:
    """Add the verification of a view to that of its workspace; one load repairs both."""
    suffix = f" (view {view})"
    problems = [f"view {view}: {problem}" for problem in of_view.problems]
    tables = [replace(check, store=f"{check.store}{suffix}") for check in of_view.tables]
    dangling = [replace(one, where=f"{one.where}{suffix}") for one in of_view.dangling]
    return replace(
        found,
        problems=(*found.problems, *problems),
        tables=(*found.tables, *tables),
        dangling=(*found.dangling, *dangling),
        miscounted=found.miscounted or of_view.miscounted,
        changed_meanwhile=found.changed_meanwhile or of_view.changed_meanwhile,
    )


def _check_quickly(store: Store, wanted: DesiredRows, shown: Live | None) -> list[TableCheck]:
    """Check the tables of a store by their states, or by hashes where the states differ.

    ``shown``: what the store shows.
    """
    states = store.table_states()
    checks: list[TableCheck] = []
    for table in store.tables:
        if _is_unchanged(shown, wanted, table, states):
            checks.append(check_state(store, table, wanted, states[table]))
        else:
            checks.append(check_hashes(store, table, wanted, store.hashes(table)))
    return checks


def _check_all_rows(
    store: Store,
    wanted: DesiredRows,
    target_hashes: Mapping[str, Mapping[str, pa.Table]],
    advanced: Advanced,
) -> tuple[list[TableCheck], list[Dangling]]:
    """Check the tables of a store by the contents of their rows, and find dangling references.

    ``target_hashes``: by store and table, HASHES of the rows that others refer to.
    """
    ids = _map_ids(target_hashes, store)
    checks: list[TableCheck] = []
    dangling: list[Dangling] = []
    for table in store.tables:
        targets = IN_STORES.get(table, {})
        # A table that no store holds cannot be checked as a target.
        checked_targets = {column: target for column, target in targets.items() if target in ids}
        references = References(store.name, reported_name(table), checked_targets, ids)
        # The hashes of a table that others refer to have been read already.
        hashes_read = target_hashes[store.name].get(table)
        stored = store.hashes(table) if hashes_read is None else hashes_read
        report = partial(advanced, f"{store.name} {references.table}")
        checks.append(check_rows(store, table, wanted, stored, references, report))
        dangling += references.dangling()
    return checks, dangling


def _is_unchanged(
    shown: Live | None, wanted: DesiredRows, table: str, states: Mapping[str, TableState]
) -> bool:
    """Return whether these very rows were loaded, and the table has the state it had then."""
    if shown is None or shown.loading or shown.version != wanted.version:
        return False
    return states[table] == shown.tables.get(table)


def _is_readable(live: Live | None) -> bool:
    """Return whether a store was loaded by this version; tables of another may lack columns."""
    return live is not None and live.schema_version == SCHEMA_VERSION


def _read_target_hashes(store: Store) -> dict[str, pa.Table]:
    """Return HASHES of the store's tables that others refer to, by table."""
    target_tables = [table for table in store.tables if reported_name(table) in REFERRED_TO]
    return {table: store.hashes(table) for table in target_tables}


def _map_ids(
    target_hashes: Mapping[str, Mapping[str, pa.Table]], store: Store
) -> dict[str, pa.ChunkedArray]:
    """Map the tables that others refer to, by the name that reports use, to their ids.

    They are those of the store itself, or those of another store for a table it does not have.
    """
    of_others = [tables for name, tables in target_hashes.items() if name != store.name]
    own = target_hashes.get(store.name, {})
    ids: dict[str, pa.ChunkedArray] = {}
    # The store's own tables come last, so they replace those of other stores.
    for tables in (*of_others, own):
        for table, rows in tables.items():
            ids[reported_name(table)] = rows["id"]
    return ids


def _find_problems(
    shown_by_store: Mapping[str, Live | None],
    begun: Mapping[str, bool],
    wanted_state: Live,
    load_command: str,
) -> Iterator[str]:
    """Yield messages about stores that do not show ``wanted_state``, or do not show the same.

    ``begun``: by store, whether a first load is under way. ``load_command``: the command that loads
    the tables.
    """
    advice = f"run '{load_command}'"
    for store, shown in shown_by_store.items():
        if shown is None and begun[store]:
            yield f"{store}: its first load is under way, or was cut off; {advice}"
        elif shown is None:
            yield f"{store}: nothing is loaded; {advice}"
        elif shown.schema_version != SCHEMA_VERSION:
            yield (
                f"{store}: loaded by an earlier graphmill (schema {shown.schema_version}), not"
                f" compared; {advice}"
            )
        elif shown.workflow != wanted_state.workflow:
            yield (
                f"{store}: workflow '{shown.workflow}' is loaded, not '{wanted_state.workflow}'; "
                f"run 'graphmill verify {split_name(shown.workflow)[0]}', or '{load_command}'"
            )
        elif shown.version != wanted_state.version:
            version = shorten_version(shown.version)
            wanted_version = shorten_version(wanted_state.version)
            yield f"{store}: version {version} is loaded, not {wanted_version}; {advice}"
        elif shown.embedding != wanted_state.embedding:
            yield (
                f"{store}: vectors of {dict(shown.embedding)} are loaded, not of"
                f" {dict(wanted_state.embedding)}; {advice}"
            )
        elif shown.dimensions != wanted_state.dimensions:
            yield (
                f"{store}: it records {shown.dimensions} dimensions, not"
                f" {wanted_state.dimensions}; {advice}"
            )
        if shown is not None and shown.loading:
            yield f"{store}: a load is under way, or was cut off; {advice}"
    versions: dict[str, str] = {}
    for store, shown in shown_by_store.items():
        versions[store] = shorten_version(shown.version) if shown else "nothing"
    if len(set(versions.values())) > 1:
        listed = ", ".join(f"{store} {version}" for store, version in versions.items())
        yield f"stores: they show different versions ({listed}); {advice}"


def _find_outdated(stores: Sequence[Store], load_command: str) -> Iterator[str]:
    """Yield messages about stores that differ from the settings, apart from their rows."""
    for store in stores:
        for fact in store.outdated():
            yield f"{store.name}: {fact}; run '{load_command}'"


def _find_wrong_counts(stores: Sequence[Store], load_command: str) -> Iterator[str]:
    """Yield messages about stores whose counts between communities do not match their rows."""
    for store in stores:
        if wrong := store.miscounted():
            yield (
                f"{store.name}: between communities, {counted(wrong, 'count')} of relationships"
                f" differ from what is loaded; run '{load_command} --full'"
            )


def _find_changes(
    shown_at_start: Mapping[str, Live | None], stores: Sequence[Store]
) -> Iterator[str]:
    """Yield messages about stores that were loaded during the verification."""
    for store in stores:
        fields_at_start = _fields_to_compare(shown_at_start[store.name])
        if _fields_to_compare(store.live()) != fields_at_start:
            yield f"{store.name}: loaded while it was read; run 'graphmill verify' again"


def _fields_to_compare(live: Live | None) -> Any:
    """Return all fields that show a load; the equality of Live leaves some of them out."""
    if live is None:
        return None
    return live, live.tables, live.loading


def shorten_version(version: str) -> str:
    """Return the beginning of a version, which is enough to distinguish it from others."""
    return version[:12]
