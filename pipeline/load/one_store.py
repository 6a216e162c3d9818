"""Bring one store to what a manifest says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.load.contents import Expected, altered_ids
from pipeline.load.diff import diff
from pipeline.load.remembered import Remembered
from pipeline.load.wanted import Wanted
from pipeline.schema_version import SCHEMA_VERSION
from pipeline.stores.ahead import ahead
from pipeline.stores.base import Advanced, Live, Store, TableState, Waits, Writer

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Left:
    """What the load before has left, where that is known: the version of each table's rows, and its state then."""

    versions: Mapping[str, str]
    states: Mapping[str, TableState]


def load_store(
    store: Store, wanted: Wanted, live: Live, full: bool, advanced: Advanced, waits: Waits
) -> dict[str, Counts]:
    """Table -> {inserted, updated, deleted, unchanged}.

    A table that is as the load before left it, and should stay so, is read neither here nor there. The rows of a table
    are made while those of the one before are written. ``full``: all are compared, and hashed anew.
    """
    remembered = Remembered(wanted.snapshots.root)
    counts: dict[str, Counts] = {}
    with store.writing(live, advanced, waits) as writer:
        left = Left({}, {}) if full else _left(store, live, remembered)
        differing = [table for table in store.tables if left.versions.get(table) != wanted.versions[table]]
        states = cache(writer.states)  # asked for while the rows of the second table are made
        made_of = wanted.hashed if full else wanted.rows  # where little is written, few vectors are held
        with ahead(map(made_of, differing)) as made:
            for table in store.tables:
                rows = next(made) if table in differing else None
                as_left = table in left.versions and states()[table] == left.states.get(table)
                if as_left and rows is None:
                    counts[table] = unchanged(states()[table])
                    continue
                rows = wanted.rows(table) if rows is None else rows
                remembered.keep(table, wanted.versions[table], rows)
                known = remembered.hashes(table, left.versions[table]) if as_left else None
                delta = diff(rows, known if known is not None else _stored(store, writer, table, rows, full))
                inserted, updated = (wanted.with_vectors(table, some) for some in (delta.inserted, delta.updated))
                writer.apply(table, replace(delta, inserted=inserted, updated=updated))
                counts[table] = delta.counts
            writer.publish()
    return {reported_name(table, store): count for table, count in counts.items()}


def unchanged(state: TableState) -> Counts:
    """The counts of a table that nothing is done to."""
    return {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": state.rows}


def reported_name(table: str, store: Store) -> str:
    """What people call it: a graph database has no table of vectors to tell its relationships from."""
    return "relationships" if table == "edges" and "relationships" not in store.tables else table


def _left(store: Store, live: Live, remembered: Remembered) -> Left:
    """Nothing is known where vectors are another model's, or rows kept by other settings, whatever their hashes say."""
    shown = store.live()
    if shown is None or shown.schema_version != SCHEMA_VERSION or shown.embedding_key != live.embedding_key:
        return Left({}, {})
    if store.outdated():
        return Left({}, {})
    return Left(remembered.versions(shown.version), shown.tables)


def _stored(store: Store, writer: Writer, table: str, rows: pd.DataFrame, full: bool) -> pa.Table:
    """id, row_hash; with ``full`` another one for the rows that are not what their row_hash says."""
    stored = writer.hashes(table)
    if not full:
        return stored
    altered = altered_ids(store.rows(table, []), Expected.of(rows, store.as_stored(rows)))
    row_hashes = pc.if_else(pc.is_in(stored["id"], value_set=altered), "", stored["row_hash"])
    return stored.set_column(1, "row_hash", row_hashes)
