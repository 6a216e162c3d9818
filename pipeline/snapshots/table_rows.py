"""Reads the files of tables: whole, in order some rows at a time, by the values of a column, or
what differs.

Every file is sorted by the table's key and has row groups of some thousands of rows, so that
several files are read in one order without a look ahead, and few rows without the rest of their
file.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipeline.contract.schemas import STRING, WIDE, is_text
from pipeline.snapshots.row_hashes import (
    HASH_BYTES,
    all_hashes,
    in_one_alone,
    numbers_of,
    row_hashes,
)

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

BATCH_ROWS = 10_000
LEAST_ROWS = 500
"""Rows of a file that are read at once, where several are read side by side."""
READ_AT_ONCE, LEAST_AT_ONCE = 2**20, 2**16
"""Bytes of a column that are read at once, of one file and of one of many."""
MOST_READINGS = 4
"""How often a row may be read on an average, where each bucket is read apart from the others."""
HASH, STREAM = "_hash", "_stream"
POSITION = "position"
DESCENDING = "-"
"""Before a column of an order: from the greatest down."""


@dataclass(frozen=True)
class TableFile:
    """``path``: relative to the snapshots folder; ``rows``: in the file; ``gone``: the file of
    positions that do not count, and how many these are. ``bucket``: the bits, as "0" and "1", that
    the hashes of its keys begin with; ``added``: whether its rows came after those of the files
    that make up the buckets."""

    path: str
    rows: int
    gone: str = ""
    gone_rows: int = 0
    bucket: str = ""
    added: bool = False

    @property
    def live(self) -> int:
        return self.rows - self.gone_rows

    @property
    def paths(self) -> list[str]:
        return [self.path, *filter(None, [self.gone])]


@dataclass(frozen=True)
class Snapshot:
    """A table as it is. ``sha256``: its identity, the digest of its rows (``row_hashes``), whatever
    files they lie in; of a table that an earlier version has written, the hash of its one file.
    ``order``: the columns that fix the order of its rows (see DESCENDING), none where they stand as
    they were written."""

    rows: int
    sha256: str
    files: tuple[TableFile, ...] = field(compare=False)
    order: tuple[str, ...] = field(default=(), compare=False)

    @property
    def paths(self) -> list[str]:
        return [path for file in self.files for path in file.paths]

    @property
    def key(self) -> str | None:
        return self.order[0].removeprefix(DESCENDING) if self.order else None


@dataclass(frozen=True)
class Sought:
    """Values that rows are found by. ``texts``: the same in order; None where some row may lack
    what is sought."""

    values: pa.Array
    texts: Sequence[str] | None

    @classmethod
    def of(cls, values: pa.Array) -> "Sought":
        return cls(values, None if values.null_count else sorted(values.cast(STRING).to_pylist()))


@dataclass(frozen=True)
class TableRows:
    """Reads the files of one folder of snapshots. ``whole``: gives the path of a file that is found
    undamaged."""

    root: Path
    whole: Callable[[str], Path]

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        found = pq.read_schema(self.whole(snapshot.files[0].path))
        return pa.schema([field for field in found if field.name != HASH])

    def columns(self, snapshot: Snapshot) -> list[str]:
        return self.schema(snapshot).names

    def table(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> pa.Table:
        """Its rows in their order."""
        wanted = self._wanted(snapshot, columns)
        if len(snapshot.files) == 1:
            return self.rows(snapshot.files[0], wanted)
        needed = with_order(snapshot.order, wanted)
        whole = pa.concat_tables([self.rows(file, needed) for file in snapshot.files])
        return in_order(whole, snapshot.order).select(wanted)

    def batches(
        self, snapshot: Snapshot, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """As ``table``, some thousands of rows at a time; no more is held than these."""
        wanted = self._wanted(snapshot, columns)
        if len(snapshot.files) == 1:
            yield from self._batches_of(snapshot.files[0], wanted)
            return
        needed, number = with_order(snapshot.order, wanted), len(snapshot.files)
        rows, read = (
            max(LEAST_ROWS, BATCH_ROWS // number),
            max(LEAST_AT_ONCE, READ_AT_ONCE // number),
        )
        streams = [self._batches_of(file, needed, rows, read) for file in snapshot.files]
        for table in side_by_side(streams, snapshot.order):
            yield from table.select(wanted).combine_chunks().to_batches(BATCH_ROWS)

    def first(self, snapshot: Snapshot, columns: Sequence[str]) -> pa.Table:
        """Its first row, none of an empty table; of each file no more is read than where it
        begins."""
        if not snapshot.order:
            return self.table(snapshot, columns)[:1]
        needed = with_order(snapshot.order, columns)
        heads = (
            next(self._batches_of(file, needed, 1, LEAST_AT_ONCE), None) for file in snapshot.files
        )
        none = self.read(snapshot.files[0].path, needed, np.zeros(0, bool))
        found = pa.concat_tables([none, *(pa.table(head) for head in heads if head is not None)])
        return in_order(found, snapshot.order)[:1].select(list(columns))

    def unordered(
        self, snapshot: Snapshot, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """As ``batches``, file by file: for those to whom the order means nothing."""
        wanted = self._wanted(snapshot, columns)
        for file in snapshot.files:
            yield from self._batches_of(file, wanted)

    def select(
        self,
        snapshot: Snapshot,
        names: Collection[str],
        values: pa.Array,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The rows that have one of the values in one of the columns ``names``, in their order."""
        wanted = self._wanted(snapshot, columns)
        needed = wanted if len(snapshot.files) == 1 else with_order(snapshot.order, wanted)
        parts = self._selected(snapshot, names, values, needed)
        rows = pa.concat_tables(parts)
        return (rows if len(parts) <= 2 else in_order(rows, snapshot.order)).select(wanted)

    def selected(
        self, snapshot: Snapshot, names: Collection[str], values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """As ``select``, in no order yet, and with what ``in_order`` needs; the table must have an
        order."""
        return pa.concat_tables(
            self._selected(snapshot, names, values, with_order(snapshot.order, columns))
        )

    def _selected(
        self, snapshot: Snapshot, names: Collection[str], values: pa.Array, columns: Sequence[str]
    ) -> list[pa.Table]:
        """Of each file that has such rows, these, and before them a table of none."""
        sought = Sought.of(values)
        parts = [self.read(snapshot.files[0].path, columns, np.zeros(0, bool))]
        for file in snapshot.files:
            found = self.having(file, names, sought)
            found &= self.alive(file)
            if found.any():
                parts.append(self.read(file.path, columns, found))
        return parts

    def goes_by(self, snapshot: Snapshot, column: str, bits: int) -> bool:
        """Whether the rows of a bucket of so many bits are best read where they lie: the hash that
        their files go by is that of this column, in which no cell is missing, and no row is read
        often for them."""
        if snapshot.key != column or not is_text(self.schema(snapshot).field(column).type):
            return False
        read = sum(file.rows << max(bits - len(file.bucket), 0) for file in snapshot.files)
        return read <= MOST_READINGS * snapshot.rows and not any(
            self._lacks(file, column) for file in snapshot.files
        )

    def _lacks(self, file: TableFile, column: str) -> bool:
        """Whether a cell of the column may be missing."""
        found = pq.read_metadata(self.whole(file.path))
        leaf = _leaves(found.schema)[column]
        statistics = [
            found.row_group(group).column(leaf).statistics for group in range(found.num_row_groups)
        ]
        return any(each is None or each.null_count != 0 for each in statistics)

    def bucket_sizes(self, snapshot: Snapshot, bits: int) -> np.ndarray:
        """How many rows are in each bucket of so many bits."""
        sizes = np.zeros(2**bits, np.int64)
        for file in snapshot.files:
            sizes += np.bincount(numbers_of(self.hashes(file), bits), minlength=2**bits)
        return sizes

    def bucket(self, snapshot: Snapshot, bucket: str, columns: Sequence[str]) -> pa.Table:
        """The rows whose keys have hashes that begin so, in their order."""
        needed = with_order(snapshot.order, columns)
        parts = [self.read(snapshot.files[0].path, needed, np.zeros(0, bool))]
        for file in snapshot.files:
            if file.bucket.startswith(bucket):
                parts.append(self.rows(file, needed))
            elif bucket.startswith(file.bucket):
                rows = self.rows(file, needed)
                parts.append(
                    rows.filter(
                        pa.array(numbers_of(octets(rows[HASH]), len(bucket)) == int(bucket, 2))
                    )
                )
        rows = pa.concat_tables(parts)
        return (rows if len(parts) <= 2 else in_order(rows, snapshot.order)).select(list(columns))

    def having(self, file: TableFile, names: Collection[str], sought: "Sought") -> np.ndarray:
        """Which rows of the file have one of the values in one of the columns, as booleans. Row
        groups whose statistics say that none can be there are not read."""
        with pq.ParquetFile(self.whole(file.path), **WIDE) as opened:
            groups = _groups_with(opened, names, sought)
            ends = _ends_of(opened)
            found = np.zeros(ends[-1], bool)
            rows = opened.read_row_groups(
                np.flatnonzero(groups).tolist(), columns=list(dict.fromkeys(names))
            )
        found[_rows_of(groups, ends)] = _has_any(rows, sought.values)
        return found

    def difference(
        self, before: Snapshot, now: Snapshot, columns: Sequence[str] | None = None
    ) -> tuple[pa.Table, pa.Table]:
        """Rows of the one and not of the other, in no order; a row that changed is in both."""
        wanted = self._wanted(now, columns)
        gone, new = self._apart(before, now), self._apart(now, before)
        there = [all_hashes([self.hashes_at(*each) for each in side]) for side in (gone, new)]
        alone = in_one_alone(*there)
        return self._taken(before, gone, alone[0], wanted), self._taken(now, new, alone[1], wanted)

    def _apart(self, one: Snapshot, other: Snapshot) -> list[tuple[TableFile, np.ndarray]]:
        """The files of one, and which of their rows do not lie at the same place in the other."""
        theirs = {file.path: file for file in other.files}
        found = []
        for file in one.files:
            alive, counterpart = self.alive(file), theirs.get(file.path)
            if counterpart is not None:
                alive &= ~self.alive(counterpart)
            if alive.any():
                found.append((file, alive))
        return found

    def _taken(
        self,
        snapshot: Snapshot,
        places: Sequence[tuple[TableFile, np.ndarray]],
        flags: np.ndarray,
        columns: list[str],
    ) -> pa.Table:
        """``flags``: which of all the rows at the places are wanted."""
        parts = [self.read(snapshot.files[0].path, columns, np.zeros(0, bool))]
        start = 0
        for file, there in places:
            found, end = there.copy(), start + int(there.sum())
            found[there] = flags[start:end]
            start = end
            if found.any():
                parts.append(self.read(file.path, columns, found))
        return pa.concat_tables(parts)

    def rows(self, file: TableFile, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file that count."""
        return self.read(file.path, columns, self.alive(file) if file.gone else None)

    def hashes(self, file: TableFile) -> np.ndarray:
        return octets(self.rows(file, [HASH])[HASH])

    def hashes_at(self, file: TableFile, flags: np.ndarray) -> np.ndarray:
        return octets(self.read(file.path, [HASH], None)[HASH])[flags]

    def alive(self, file: TableFile) -> np.ndarray:
        """Which rows of the file count, as booleans."""
        alive = np.ones(file.rows, bool)
        if file.gone:
            alive[_positions(self.whole(file.gone))] = False
        return alive

    def read(self, path: str, columns: Sequence[str] | None, flags: np.ndarray | None) -> pa.Table:
        """The flagged rows of a file, or all. With HASH where it is asked for, also of a file of an
        earlier version, which has none."""
        found = self.whole(path)
        if columns is not None and HASH in columns and HASH not in pq.read_schema(found).names:
            table = read_parquet(found)
            hashed = with_hashes(table, row_hashes(table, None)).select(list(columns))
            return hashed if flags is None else hashed.filter(pa.array(flags))
        return read_parquet(found, columns, flags)

    def _batches_of(
        self,
        file: TableFile,
        columns: Sequence[str],
        rows: int | None = None,
        read: int = READ_AT_ONCE,
    ) -> Iterator[pa.RecordBatch]:
        alive, start = self.alive(file) if file.gone else None, 0
        with pq.ParquetFile(
            self.whole(file.path), pre_buffer=False, buffer_size=read, **WIDE
        ) as opened:
            for batch in opened.iter_batches(rows or BATCH_ROWS, columns=list(columns)):
                kept = (
                    batch
                    if alive is None
                    else batch.filter(pa.array(alive[start : start + len(batch)]))
                )
                start += len(batch)
                if len(kept):
                    yield kept.select(list(columns))

    def _wanted(self, snapshot: Snapshot, columns: Sequence[str] | None) -> list[str]:
        return self.columns(snapshot) if columns is None else list(columns)


def read_parquet(
    path: Path, columns: Sequence[str] | None = None, flags: np.ndarray | None = None
) -> pa.Table:
    """A file, some columns of it, or the flagged rows, without a look at row groups that have none
    of them. A dataset of one file would cost ten times as much to open."""
    names = None if columns is None else list(columns)
    with pq.ParquetFile(path, **WIDE) as file:
        if flags is None:
            table = file.read(columns=names)
        else:
            ends = _ends_of(file)
            flags = flags if len(flags) else np.zeros(ends[-1], bool)
            groups = np.array([part.any() for part in np.split(flags, ends[1:-1])], bool)[
                : file.num_row_groups
            ]
            table = file.read_row_groups(np.flatnonzero(groups).tolist(), columns=names)
            table = table.filter(pa.array(flags[_rows_of(groups, ends)]))
    return table if names is None else table.select(names)


def side_by_side(
    streams: Sequence[Iterator[pa.RecordBatch]], order: Sequence[str]
) -> Iterator[pa.Table]:
    """The rows of several streams, each of which is in this order, as those of one. Of each stream
    some rows wait; what stands before the last that waits of every one that goes on can be told."""
    going = dict(enumerate(streams))
    waiting: list[pa.Table] = []
    counts = np.zeros(len(streams), np.int64)
    while going:
        for number in [number for number in going if counts[number] < LEAST_ROWS]:
            batch = next(going[number], None)
            if batch is None:
                del going[number]
            else:
                waiting.append(
                    pa.table(batch).append_column(STREAM, pa.array(np.full(len(batch), number)))
                )
        if not waiting:
            return
        rows = in_order(pa.concat_tables(waiting), order)
        of_stream = rows[STREAM].to_numpy()
        last = [len(rows) - int(np.argmax(of_stream[::-1] == number)) for number in going]
        told = min(last, default=len(rows))
        yield rows.slice(0, told)
        waiting, counts = [rows.slice(told)], np.bincount(of_stream[told:], minlength=len(streams))


def in_order(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """The rows by key, those of one key by HASH."""
    directions = ["descending" if name.startswith(DESCENDING) else "ascending" for name in order]
    keys = [*zip(names_of(order), directions, strict=True), (HASH, "ascending")]
    return table.take(pc.sort_indices(table, keys))


def names_of(order: Sequence[str]) -> list[str]:
    return [name.removeprefix(DESCENDING) for name in order]


def with_order(order: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns, and those that ``in_order`` needs."""
    return list(dict.fromkeys([*columns, *names_of(order), HASH]))


def with_hashes(table: pa.Table, hashes: np.ndarray) -> pa.Table:
    """The table with HASH."""
    cells = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(HASH_BYTES), len(hashes), [None, pa.py_buffer(np.ascontiguousarray(hashes))]
    )
    return table.append_column(HASH, cells)


def octets(column: pa.ChunkedArray) -> np.ndarray:
    """The hashes, uint8 of shape (rows, 20)."""
    cells = column.combine_chunks()
    if not len(cells):
        return all_hashes([])
    found = np.frombuffer(cells.buffers()[1], np.uint8)
    start = cells.offset * HASH_BYTES
    return found[start : start + len(cells) * HASH_BYTES].reshape(-1, HASH_BYTES)


def split(flags: np.ndarray, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The flags of all rows as those of each part."""
    return np.split(flags, np.cumsum([len(part) for part in parts])[:-1])


def _ends_of(file: pq.ParquetFile) -> np.ndarray:
    """Where the row groups end, and a zero before."""
    return np.cumsum(
        [0, *(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))]
    )


def _rows_of(groups: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Which rows of the file are in these row groups, as booleans."""
    return np.repeat(groups, np.diff(ends))


def _leaves(schema: Any) -> dict[str, int]:
    """Where in a row group the columns of a file are, by their names."""
    return {schema.column(number).path: number for number in range(len(schema))}


def _groups_with(file: pq.ParquetFile, names: Collection[str], sought: Sought) -> np.ndarray:
    """Which row groups may have a row with one of the values in one of the columns."""
    leaves = _leaves(file.schema)
    every = np.ones(file.num_row_groups, bool)
    if sought.texts is None or not all(
        is_text(file.schema_arrow.field(name).type) for name in names
    ):
        return every
    for group in range(file.num_row_groups):
        found = [file.metadata.row_group(group).column(leaves[name]).statistics for name in names]
        every[group] = any(_may_have(statistics, sought.texts) for statistics in found)
    return every


def _may_have(statistics: Any, texts: Sequence[str]) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    place = bisect_left(texts, statistics.min)
    return place < len(texts) and texts[place] <= statistics.max


def _has_any(table: pa.Table, values: pa.Array) -> np.ndarray:
    found = np.zeros(table.num_rows, bool)
    for column in table.columns:
        texts = column if is_text(column.type) else column.cast(STRING)
        found |= (
            pc.is_in(texts, value_set=values.cast(texts.type))
            .combine_chunks()
            .to_numpy(zero_copy_only=False)
        )
    return found


@lru_cache(1024)
def _positions(path: Path) -> np.ndarray:
    """Of rows that are gone; the file never changes."""
    return read_parquet(path)[POSITION].to_numpy()
