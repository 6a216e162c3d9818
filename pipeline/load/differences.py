"""What a table of a store needs to hold the rows it should: found by the snapshots it was loaded
from, else by the hashes beside its rows."""

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

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

LINKS = "relationships"
COLUMNS: Mapping[str, list[str]] = {
    name: list(
        dict.fromkeys(
            column
            for sources in TABLE_SOURCES.values()
            for column in sources.get(name, ())
            if column != VECTOR
        )
    )
    for name in ALL_SOURCES
}
"""Snapshot table -> the columns that rows of the stores are made of; vectors are looked up."""
FEW = {name: ["id", "keywords"] if name == LINKS else ["id"] for name in COLUMNS}
"""Those that are read of all rows that differ, where these may be very many."""
NO_ROWS = pa.schema([("id", STRING), ("keywords", STRINGS)]).empty_table()


@dataclass(frozen=True)
class Differences:
    """Between what a store was loaded with, ``before``, and what it should have ``now``. Snapshots
    are compared by the hashes of their rows, and only rows that differ are read and made."""

    before: DesiredRows
    now: DesiredRows
    found: dict[str, tuple[pa.Table, pa.Table]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def wanted(self) -> DesiredRows:
        """What it should have now, with its types counted by those before."""
        gone, new = (Counter(edge_types(frame_of(rows)["keywords"])) for rows in self._rows(LINKS))
        counts = Counter(self.before.type_counts)
        counts.subtract(gone)
        counts.update(new)
        return replace(self.now, counted=+counts)

    def deltas(self, table: str) -> Iterator[Delta]:
        ids = self._touched(table)
        for start in range(0, len(ids), PART_ROWS):
            some = ids[start : start + PART_ROWS]
            alone = {
                name: self._alone(name, some)
                for name in TABLE_SOURCES[table]
                if any(map(len, self._rows(name)))
            }
            differing = _union(
                _in(self._retyped, some) if table in TYPED else NO_IDS,
                *(_differing(sides, TABLE_SOURCES[table][name]) for name, sides in alone.items()),
            )
            if len(differing):
                delta = self._delta(table, differing, alone)
                yield replace(delta, following=len(ids) - start - len(some))

    def _delta(
        self, table: str, differing: pa.Array, alone: Mapping[str, tuple[pa.Table, pa.Table]]
    ) -> Delta:
        """``alone``: the rows of which these ids were found to differ, by snapshot table. Of a
        stacked table no other has rows of theirs."""
        all_of = {
            name: differing if table in STACKED else _ids_of(sides) for name, sides in alone.items()
        }
        before, now = (
            replace(
                side,
                known={
                    name: KnownRows(all_of[name], sides[place]) for name, sides in alone.items()
                },
            )
            for place, side in enumerate((self.before, self.wanted))
        )
        rows = now.some(table, differing)
        if table not in VECTORS_OF:
            stored = hashes_of(before.some(table, differing))
            return replace(diff(rows, stored), before=stored)
        gone, new = (side["id"] for side in self._rows(next(iter(TABLE_SOURCES[table]))))
        stays = pc.and_not(
            pc.is_in(differing, value_set=pa.array(rows["id"], TEXT)),
            pc.is_in(differing, value_set=new),
        )
        return _replacing(
            differing.filter(pc.or_(pc.is_in(differing, value_set=gone), stays)), rows
        )

    def _alone(self, source: str, ids: pa.Array) -> tuple[pa.Table, pa.Table]:
        """As ``_rows``, of these ids, and with every column but vectors."""
        gone, new = (
            rows.filter(pc.is_in(rows["id"], value_set=ids)) for rows in self._rows(source)
        )
        if gone.column_names != COLUMNS[source]:
            gone, new = (
                side.read(source, COLUMNS[source], _ids_of([rows]))
                for side, rows in ((self.before, gone), (self.now, new))
            )
        return gone, new

    def _touched(self, table: str) -> pa.Array:
        """Ids of the rows that may differ, in order."""
        ids = _union(
            self._retyped if table in TYPED else NO_IDS,
            *(_ids_of(self._rows(source)) for source in TABLE_SOURCES[table]),
        )
        return ids.take(pc.sort_indices(ids))

    def _rows(self, source: str) -> tuple[pa.Table, pa.Table]:
        """The rows of a snapshot table that are before alone, and those that are now alone."""
        if source not in self.found:
            self.found[source] = self._compared(source)
        return self.found[source]

    def _compared(self, source: str) -> tuple[pa.Table, pa.Table]:
        before, now = (side.manifest.tables.get(source) for side in (self.before, self.now))
        columns = COLUMNS[source] if _most_alone(before, now) <= PART_ROWS else FEW[source]
        if before is None or now is None:
            return self.before.whole(source, columns), self.now.whole(source, columns)
        if before.sha256 == now.sha256:
            return NO_ROWS, NO_ROWS
        return self.now.snapshots.difference(before, now, columns)

    @cached_property
    def _retyped(self) -> pa.Array:
        """Ids of the relationships whose type becomes one of those that are kept, or ceases to be,
        because others have come or gone."""
        moved = set(self.before.kept_types) ^ set(self.wanted.kept_types)
        moved = {
            type
            for type in moved
            if self.before.type_counts.get(type) and self.wanted.type_counts.get(type)
        }
        found: list[pa.Array] = [NO_IDS]
        for batch in (
            self.now.snapshots.batches(self.now.manifest.tables[LINKS], ["id", "keywords"])
            if moved
            else ()
        ):
            rows = frame_of(pa.table(batch))
            of_type = rows["id"][[type in moved for type in edge_types(rows["keywords"])]]
            found.append(pa.array(of_type.to_numpy(dtype=object), TEXT))
        return pa.concat_arrays(found)


def _replacing(old: pa.Array, rows: pd.DataFrame) -> Delta:
    """``rows``: all that there are now of those whose ids are old, and new ones."""
    ids = pa.array(rows["id"], TEXT)
    is_old = pc.is_in(ids, value_set=old).to_numpy(zero_copy_only=False)
    deleted = old.filter(pc.invert(pc.is_in(old, value_set=ids))).to_pylist()
    return Delta(
        rows[~is_old], rows[is_old], deleted, 0, hashes_of(rows), before=HASHES.empty_table()
    )


def _differing(sides: tuple[pa.Table, pa.Table], columns: Sequence[str]) -> pa.Array:
    """Ids of the rows that are not the same on both sides in these columns."""
    if VECTOR not in columns:
        alone = in_one_alone(*(row_hashes(side.select(columns), None) for side in sides))
        sides = tuple(side.filter(pa.array(own)) for side, own in zip(sides, alone, strict=True))
    return _ids_of(sides)


def _ids_of(sides: Iterable[pa.Table]) -> pa.Array:
    return _union(*(side["id"] for side in sides))


def _union(*ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pc.unique(
        pa.chunked_array([chunk for some in ids for chunk in getattr(some, "chunks", [some])], TEXT)
    )


def _in(ids: pa.Array, others: pa.Array) -> pa.Array:
    return ids.filter(pc.is_in(ids, value_set=others))


def _most_alone(before: Snapshot | None, now: Snapshot | None) -> int:
    """So many rows at most are of one of them alone, by their files."""
    files = [{file.path: file for file in side.files} if side else {} for side in (before, now)]
    return sum(
        file.live if file.path not in theirs else abs(file.gone_rows - theirs[file.path].gone_rows)
        for mine, theirs in (files, files[::-1])
        for file in mine.values()
    )


def inserted(now: DesiredRows, table: str) -> Iterator[Delta]:
    """Of a table without rows."""
    following = now.count(table)
    for rows in now.parts(table):
        following -= len(rows)
        yield replace(diff(rows, HASHES.empty_table()), following=following)


def compared(now: DesiredRows, table: str, hashes: pa.Table, stored: pa.Table) -> Iterator[Delta]:
    """By the hashes of all rows, which are in the order of the rows. ``stored``: those that the
    store has."""
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
    """The changed ones of all rows, and which are new. Few are looked up; to have many, all are
    gone through."""
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
