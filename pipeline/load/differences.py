"""What a table of a store needs to hold the rows it should: found by the snapshots it was loaded from, else by the
hashes beside its rows."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.load.desired_rows import NO_IDS, PART_ROWS, DesiredRows
from pipeline.load.projection import TABLE_SOURCES, edge_types
from pipeline.load.row_hashes import TEXT, diff, hashes_of
from pipeline.stores.base import HASHES, Delta
from pipeline.stores.list_columns import frame_of

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

LINKS = "relationships"


@dataclass(frozen=True)
class Differences:
    """Between what a store was loaded with, ``before``, and what it should have ``now``."""

    before: DesiredRows
    now: DesiredRows
    found: dict[str, pa.Array] = field(default_factory=dict, repr=False, compare=False)

    def deltas(self, table: str) -> Iterator[Delta]:
        """By the rows of which a snapshot differs alone."""
        ids = self._ids(table)
        for start in range(0, len(ids), PART_ROWS):
            some = ids[start : start + PART_ROWS]
            before = hashes_of(self.before.some(table, some))
            delta = diff(self.now.some(table, some), before)
            yield replace(delta, before=before, following=len(ids) - start - len(some))

    def _ids(self, table: str) -> pa.Array:
        found = [self._differing(source) for source in TABLE_SOURCES[table]]
        if table == "edges":
            found.append(self._retyped)
        ids = pc.unique(pa.chunked_array(found, TEXT))
        return ids.take(pc.sort_indices(ids))

    def _differing(self, source: str) -> pa.Array:
        """Ids of the rows of a snapshot table that are of one side alone, or not the same on both."""
        if source not in self.found:
            gone, new = _differing_rows(self.before, self.now, source, "id")
            self.found[source] = pc.unique(pa.chunked_array([*gone["id"].chunks, *new["id"].chunks], TEXT))
        return self.found[source]

    @cached_property
    def _retyped(self) -> pa.Array:
        """Ids of the relationships whose type becomes one of those that are kept, or ceases to be, because others have
        come or gone."""
        moved = set(self.before.kept_types) ^ set(self.now.kept_types)
        moved = {type for type in moved if self.before.type_counts.get(type) and self.now.type_counts.get(type)}
        if not moved:
            return NO_IDS
        found = []
        for batch in self.now.snapshots.batches(self.now.manifest.tables[LINKS], ["id", "keywords"]):
            rows = frame_of(pa.table(batch))
            found.append(rows["id"][[type in moved for type in edge_types(rows["keywords"])]])
        return pa.array(pd.concat(found), TEXT)


def counted_types(before: DesiredRows, now: DesiredRows) -> Mapping[str, int]:
    """How many relationships ask for each type now, by those before."""
    gone, new = (
        Counter(edge_types(frame_of(rows)["keywords"])) for rows in _differing_rows(before, now, LINKS, "keywords")
    )
    counts = Counter(before.type_counts)
    counts.subtract(gone)
    counts.update(new)
    return +counts


def _differing_rows(before: DesiredRows, now: DesiredRows, source: str, column: str) -> tuple[pa.Table, pa.Table]:
    """A column of the rows of a snapshot table that are before alone, and of those that are now alone."""
    snapshots = before.manifest.tables.get(source), now.manifest.tables.get(source)
    if snapshots[0] and snapshots[1]:
        return now.snapshots.difference(*snapshots, [column])
    return before.whole(source, [column]), now.whole(source, [column])


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
