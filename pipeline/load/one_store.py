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

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

Counts = Mapping[str, int]


@dataclass(frozen=True)
class LastLoad:
    """What the load before has left: the rows it should have had, and the state of each table when
    it had ended."""

    rows: DesiredRows
    states: Mapping[str, TableState]


def load_store(
    store: Store, wanted: DesiredRows, live: Live, full: bool, advanced: Advanced, waits: Waits
) -> dict[str, Counts]:
    """Table -> {inserted, updated, deleted, unchanged}.

    Of a table that is as the load before left it, only the rows are made of which that load's
    snapshots and these differ; of others all, to be compared with the hashes in the store. Rows are
    made while those before them are written. ``full``: all are compared, and those in the store
    hashed anew.
    """
    loaded = LoadedVersions(wanted.snapshots)
    counts = {table: dict.fromkeys(("inserted", "updated", "deleted"), 0) for table in store.tables}
    with store.writing(live, partial(_reported, advanced), waits) as writer:
        left = None if full else _left(store, live, wanted, loaded)
        if left is None:
            # Nothing is written before; what differs is read at once, and found whole as it is.
            wanted.require_whole()
        differences = Differences(left.rows, wanted) if left else None
        wanted = differences.wanted if differences else wanted
        loaded.keep(live.version, wanted.as_loaded())
        as_left = _as_left(writer, left) if left else ()
        load = StoreLoad(store, writer, wanted, differences, as_left, full)
        with ahead(load.deltas()) as deltas:
            for table, delta in deltas:
                with load.using_writer:
                    writer.apply(table, delta)
                for kind in counts[table]:
                    counts[table][kind] += delta.counts[kind]
        writer.publish()
    return {
        reported_name(table): {
            **count,
            "unchanged": wanted.count(table) - count["inserted"] - count["updated"],
        }
        for table, count in counts.items()
    }


def _left(store: Store, live: Live, wanted: DesiredRows, loaded: LoadedVersions) -> LastLoad | None:
    """None where it is not known, or vectors are another model's, or rows kept by other settings,
    whatever their hashes say."""
    shown = store.live()
    if (
        shown is None
        or shown.schema_version != SCHEMA_VERSION
        or shown.embedding_key != live.embedding_key
    ):
        return None
    found = loaded.find(shown.version, wanted.manifest)
    if found is None or list(found.code) != wanted.code or store.outdated():
        return None
    manifest = Manifest(shown.workflow, found.tables)
    return LastLoad(
        replace(wanted, manifest=manifest, max_types=found.max_types, counted=found.types),
        shown.tables,
    )


def _as_left(writer: Writer, left: LastLoad) -> frozenset[str]:
    """The tables that have the rows they had then."""
    return frozenset(
        table for table, state in writer.states().items() if state == left.states.get(table)
    )


@dataclass(frozen=True)
class StoreLoad:
    """``as_left``: the tables that ``differences`` tell all of. ``using_writer``: what one thread
    writes with, another asks for hashes."""

    store: Store
    writer: Writer
    wanted: DesiredRows
    differences: Differences | None
    as_left: Collection[str]
    full: bool
    using_writer: Lock = field(default_factory=Lock)

    def deltas(self) -> Iterator[tuple[str, Delta]]:
        """Of each table in turn."""
        for table in self.store.tables:
            known = self.differences if table in self.as_left else None
            for delta in known.deltas(table) if known else self._compared(table):
                yield table, delta

    def _compared(self, table: str) -> Iterator[Delta]:
        """By the hashes of all rows."""
        with self.using_writer:
            stored = self.writer.hashes(table)
        if not len(stored):
            return inserted(self.wanted, table)
        if not self.full:
            return compared(self.wanted, table, self.wanted.hashes(table), stored)
        parts = self.wanted.parts(table)
        expected = ExpectedTable.joined(
            ExpectedTable.of(part, self.store.as_stored(part)) for part in parts
        )
        altered = altered_ids(self.store.rows(table, []), expected)
        row_hashes = pc.if_else(pc.is_in(stored["id"], value_set=altered), "", stored["row_hash"])
        return compared(
            self.wanted, table, expected.hashes, stored.set_column(1, "row_hash", row_hashes)
        )


def _reported(advanced: Advanced, part: str, done: int, rows: int) -> None:
    advanced(reported_name(part), done, rows)


def reported_name(table: str) -> str:
    """What people call it: a graph database has no table of vectors to tell its relationships
    from."""
    return {"sourced_nodes": "nodes", "sourced_edges": "relationships"}.get(table, table)
