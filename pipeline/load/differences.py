"""Computes the deltas that bring a table of a store to the rows it should have.

Where the snapshots of the last load are known, they are compared with those of now. Otherwise the
hashes of all rows are compared with the hashes in the store.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import HASHES, STRING, STRINGS
from pipeline.load.desired_rows import (
    ALL_SOURCES,
    NO_IDS,
    PART_ROWS,
    VECTOR,
    VECTORS_OF,
    DesiredRows,
    KnownRows,
)
from pipeline.load.projection import STACKED, TABLE_SOURCES, TYPED, edge_types
from pipeline.load.row_hashes import TEXT, diff, hashes_of
from pipeline.snapshots.row_hashes import in_one_alone, row_hashes
from pipeline.snapshots.store import Snapshot
from pipeline.stores.base import Delta
from pipeline.stores.list_columns import frame_of

# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute

LINKS = "relationships"


def _list_columns(source: str) -> list[str]:
    """Return the columns of a snapshot table that any table of a store uses, without vectors."""
    columns: list[str] = []
    for sources in TABLE_SOURCES.values():
        columns += sources.get(source, ())
    return [column for column in dict.fromkeys(columns) if column != VECTOR]


COLUMNS: Mapping[str, list[str]] = {name: _list_columns(name) for name in ALL_SOURCES}
"""Snapshot table -> the columns that rows of the stores are made of. Vectors are looked up later,
for the rows that are written."""
FEW = {name: ["id", "keywords"] if name == LINKS else ["id"] for name in COLUMNS}
"""Snapshot table -> the columns that are read of differing rows if these may be very many."""
NO_ROWS = pa.schema([("id", STRING), ("keywords", STRINGS)]).empty_table()

Sides = tuple[pa.Table, pa.Table]
"""Rows of one snapshot table: those that only the snapshot of the last load has, and those that
only the snapshot of now has."""


@dataclass(frozen=True)
class Differences:
    """The differences between the rows a store was loaded with and the rows it should have.

    Snapshots are compared by the hashes of their rows; only rows that differ are read and
    projected. ``before``: the rows of the last load. ``now``: the rows that the store should have.
    ``found``: the differing rows by snapshot table, filled as they are needed.
    """

    before: DesiredRows
    now: DesiredRows
    found: dict[str, Sides] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def wanted(self) -> DesiredRows:
        """The rows of ``now`` with the counts of relationship types.

        They are computed from the counts of the last load and the differing relationships, so that
        not all relationships are read.
        """
        gone, new = self._read_differing(LINKS)
        counts = Counter(self.before.type_counts)
        counts.subtract(edge_types(frame_of(gone)["keywords"]))
        counts.update(edge_types(frame_of(new)["keywords"]))
        present = {type: count for type, count in counts.items() if count > 0}
        return replace(self.now, counted=present)

    def deltas(self, table: str) -> Iterator[Delta]:
        """Yield the deltas of a table of the store, each of up to PART_ROWS ids, in their order."""
        ids = self._list_touched(table)
        sources = TABLE_SOURCES[table]
        for start in range(0, len(ids), PART_ROWS):
            some = ids[start : start + PART_ROWS]
            sides_of: dict[str, Sides] = {}
            for name in sources:
                gone, new = self._read_differing(name)
                if len(gone) or len(new):
                    sides_of[name] = self._read_sides(name, some)
            # A row can differ in columns that this table does not use: such rows are left out.
            retyped = _intersection(self._retyped, some) if table in TYPED else NO_IDS
            differing = _union(
                retyped,
                *(_list_differing(sides, sources[name]) for name, sides in sides_of.items()),
            )
            if len(differing):
                delta = self._make_delta(table, differing, sides_of)
                yield replace(delta, following=len(ids) - start - len(some))

    def _make_delta(self, table: str, differing: pa.Array, sides_of: Mapping[str, Sides]) -> Delta:
        """Return the delta of the ids ``differing``.

        ``sides_of``: by snapshot table, the rows in which these ids were found to differ. They are
        not read again.
        """
        known_before: dict[str, KnownRows] = {}
        known_now: dict[str, KnownRows] = {}
        for name, sides in sides_of.items():
            # In a stacked table each id has rows in one source only, so every id is known here.
            ids = differing if table in STACKED else _ids_of(sides)
            known_before[name] = KnownRows(ids, sides[0])
            known_now[name] = KnownRows(ids, sides[1])
        rows = replace(self.wanted, known=known_now).some(table, differing)
        if table not in VECTORS_OF:
            stored = hashes_of(replace(self.before, known=known_before).some(table, differing))
            return replace(diff(rows, stored), before=stored)
        # The hash of a row with a vector would need the vector it had. So every differing row is
        # replaced. The first source of a table decides which rows the table has.
        first_source = next(iter(TABLE_SOURCES[table]))
        gone, new = self._read_differing(first_source)
        is_gone = pc.is_in(differing, value_set=gone["id"])
        is_new = pc.is_in(differing, value_set=new["id"])
        is_there_now = pc.is_in(differing, value_set=pa.array(rows["id"], TEXT))
        was_there = pc.or_(is_gone, pc.and_not(is_there_now, is_new))
        return _replace_rows(differing.filter(was_there), rows)

    def _read_sides(self, source: str, ids: pa.Array) -> Sides:
        """Return the differing rows of these ids, with every column but vectors."""
        gone, new = self._read_differing(source)
        gone = gone.filter(pc.is_in(gone["id"], value_set=ids))
        new = new.filter(pc.is_in(new["id"], value_set=ids))
        if gone.column_names == COLUMNS[source]:
            return gone, new
        return (
            self.before.read(source, COLUMNS[source], _ids_of([gone])),
            self.now.read(source, COLUMNS[source], _ids_of([new])),
        )

    def _list_touched(self, table: str) -> pa.Array:
        """Return the sorted ids of the rows of a store's table that may differ."""
        retyped = self._retyped if table in TYPED else NO_IDS
        ids = _union(
            retyped, *(_ids_of(self._read_differing(source)) for source in TABLE_SOURCES[table])
        )
        return ids.take(pc.sort_indices(ids))

    def _read_differing(self, source: str) -> Sides:
        """Return the differing rows of a snapshot table; they are read once."""
        if source not in self.found:
            self.found[source] = self._compare_snapshots(source)
        return self.found[source]

    def _compare_snapshots(self, source: str) -> Sides:
        """Read the differing rows: all columns if they are few, else those of FEW."""
        before = self.before.manifest.tables.get(source)
        now = self.now.manifest.tables.get(source)
        columns = COLUMNS[source] if _limit_differing(before, now) <= PART_ROWS else FEW[source]
        if before is None or now is None:
            return self.before.whole(source, columns), self.now.whole(source, columns)
        if before.sha256 == now.sha256:
            return NO_ROWS, NO_ROWS
        if self.before.lacks(source, columns) or self.now.lacks(source, columns):
            return self.before.whole(source, columns), self.now.whole(source, columns)
        return self.now.snapshots.tables.difference(before, now, columns)

    @cached_property
    def _retyped(self) -> pa.Array:
        """The ids of relationships whose type in the store changes though they do not.

        A store keeps the most frequent types as types. A type can come to be kept, or cease to be,
        because other relationships came or went.
        """
        before = self.before.type_counts
        now = self.wanted.type_counts
        switched = set(self.before.kept_types) ^ set(self.wanted.kept_types)
        # A type that is on one side only belongs to relationships that differ anyway.
        moved = {type for type in switched if before.get(type) and now.get(type)}
        if not moved:
            return NO_IDS
        found: list[pa.Array] = [NO_IDS]
        links = self.now.manifest.tables[LINKS]
        for batch in self.now.snapshots.tables.read_batches(links, ["id", "keywords"]):
            rows = frame_of(pa.table(batch))
            has_moved = [type in moved for type in edge_types(rows["keywords"])]
            found.append(pa.array(rows["id"][has_moved].to_numpy(dtype=object), TEXT))
        return pa.concat_arrays(found)


def _replace_rows(old: pa.Array, rows: pd.DataFrame) -> Delta:
    """Return the delta that replaces the rows ``old`` in the store by ``rows``.

    ``old``: ids that the store has. ``rows``: the rows of these ids that there are now, and new
    ones. Ids without a row now are deleted.
    """
    ids = pa.array(rows["id"], TEXT)
    is_old = pc.is_in(ids, value_set=old).to_numpy(zero_copy_only=False)
    deleted = old.filter(pc.invert(pc.is_in(old, value_set=ids))).to_pylist()
    return Delta(
        rows[~is_old], rows[is_old], deleted, 0, hashes_of(rows), before=HASHES.empty_table()
    )


def _list_differing(sides: Sides, columns: Sequence[str]) -> pa.Array:
    """Return the ids of the rows that differ in these columns.

    If a vector is among the columns, all rows of both sides count as differing: vectors are not
    read for the comparison.
    """
    if VECTOR in columns:
        return _ids_of(sides)
    gone, new = sides
    gone_differs, new_differs = in_one_alone(
        row_hashes(gone.select(columns), None), row_hashes(new.select(columns), None)
    )
    return _ids_of([gone.filter(pa.array(gone_differs)), new.filter(pa.array(new_differs))])


def _ids_of(sides: Iterable[pa.Table]) -> pa.Array:
    return _union(*(side["id"] for side in sides))


def _union(*ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return each id once, in the order in which they first occur."""
    chunks: list[pa.Array] = []
    for some in ids:
        chunks += some.chunks if isinstance(some, pa.ChunkedArray) else [some]
    return pc.unique(pa.chunked_array(chunks, TEXT))


def _intersection(ids: pa.Array, others: pa.Array) -> pa.Array:
    return ids.filter(pc.is_in(ids, value_set=others))


def _limit_differing(before: Snapshot | None, now: Snapshot | None) -> int:
    """Return an upper limit of the number of rows that differ, from the lists of files alone."""
    files_before = {file.path: file for file in before.files} if before else {}
    files_now = {file.path: file for file in now.files} if now else {}
    limit = 0
    for ours, theirs in ((files_before, files_now), (files_now, files_before)):
        for path, file in ours.items():
            if path in theirs:
                # A file never changes: its rows can only be marked as deleted.
                limit += abs(file.gone_rows - theirs[path].gone_rows)
            else:
                limit += file.live
    return limit


def inserted(now: DesiredRows, table: str) -> Iterator[Delta]:
    """Yield the deltas that fill an empty table of the store."""
    following = now.count(table)
    for rows in now.parts(table):
        following -= len(rows)
        yield replace(diff(rows, HASHES.empty_table()), following=following)


def compared(now: DesiredRows, table: str, hashes: pa.Table, stored: pa.Table) -> Iterator[Delta]:
    """Compare the hashes of all rows with those in the store, and yield the deltas.

    ``hashes``: HASHES of all rows of ``now``, in the order of its rows. ``stored``: HASHES of the
    store. The first delta deletes rows and counts the unchanged ones; it writes none.
    """
    light = diff(hashes.to_pandas(), stored)
    is_new = np.zeros(len(hashes), bool)
    is_new[light.inserted.index] = True
    is_changed = is_new.copy()
    is_changed[light.updated.index] = True
    none = now.some(table, NO_IDS)
    same = hashes.filter(pa.array(~is_changed))
    following = int(is_changed.sum())
    yield Delta(none, none, light.deleted, light.unchanged, after=same, following=following)
    for rows, new in _read_changed(now, table, hashes["id"], is_new, is_changed):
        following -= len(rows)
        yield Delta(rows[new], rows[~new], (), 0, after=hashes_of(rows), following=following)


def _read_changed(
    now: DesiredRows, table: str, ids: Any, is_new: np.ndarray, changed: np.ndarray
) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    """Yield the changed rows, and for each whether it is new.

    ``is_new`` and ``changed`` have a flag for each of ``ids``. Few rows are looked up by their ids.
    For many rows, all rows are made and filtered.
    """
    if not changed.any():
        return
    if changed.sum() <= PART_ROWS:
        rows = now.some(table, ids.filter(pa.array(changed)).combine_chunks())
        new = pc.is_in(pa.array(rows["id"], TEXT), value_set=ids.filter(pa.array(is_new)))
        yield rows, new.to_numpy(zero_copy_only=False)
        return
    start = 0
    for rows in now.parts(table):
        here = slice(start, start + len(rows))
        start += len(rows)
        yield rows[changed[here]], is_new[here][changed[here]]
