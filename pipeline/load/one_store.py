"""Bring one store to the rows that it should have, writing only what differs."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

import pyarrow.compute

from pipeline.contract.schema_version import SCHEMA_VERSION
from pipeline.load.desired_rows import DesiredRows
from pipeline.load.differences import Differences, compared, inserted
from pipeline.load.last_load import LoadedVersions
from pipeline.load.row_hashes import ExpectedTable, altered_ids
from pipeline.snapshots.store import Manifest
from pipeline.stores.base import Advanced, Delta, Live, Store, TableState, Waits, Writer
from pipeline.stores.connection import ahead

# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute

Counts = Mapping[str, int]
"""Numbers of rows: {inserted, updated, deleted, unchanged}."""


@dataclass(frozen=True)
class LastLoad:
    """The last load of a store: the rows it was to write, and the state of each table at its
    end."""

    rows: DesiredRows
    states: Mapping[str, TableState]


def load_store(
    store: Store, wanted: DesiredRows, new_live: Live, full: bool, advanced: Advanced, waits: Waits
) -> dict[str, Counts]:
    """Bring a store to the rows ``wanted`` and let it show ``new_live``.

    Return, by table, the numbers of rows {inserted, updated, deleted, unchanged}. If a table is
    unchanged since the last load, only rows whose snapshots differ are made of these. Otherwise all
    rows are made, and their hashes compared with those in the store. With ``full``, all rows are
    compared, and the hashes of the rows in the store are computed again from their contents.
    """
    loaded = LoadedVersions(wanted.snapshots)
    counts = {table: dict.fromkeys(("inserted", "updated", "deleted"), 0) for table in store.tables}
    with store.writing(new_live, partial(_report_progress, advanced), waits) as writer:
        last_load = None if full else _find_last_load(store, new_live, wanted, loaded)
        if last_load is None:
            # Damaged files are found before the first write. Where only differences are read, the
            # read itself finds them.
            wanted.require_whole()
            to_write = wanted
            load = StoreLoad(store, writer, to_write, None, (), full)
        else:
            differences = Differences(last_load.rows, wanted)
            # The same rows, with counts of types for which not all relationships are read.
            to_write = differences.wanted
            unchanged_tables = _list_unchanged(writer, last_load)
            load = StoreLoad(store, writer, to_write, differences, unchanged_tables, full)
        # A record is found only by the version that a store shows, so it does no harm if the load
        # fails. Kept after the load, it could be missing, and the next load would compare all rows.
        loaded.keep(new_live.version, to_write.as_loaded())
        # A second thread makes the next delta while one is written.
        with ahead(load.deltas()) as deltas:
            for table, delta in deltas:
                with load.writer_lock:
                    writer.apply(table, delta)
                for kind in counts[table]:
                    counts[table][kind] += delta.counts[kind]
        writer.publish()
    reported: dict[str, Counts] = {}
    for table, count in counts.items():
        unchanged = to_write.count(table) - count["inserted"] - count["updated"]
        reported[reported_name(table)] = {**count, "unchanged": unchanged}
    return reported


def _find_last_load(
    store: Store, new_live: Live, wanted: DesiredRows, loaded: LoadedVersions
) -> LastLoad | None:
    """Return the last load of the store, or None if its snapshots cannot be compared with those of
    now.

    They cannot be compared if that load is unknown, if other code made its rows, if its vectors are
    another model's, or if the store keeps rows by other settings. In the last two cases equal
    hashes do not mean equal rows in the store.
    """
    stored_live = store.live()
    if (
        stored_live is None
        or stored_live.schema_version != SCHEMA_VERSION
        or stored_live.embedding_key != new_live.embedding_key
    ):
        return None
    found = loaded.find(stored_live.version, wanted.manifest)
    if found is None or list(found.code) != wanted.code or store.outdated():
        return None
    manifest = Manifest(stored_live.workflow, found.tables)
    rows = replace(
        wanted, manifest=manifest, max_types=found.max_types, known_type_counts=found.types
    )
    return LastLoad(rows, stored_live.tables)


def _list_unchanged(writer: Writer, last_load: LastLoad) -> frozenset[str]:
    """Return the tables whose rows are still those that the last load left."""
    return frozenset(
        table for table, state in writer.states().items() if state == last_load.states.get(table)
    )


@dataclass(frozen=True)
class StoreLoad:
    """A load of a store under way.

    ``unchanged_tables``: the tables whose deltas follow from ``differences`` alone. For others
    the hashes of all rows are compared. ``writer_lock`` is held while the writer is used: one
    thread writes while another reads hashes with the same writer.
    """

    store: Store
    writer: Writer
    wanted: DesiredRows
    differences: Differences | None
    unchanged_tables: Collection[str]
    full: bool
    writer_lock: Lock = field(default_factory=Lock)

    def deltas(self) -> Iterator[tuple[str, Delta]]:
        """Yield (table, delta), all deltas of one table after the other."""
        for table in self.store.tables:
            if self.differences is not None and table in self.unchanged_tables:
                deltas = self.differences.deltas(table)
            else:
                deltas = self._compare_all_rows(table)
            for delta in deltas:
                yield table, delta

    def _compare_all_rows(self, table: str) -> Iterator[Delta]:
        """Return the deltas of a table, found by the hashes of all of its rows."""
        with self.writer_lock:
            stored = self.writer.hashes(table)
        if not len(stored):
            return inserted(self.wanted, table)
        if not self.full:
            return compared(self.wanted, table, self.wanted.hashes(table), stored)
        expected = ExpectedTable.joined(
            ExpectedTable.of(rows, self.store.as_stored(rows)) for rows in self.wanted.parts(table)
        )
        altered = altered_ids(self.store.rows(table, []), expected)
        # No row has an empty hash: an altered row is unlike any wanted row, so it is written again.
        is_altered = pc.is_in(stored["id"], value_set=altered)
        row_hashes = pc.if_else(is_altered, "", stored["row_hash"])
        column = stored.schema.get_field_index("row_hash")
        stored = stored.set_column(column, "row_hash", row_hashes)
        return compared(self.wanted, table, expected.hashes, stored)


def _report_progress(advanced: Advanced, part: str, done: int, rows: int) -> None:
    advanced(reported_name(part), done, rows)


def reported_name(table: str) -> str:
    """Return the name of a store's table for reports.

    A store of the graph alone has tables with "sourced_" in front, which reports leave out. Its
    edges are reported as relationships: it has no table of vectors of that name.
    """
    return {"sourced_nodes": "nodes", "sourced_edges": "relationships"}.get(table, table)
