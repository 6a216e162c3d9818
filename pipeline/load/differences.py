"""What a table of a store needs to hold the rows it should: found by the snapshots it was loaded from, else by the
hashes beside its rows."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import STRING, STRINGS
from pipeline.load.desired_rows import NO_IDS, PART_ROWS, VECTORS_OF, DesiredRows
from pipeline.load.projection import TABLE_SOURCES, TYPED, edge_types
from pipeline.load.row_hashes import TEXT, diff, hashes_of
from pipeline.stores.base import HASHES, Delta
from pipeline.stores.list_columns import frame_of

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

LINKS = "relationships"
NO_ROWS = pa.schema([("id", STRING), ("keywords", STRINGS)]).empty_table()


@dataclass(frozen=True)
class Differences:
    """Between what a store was loaded with, ``before``, and what it should have ``now``. Snapshots are compared by the
    hashes of their rows, and only rows that differ are made."""

    before: DesiredRows
    now: DesiredRows
    found: dict[str, tuple[pa.Table, pa.Table]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def wanted(self) -> DesiredRows:
        """What it should have now, with its types counted by those before."""
        gone, new = (Counter(edge_types(frame_of(rows)["keywords"])) for rows in self._rows(LINKS))
        counts = Counter(self.before.type_counts)
        counts.subtract(gone)
        counts.update(new)
        return replace(self.now, counted=+counts)

    def deltas(self, table: str) -> Iterator[Delta]:
        ids = self._ids(table)
        for start in range(0, len(ids), PART_ROWS):
            some = ids[start : start + PART_ROWS]
            before = hashes_of(self.before.some(table, some, vectors=False))
            delta = diff(self.wanted.some(table, some, vectors=False), before)
            following = len(ids) - start - len(some)
            if table in VECTORS_OF:
                yield replace(self._with_vectors(table, delta), before=HASHES.empty_table(), following=following)
            else:
                yield replace(delta, before=before, following=following)

    def _with_vectors(self, table: str, delta: Delta) -> Delta:
        """The same, where vectors count as well. Few are read: most rows that differ have the same as before."""
        new = pa.array(delta.inserted["id"], TEXT)
        other = _intersection(delta.after["id"], self._differing(VECTORS_OF[table]))
        changed = pc.unique(pa.chunked_array([new, pa.array(delta.updated["id"], TEXT), *other.chunks], TEXT))
        rows = self.wanted.some(table, changed)
        is_new = pc.is_in(pa.array(rows["id"], TEXT), value_set=new).to_numpy(zero_copy_only=False)
        return replace(delta, inserted=rows[is_new], updated=rows[~is_new], after=hashes_of(rows))

    def _ids(self, table: str) -> pa.Array:
        """Of the rows that may differ, in order."""
        found = [self._differing(source) for source in TABLE_SOURCES[table]]
        if table in TYPED:
            found.append(self._retyped)
        ids = pc.unique(pa.chunked_array(found, TEXT))
        return ids.take(pc.sort_indices(ids))

    def _differing(self, source: str) -> pa.Array:
        """Ids of the rows of a snapshot table that are of one side alone, or not the same on both."""
        gone, new = self._rows(source)
        return pc.unique(pa.chunked_array([*gone["id"].chunks, *new["id"].chunks], TEXT))

    def _rows(self, source: str) -> tuple[pa.Table, pa.Table]:
        """The rows of a snapshot table that are before alone, and those that are now alone."""
        if source not in self.found:
            self.found[source] = self._compared(source, ["id", "keywords"] if source == LINKS else ["id"])
        return self.found[source]

    def _compared(self, source: str, columns: list[str]) -> tuple[pa.Table, pa.Table]:
        before, now = (side.manifest.tables.get(source) for side in (self.before, self.now))
        if before is None or now is None:
            return self.before.whole(source, columns), self.now.whole(source, columns)
        if before.sha256 == now.sha256:
            return NO_ROWS.select(columns), NO_ROWS.select(columns)
        return self.now.snapshots.difference(before, now, columns)

    @cached_property
    def _retyped(self) -> pa.Array:
        """Ids of the relationships whose type becomes one of those that are kept, or ceases to be, because others have
        come or gone."""
        moved = set(self.before.kept_types) ^ set(self.wanted.kept_types)
        moved = {type for type in moved if self.before.type_counts.get(type) and self.wanted.type_counts.get(type)}
        found: list[pa.Array] = [NO_IDS]
        for batch in self.now.snapshots.batches(self.now.manifest.tables[LINKS], ["id", "keywords"]) if moved else ():
            rows = frame_of(pa.table(batch))
            found.append(pa.array(rows["id"][[type in moved for type in edge_types(rows["keywords"])]], TEXT))
        return pa.concat_arrays(found)


def _intersection(ids: pa.ChunkedArray, others: pa.Array) -> pa.ChunkedArray:
    return ids.filter(pc.is_in(ids, value_set=others))


def inserted(now: DesiredRows, table: str) -> Iterator[Delta]:
    """Of a table without rows."""
    following = now.count(table)
    for rows in now.parts(table):
        following -= len(rows)
        yield replace(diff(rows, HASHES.empty_table()), following=following)


def compared(now: DesiredRows, table: str, hashes: pa.Table, stored: pa.Table) -> Iterator[Delta]:
    """By the hashes of all rows, which are in the order of the rows. ``stored``: those that the store has."""
    light = diff(hashes.to_pandas(), stored)
    is_new, is_other = np.zeros((2, len(hashes)), bool)
    is_new[light.inserted.index] = is_other[light.updated.index] = True
    changed = is_new | is_other
    none = now.some(table, NO_IDS)
    same = hashes.filter(pa.array(~changed))
    following = int(changed.sum())
    yield Delta(none, none, light.deleted, light.unchanged, after=same, following=following)
    for rows, new in _written(now, table, hashes["id"], is_new, changed):
        following -= len(rows)
        yield Delta(rows[new], rows[~new], (), 0, after=hashes_of(rows), following=following)


def _written(
    now: DesiredRows, table: str, ids: Any, is_new: np.ndarray, changed: np.ndarray
) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    """The changed ones of all rows, and which are new. Few are looked up; to have many, all are gone through."""
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
