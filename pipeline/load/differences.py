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
        return replace(self.now, known_type_counts=present)

    def deltas(self, table: str) -> Iterator[Delta]:
        """Yield the deltas of a table of the store, each of up to PART_ROWS ids, in their order."""
        ids = self._list_touched(table)
        sources = TABLE_SOURCES[table]
        for start in range(0, len(ids), PART_ROWS):
            ids_of_part = ids[start : start + PART_ROWS]
            rows_after_part = len(ids) - start - len(ids_of_part)
            sides_of: dict[str, Sides] = {}
            differing_ids: list[pa.Array] = []
            if table in TYPED:
                differing_ids.append(_intersection(self._retyped, ids_of_part))
            for name, columns in sources.items():
                gone, new = self._read_differing(name)
                if len(gone) or len(new):
                    sides = self._read_sides(name, ids_of_part)
                    sides_of[name] = sides
                    # A row can differ in columns that this table does not use: it is left out.
                    differing_ids.append(_list_differing(sides, columns))
            differing = _union(*differing_ids)
            if len(differing):
                delta = self._make_delta(table, differing, sides_of)
                yield replace(delta, following=rows_after_part)

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
            gone, new = sides
            known_before[name] = KnownRows(ids, gone)
            known_now[name] = KnownRows(ids, new)
        desired_now = replace(self.wanted, known=known_now)
        rows = desired_now.some(table, differing)
        if table not in VECTORS_OF:
            desired_before = replace(self.before, known=known_before)
            stored = hashes_of(desired_before.some(table, differing))
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
        all_gone, all_new = self._read_differing(source)
        gone = all_gone.filter(pc.is_in(all_gone["id"], value_set=ids))
        new = all_new.filter(pc.is_in(all_new["id"], value_set=ids))
        columns = COLUMNS[source]
        if gone.column_names == columns:
            return gone, new
        # Only the columns of FEW were read, because very many rows may differ.
        whole_gone = self.before.read(source, columns, _ids_of([gone]))
        whole_new = self.now.read(source, columns, _ids_of([new]))
        return whole_gone, whole_new

    def _list_touched(self, table: str) -> pa.Array:
        """Return the sorted ids of the rows of a store's table that may differ."""
        touched = [_ids_of(self._read_differing(source)) for source in TABLE_SOURCES[table]]
        if table in TYPED:
            touched.append(self._retyped)
        ids = _union(*touched)
        sorted_places = pc.sort_indices(ids)
        return ids.take(sorted_places)

    def _read_differing(self, source: str) -> Sides:
        """Return the differing rows of a snapshot table; they are read once."""
        if source not in self.found:
            self.found[source] = self._compare_snapshots(source)
        return self.found[source]

    def _compare_snapshots(self, source: str) -> Sides:
        """Read the differing rows: all columns if they are few, else those of FEW."""
        before = self.before.manifest.tables.get(source)
        now = self.now.manifest.tables.get(source)
        are_few = _limit_differing(before, now) <= PART_ROWS
        columns = COLUMNS[source] if are_few else FEW[source]
        if before is not None and now is not None:
            if before.sha256 == now.sha256:
                return NO_ROWS, NO_ROWS
            one_lacks_columns = self.before.lacks(source, columns) or self.now.lacks(
                source, columns
            )
            if not one_lacks_columns:
                return self.now.snapshots.tables.difference(before, now, columns)
        # Without two tables of the same columns all rows count as differing.
        return self.before.whole(source, columns), self.now.whole(source, columns)

    @cached_property
    def _retyped(self) -> pa.Array:
        """The ids of relationships whose type in the store changes though they do not.

        A store keeps the most frequent types as types. A type can come to be kept, or cease to be,
        because other relationships came or went.
        """
        counts_before = self.before.type_counts
        counts_now = self.wanted.type_counts
        kept_before = set(self.before.kept_types)
        kept_now = set(self.wanted.kept_types)
        moved: set[str] = set()
        for type in kept_before ^ kept_now:
            # A type that is on one side only belongs to relationships that differ anyway.
            if counts_before.get(type) and counts_now.get(type):
                moved.add(type)
        if not moved:
            return NO_IDS
        found: list[pa.Array] = [NO_IDS]
        tables = self.now.snapshots.tables
        links = self.now.manifest.tables[LINKS]
        for batch in tables.read_batches(links, ["id", "keywords"]):
            rows = frame_of(pa.table(batch))
            has_moved = [type in moved for type in edge_types(rows["keywords"])]
            ids = rows["id"][has_moved]
            found.append(pa.array(ids.to_numpy(dtype=object), TEXT))
        return pa.concat_arrays(found)


def _replace_rows(old: pa.Array, rows: pd.DataFrame) -> Delta:
    """Return the delta that replaces the rows ``old`` in the store by ``rows``.

    ``old``: ids that the store has. ``rows``: the rows of these ids that there are now, and new
    ones. Ids without a row now are deleted.
    """
    ids = pa.array(rows["id"], TEXT)
    is_old = pc.is_in(ids, value_set=old).to_numpy(zero_copy_only=False)
    is_there_still = pc.is_in(old, value_set=ids)
    deleted = old.filter(pc.invert(is_there_still))
    return Delta(
        inserted=rows[~is_old],
        updated=rows[is_old],
        deleted=deleted.to_pylist(),
        unchanged=0,
        after=hashes_of(rows),
        before=HASHES.empty_table(),
    )


def _list_differing(sides: Sides, columns: Sequence[str]) -> pa.Array:
    """Return the ids of the rows that differ in these columns.

    If a vector is among the columns, all rows of both sides count as differing: vectors are not
    read for the comparison.
    """
    if VECTOR in columns:
        return _ids_of(sides)
    gone, new = sides
    hashes_of_gone = row_hashes(gone.select(columns), None)
    hashes_of_new = row_hashes(new.select(columns), None)
    gone_differs, new_differs = in_one_alone(hashes_of_gone, hashes_of_new)
    differing_gone = gone.filter(pa.array(gone_differs))
    differing_new = new.filter(pa.array(new_differs))
    return _ids_of([differing_gone, differing_new])


def _ids_of(sides: Iterable[pa.Table]) -> pa.Array:
    return _union(*(side["id"] for side in sides))


def _union(*ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return each id once, in the order in which they first occur."""
    chunks: list[pa.Array] = []
    for ids_of_one in ids:
        if isinstance(ids_of_one, pa.ChunkedArray):
            chunks += ids_of_one.chunks
        else:
            chunks.append(ids_of_one)
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
    empty_store = HASHES.empty_table()
    following = now.count(table)
    for rows in now.parts(table):
        following -= len(rows)
        delta = diff(rows, empty_store)
        yield replace(delta, following=following)


def compared(now: DesiredRows, table: str, hashes: pa.Table, stored: pa.Table) -> Iterator[Delta]:
    """Compare the hashes of all rows with those in the store, and yield the deltas.

    ``hashes``: HASHES of all rows of ``now``, in the order of its rows. ``stored``: HASHES of the
    store. The first delta deletes rows and counts the unchanged ones; it writes none.
    """
    # The rows of this delta are only ids and hashes; their index is the position in ``hashes``.
    delta_of_hashes = diff(hashes.to_pandas(), stored)
    is_new = np.zeros(len(hashes), bool)
    is_new[delta_of_hashes.inserted.index] = True
    is_changed = is_new.copy()
    is_changed[delta_of_hashes.updated.index] = True
    no_rows = now.some(table, NO_IDS)
    following = int(is_changed.sum())
    yield Delta(
        inserted=no_rows,
        updated=no_rows,
        deleted=delta_of_hashes.deleted,
        unchanged=delta_of_hashes.unchanged,
        after=hashes.filter(pa.array(~is_changed)),
        following=following,
    )
    for rows, row_is_new in _read_changed(now, table, hashes["id"], is_new, is_changed):
        following -= len(rows)
        yield Delta(
            inserted=rows[row_is_new],
            updated=rows[~row_is_new],
            deleted=(),
            unchanged=0,
            after=hashes_of(rows),
            following=following,
        )


def _read_changed(
    now: DesiredRows, table: str, ids: Any, is_new: np.ndarray, changed: np.ndarray
) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    """Yield the changed rows, and for each whether it is new.

    ``is_new`` and ``changed`` have a flag for each of ``ids``. Few rows are looked up by their ids.
    For many rows, all rows are made and filtered.
    """
    if not changed.any():
        return
    if np.count_nonzero(changed) <= PART_ROWS:
        changed_ids = ids.filter(pa.array(changed)).combine_chunks()
        new_ids = ids.filter(pa.array(is_new))
        rows = now.some(table, changed_ids)
        row_is_new = pc.is_in(pa.array(rows["id"], TEXT), value_set=new_ids)
        yield rows, row_is_new.to_numpy(zero_copy_only=False)
        return
    start = 0
    for rows in now.parts(table):
        end = start + len(rows)
        changed_of_part = changed[start:end]
        new_of_part = is_new[start:end]
        start = end
        yield rows[changed_of_part], new_of_part[changed_of_part]
