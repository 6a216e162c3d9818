"""Reads the files of tables: whole, in order in batches, by the values of a column, or only what
differs between two snapshots.

Every file is sorted by the table's key and has row groups of some thousands of rows. So several
files can be merged in order without looking ahead, and a few rows can be read without the rest of
their file.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipeline.contract.cells import ROWS_FOR_THREADS, as_frame
from pipeline.contract.schemas import STRING, WIDE, is_text
from pipeline.errors import DamagedError, DataError
from pipeline.files import tell
from pipeline.snapshots.folder import Folder
from pipeline.snapshots.row_hashes import (
    HASH_BYTES,
    all_hashes,
    in_one_alone,
    numbers_of,
    row_hashes,
)

# PyArrow creates the functions of this module on import, so type checkers see none of them.
pc: Any = pyarrow.compute

BATCH_ROWS = 10_000
LEAST_ROWS = 500
"""The fewest rows of a file that are read at once while several files are merged."""
READ_AT_ONCE, LEAST_AT_ONCE = 2**20, 2**16
"""Bytes of a column that are read at once: of a single file, and at least of one of many files."""
MOST_READINGS = 4
"""The most times a row may be read on average if every bucket is read on its own."""
HASH, STREAM = "_hash", "_stream"
POSITION = "position"
DESCENDING = "-"
"""The prefix of a column of an order that sorts from the greatest value down."""


@dataclass(frozen=True)
class TableFile:
    """A file of a table, as the records of snapshots keep it.

    - ``path`` is relative to the snapshots folder.
    - ``rows`` counts all rows of the file, ``gone_rows`` the deleted ones.
    - ``gone`` is the path of the file with the positions of the deleted rows, or "".
    - ``bucket`` has the bits, as "0" and "1", with which the hashes of the file's keys begin.
    - ``added`` is true if the rows were added after the files that make up the buckets.
    """

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
        return [self.path, self.gone] if self.gone else [self.path]


@dataclass(frozen=True)
class Snapshot:
    """A version of a table.

    - ``sha256`` is its identity: the digest of its rows (``row_hashes``), which does not depend on
      the files that hold them. A table of an earlier version has the hash of its one file.
    - ``order`` names the columns that fix the order of the rows (see DESCENDING). It is empty if
      the rows stand as they were written.
    """

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
class SearchedValues:
    """Values by which rows are found.

    ``texts`` has them sorted, to skip row groups by their statistics. It is None if null is among
    the values, because statistics do not tell which row groups have nulls.
    """

    values: pa.Array
    texts: Sequence[str] | None

    @classmethod
    def of(cls, values: pa.Array) -> "SearchedValues":
        if values.null_count:
            return cls(values, None)
        return cls(values, sorted(values.cast(STRING).to_pylist()))


@dataclass(frozen=True)
class TableReader:
    """Reads the tables of one folder of snapshots.

    Files that are not in ``folder`` are read from ``beneath``, if there is one.
    """

    folder: Folder
    beneath: "TableReader | None" = None

    def find_undamaged(self, path: str) -> Path:
        """Return the path on disk of a file of a table, after checking that it is undamaged.

        Raises DataError if the file is missing, and DamagedError if it is damaged.
        """
        if self.beneath and not self.folder.is_here(path):
            return self.beneath.find_undamaged(path)
        return self.folder.find_undamaged(path)

    def exists(self, snapshot: Snapshot) -> bool:
        """Return whether the table can be read. If it is damaged, say so on standard error."""
        try:
            self.require(snapshot)
        except DamagedError as error:
            tell(f"{error.path}: {error.fact}; it counts as missing, and a run makes it again")
            return False
        except DataError:
            return False
        return True

    def require(self, snapshot: Snapshot) -> None:
        """Check the files of a table. Raises DataError if one is missing or damaged."""
        self.require_files(snapshot.paths)

    def require_files(self, paths: Iterable[str]) -> None:
        """Check files by their paths. Raises DataError if one is missing or damaged."""
        own, others = self._split_paths(paths)
        self.folder.require(own)
        if self.beneath and others:
            self.beneath.require_files(others)

    def _fetch_all(self, snapshot: Snapshot) -> None:
        """Fetch all files of a table side by side, because all of them will be read."""
        own, others = self._split_paths(snapshot.paths)
        self.folder.fetch(own)
        if self.beneath and others:
            self.beneath.folder.fetch(others)

    def _split_paths(self, paths: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the paths of files in this folder, and those to read from ``beneath``."""
        asked = list(paths)
        if not self.beneath:
            return asked, []
        others = [path for path in asked if not self.folder.is_here(path)]
        return [path for path in asked if path not in others], others

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Return the schema of a table without HASH. Raises DataError if its file is missing."""
        found = pq.read_schema(self.find_undamaged(snapshot.files[0].path))
        return pa.schema([field for field in found if field.name != HASH])

    def columns(self, snapshot: Snapshot) -> list[str]:
        """Return the names of a table's columns. Raises DataError if its file is missing."""
        return self.schema(snapshot).names

    def read(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the rows of a table in order as a data frame, all columns or the given ones.

        Other columns are not read. Raises DataError if a file is missing or damaged.
        """
        return as_frame(self.read_arrow(snapshot, columns))

    def read_arrow(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a table in order as an Arrow table. See `read`."""
        self._fetch_all(snapshot)
        return self._read_all(snapshot, columns)

    def _read_all(self, snapshot: Snapshot, columns: Sequence[str] | None) -> pa.Table:
        wanted = self._wanted_columns(snapshot, columns)
        if len(snapshot.files) == 1:
            return self._read_live_rows(snapshot.files[0], wanted)
        needed = with_order(snapshot.order, wanted)
        rows = pa.concat_tables([self._read_live_rows(file, needed) for file in snapshot.files])
        return in_order(rows, snapshot.order).select(wanted)

    def read_batches(
        self, snapshot: Snapshot, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator over the rows of a table in order, some thousands at a time.

        No more than these are in memory. The files are fetched at once, not on the first step.
        """
        self._fetch_all(snapshot)
        return self._batches(snapshot, columns)

    def _batches(
        self, snapshot: Snapshot, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted_columns(snapshot, columns)
        count = len(snapshot.files)
        if count == 1:
            yield from self._batches_of_file(snapshot.files[0], wanted, BATCH_ROWS)
            return
        needed = with_order(snapshot.order, wanted)
        rows = max(LEAST_ROWS, BATCH_ROWS // count)
        read = max(LEAST_AT_ONCE, READ_AT_ONCE // count)
        streams = [self._batches_of_file(file, needed, rows, read) for file in snapshot.files]
        for table in merge_streams(streams, snapshot.order):
            yield from table.select(wanted).combine_chunks().to_batches(BATCH_ROWS)

    def read_unordered(
        self, snapshot: Snapshot, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator over the rows of a table, file by file, in no order.

        Each batch has some thousands of rows. The files are fetched at once.
        """
        self._fetch_all(snapshot)
        return self._unordered_batches(snapshot, columns)

    def _unordered_batches(
        self, snapshot: Snapshot, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted_columns(snapshot, columns)
        for file in snapshot.files:
            yield from self._batches_of_file(file, wanted, BATCH_ROWS)

    def read_first(self, snapshot: Snapshot, columns: Sequence[str]) -> pa.Table:
        """Return the first row of a table, or no row if it is empty.

        Of each file only the beginning is read.
        """
        self._fetch_all(snapshot)
        if not snapshot.order:
            return self._read_all(snapshot, columns)[:1]
        needed = with_order(snapshot.order, columns)
        parts = [self._no_rows(snapshot, needed)]
        for file in snapshot.files:
            head = next(self._batches_of_file(file, needed, 1, LEAST_AT_ONCE), None)
            if head is not None:
                parts.append(pa.table(head))
        firsts = pa.concat_tables(parts)
        return in_order(firsts, snapshot.order)[:1].select(list(columns))

    def select(
        self,
        snapshot: Snapshot,
        names: Collection[str],
        values: pa.Array,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the rows that have one of the values in one of the columns ``names``, in order."""
        self._fetch_all(snapshot)
        wanted = self._wanted_columns(snapshot, columns)
        needed = wanted if len(snapshot.files) == 1 else with_order(snapshot.order, wanted)
        parts = self._select_by_file(snapshot, names, values, needed)
        return _in_order_if_many(parts, snapshot).select(wanted)

    def select_unordered(
        self, snapshot: Snapshot, names: Collection[str], values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Return the rows that `select` returns, in no order, for a table that has an order.

        The result also has the columns by which `in_order` sorts it.
        """
        self._fetch_all(snapshot)
        needed = with_order(snapshot.order, columns)
        return pa.concat_tables(self._select_by_file(snapshot, names, values, needed))

    def _select_by_file(
        self, snapshot: Snapshot, names: Collection[str], values: pa.Array, columns: Sequence[str]
    ) -> list[pa.Table]:
        """Return the selected rows of each file that has some, after a table without rows."""
        searched = SearchedValues.of(values)
        parts = [self._no_rows(snapshot, columns)]
        for file in snapshot.files:
            found = self._find_rows(file, names, searched)
            found &= self._live_mask(file)
            if found.any():
                parts.append(self._read_file(file.path, columns, found))
        return parts

    def has_buckets_of(self, snapshot: Snapshot, column: str, bits: int) -> bool:
        """Return whether `read_bucket` can read the rows of buckets of this many bits.

        The files must be divided by the hash of this column, which has no null. If every bucket is
        read in turn, no row may be read more than MOST_READINGS times on average.
        """
        if snapshot.key != column or not is_text(self.schema(snapshot).field(column).type):
            return False
        # A file whose bucket has fewer bits is read once for each bucket within it.
        read = sum(file.rows << max(bits - len(file.bucket), 0) for file in snapshot.files)
        if read > MOST_READINGS * snapshot.rows:
            return False
        return not any(self._may_have_null(file, column) for file in snapshot.files)

    def _may_have_null(self, file: TableFile, column: str) -> bool:
        found = pq.read_metadata(self.find_undamaged(file.path))
        leaf = _leaf_columns(found.schema)[column]
        for group in range(found.num_row_groups):
            statistics = found.row_group(group).column(leaf).statistics
            if statistics is None or statistics.null_count != 0:
                return True
        return False

    def count_by_bucket(self, snapshot: Snapshot, bits: int) -> np.ndarray:
        """Return the number of rows in each bucket of this many bits of the key's hash."""
        self._fetch_all(snapshot)
        sizes = np.zeros(2**bits, np.int64)
        for file in snapshot.files:
            sizes += np.bincount(numbers_of(self._read_hashes(file), bits), minlength=2**bits)
        return sizes

    def read_bucket(self, snapshot: Snapshot, bucket: str, columns: Sequence[str]) -> pa.Table:
        """Return the rows whose key hashes begin with the bits of ``bucket``, in order."""
        needed = with_order(snapshot.order, columns)
        parts = [self._no_rows(snapshot, needed)]
        for file in snapshot.files:
            if file.bucket.startswith(bucket):
                parts.append(self._read_live_rows(file, needed))
            elif bucket.startswith(file.bucket):
                rows = self._read_live_rows(file, needed)
                in_bucket = numbers_of(octets(rows[HASH]), len(bucket)) == int(bucket, 2)
                parts.append(rows.filter(pa.array(in_bucket)))
        return _in_order_if_many(parts, snapshot).select(list(columns))

    def _find_rows(
        self, file: TableFile, names: Collection[str], searched: SearchedValues
    ) -> np.ndarray:
        """Return a mask of the file's rows that have one of the values in one of the columns.

        Row groups that cannot have one, according to their statistics, are not read.
        """
        with pq.ParquetFile(self.find_undamaged(file.path), **WIDE) as opened:
            groups = _groups_to_search(opened, names, searched)
            ends = _group_bounds(opened)
            found = np.zeros(ends[-1], bool)
            rows = opened.read_row_groups(
                np.flatnonzero(groups).tolist(), columns=list(dict.fromkeys(names))
            )
        found[_rows_of_groups(groups, ends)] = _has_any(rows, searched.values)
        return found

    def difference(
        self, before: Snapshot, now: Snapshot, columns: Sequence[str] | None = None
    ) -> tuple[pa.Table, pa.Table]:
        """Return the rows that only ``before`` has, and those that only ``now`` has, in no order.

        A changed row is in both. Rows at the same place of a shared file are not read.
        """
        wanted = self._wanted_columns(now, columns)
        places_before = self._places_not_in(before, now)
        places_now = self._places_not_in(now, before)
        hashes_before = all_hashes([self._read_hashes_at(*place) for place in places_before])
        hashes_now = all_hashes([self._read_hashes_at(*place) for place in places_now])
        gone, new = in_one_alone(hashes_before, hashes_now)
        rows_gone = self._read_places(before, places_before, gone, wanted)
        rows_new = self._read_places(now, places_now, new, wanted)
        return rows_gone, rows_new

    def _places_not_in(self, one: Snapshot, other: Snapshot) -> list[tuple[TableFile, np.ndarray]]:
        """Return files of ``one`` with a mask of the live rows that ``other`` does not share.

        A row is shared if the other snapshot has it live in the same file.
        """
        theirs = {file.path: file for file in other.files}
        places: list[tuple[TableFile, np.ndarray]] = []
        for file in one.files:
            alive = self._live_mask(file)
            counterpart = theirs.get(file.path)
            if counterpart is not None:
                alive &= ~self._live_mask(counterpart)
            if alive.any():
                places.append((file, alive))
        return places

    def _read_places(
        self,
        snapshot: Snapshot,
        places: Sequence[tuple[TableFile, np.ndarray]],
        flags: np.ndarray,
        columns: list[str],
    ) -> pa.Table:
        """Return the flagged rows; ``flags`` covers the rows of all places, one after another."""
        parts = [self._no_rows(snapshot, columns)]
        start = 0
        for file, mask in places:
            end = start + int(mask.sum())
            wanted = mask.copy()
            wanted[mask] = flags[start:end]
            start = end
            if wanted.any():
                parts.append(self._read_file(file.path, columns, wanted))
        return pa.concat_tables(parts)

    def _read_live_rows(self, file: TableFile, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the live rows of a file."""
        return self._read_file(file.path, columns, self._live_mask(file) if file.gone else None)

    def _no_rows(self, snapshot: Snapshot, columns: Sequence[str]) -> pa.Table:
        """Return an empty table with the types of these columns."""
        return self._read_file(snapshot.files[0].path, columns, np.zeros(0, bool))

    def _read_hashes(self, file: TableFile) -> np.ndarray:
        """Return the hashes of the live rows of a file."""
        return octets(self._read_live_rows(file, [HASH])[HASH])

    def _read_hashes_at(self, file: TableFile, flags: np.ndarray) -> np.ndarray:
        """Return the hashes of the flagged rows of a file."""
        return octets(self._read_file(file.path, [HASH], None)[HASH])[flags]

    def _live_mask(self, file: TableFile) -> np.ndarray:
        """Return a boolean mask over the rows of a file that is false for deleted rows."""
        alive = np.ones(file.rows, bool)
        if file.gone:
            alive[_positions(self.find_undamaged(file.gone))] = False
        return alive

    def _read_file(
        self, path: str, columns: Sequence[str] | None, flags: np.ndarray | None
    ) -> pa.Table:
        """Return the flagged rows of a file, or all rows if ``flags`` is None.

        If HASH is among the columns, it is computed for a file of an earlier version, which has no
        hashes.
        """
        found = self.find_undamaged(path)
        if columns is not None and HASH in columns and HASH not in pq.read_schema(found).names:
            table = read_parquet(found)
            hashed = with_hashes(table, row_hashes(table, None)).select(list(columns))
            return hashed if flags is None else hashed.filter(pa.array(flags))
        return read_parquet(found, columns, flags)

    def _batches_of_file(
        self,
        file: TableFile,
        columns: Sequence[str],
        rows: int,
        read: int = READ_AT_ONCE,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of a file, at most ``rows`` at a time.

        ``read`` is the number of bytes of a column that are read at once.
        """
        alive = self._live_mask(file) if file.gone else None
        start = 0
        with pq.ParquetFile(
            self.find_undamaged(file.path), pre_buffer=False, buffer_size=read, **WIDE
        ) as opened:
            for batch in opened.iter_batches(rows, columns=list(columns)):
                live = batch
                if alive is not None:
                    live = batch.filter(pa.array(alive[start : start + len(batch)]))
                start += len(batch)
                if len(live):
                    yield live.select(list(columns))

    def _wanted_columns(self, snapshot: Snapshot, columns: Sequence[str] | None) -> list[str]:
        return self.columns(snapshot) if columns is None else list(columns)


def read_parquet(
    path: Path, columns: Sequence[str] | None = None, flags: np.ndarray | None = None
) -> pa.Table:
    """Return the rows and columns of a file, all of them or some.

    ``flags`` is a mask over the rows; if it is empty, no row is read. Row groups without a flagged
    row are skipped. (To open a file as a dataset would take ten times as long.)
    """
    names = None if columns is None else list(columns)
    with pq.ParquetFile(path, **WIDE) as file:
        threads = file.metadata.num_rows >= ROWS_FOR_THREADS
        if flags is None:
            table = file.read(columns=names, use_threads=threads)
        else:
            ends = _group_bounds(file)
            flags = flags if len(flags) else np.zeros(ends[-1], bool)
            flags_by_group = np.split(flags, ends[1:-1])
            groups = np.array([part.any() for part in flags_by_group], bool)
            # A file without row groups still gives one empty part.
            groups = groups[: file.num_row_groups]
            wanted = np.flatnonzero(groups).tolist()
            table = file.read_row_groups(wanted, columns=names, use_threads=threads)
            wanted_rows = flags[_rows_of_groups(groups, ends)]
            # A filter copies all rows, so it is avoided if it would keep them all.
            if not wanted_rows.all():
                table = table.filter(pa.array(wanted_rows))
    return table if names is None else table.select(names)


def merge_streams(
    streams: Sequence[Iterator[pa.RecordBatch]], order: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the rows of several sorted streams as one sorted stream.

    Some rows of each stream wait in memory. A row can be passed on once every stream that has not
    ended has a later row waiting: nothing that follows can come before it.
    """
    open_streams = dict(enumerate(streams))
    waiting: list[pa.Table] = []
    counts = np.zeros(len(streams), np.int64)
    while open_streams:
        short = [number for number in open_streams if counts[number] < LEAST_ROWS]
        for number in short:
            batch = next(open_streams[number], None)
            if batch is None:
                del open_streams[number]
                continue
            numbers = pa.array(np.full(len(batch), number))
            waiting.append(pa.table(batch).append_column(STREAM, numbers))
        if not waiting:
            return
        rows = in_order(pa.concat_tables(waiting), order)
        of_stream = rows[STREAM].to_numpy()
        # The position after the last waiting row of each open stream; the earliest is the limit.
        from_end = of_stream[::-1]
        last = [len(rows) - int(np.argmax(from_end == number)) for number in open_streams]
        ready = min(last, default=len(rows))
        yield rows.slice(0, ready)
        waiting = [rows.slice(ready)]
        counts = np.bincount(of_stream[ready:], minlength=len(streams))


def in_order(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """Return the rows sorted by the columns of an order, and by HASH where these are equal."""
    directions = ["descending" if name.startswith(DESCENDING) else "ascending" for name in order]
    keys = [*zip(names_of(order), directions, strict=True), (HASH, "ascending")]
    return table.take(pc.sort_indices(table, keys))


def _in_order_if_many(parts: Sequence[pa.Table], snapshot: Snapshot) -> pa.Table:
    """Join rows of several files in the order of their table.

    The first part has no rows. The rows of a single file are in order already.
    """
    rows = pa.concat_tables(parts)
    return rows if len(parts) <= 2 else in_order(rows, snapshot.order)


def names_of(order: Sequence[str]) -> list[str]:
    """Return the columns of an order without the marks for descending ones."""
    return [name.removeprefix(DESCENDING) for name in order]


def with_order(order: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the columns, and those by which `in_order` sorts, each once."""
    return list(dict.fromkeys([*columns, *names_of(order), HASH]))


def with_hashes(table: pa.Table, hashes: np.ndarray) -> pa.Table:
    """Return the table with its hashes in the column HASH."""
    buffer = pa.py_buffer(np.ascontiguousarray(hashes))
    cells = pa.FixedSizeBinaryArray.from_buffers(pa.binary(HASH_BYTES), len(hashes), [None, buffer])
    return table.append_column(HASH, cells)


def octets(column: pa.ChunkedArray) -> np.ndarray:
    """Return the hashes in a column HASH, as uint8 of shape (rows, 20)."""
    cells = column.combine_chunks()
    if not len(cells):
        return all_hashes([])
    content = np.frombuffer(cells.buffers()[1], np.uint8)
    start = cells.offset * HASH_BYTES
    end = start + len(cells) * HASH_BYTES
    return content[start:end].reshape(-1, HASH_BYTES)


def split(flags: np.ndarray, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Split an array of flags into pieces as long as the parts."""
    ends = np.cumsum([len(part) for part in parts])
    return np.split(flags, ends[:-1])


def _group_bounds(file: pq.ParquetFile) -> np.ndarray:
    """Return zero, and the position of the row after each row group."""
    metadata = file.metadata
    sizes = [metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    return np.cumsum([0, *sizes])


def _rows_of_groups(groups: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return a mask of the file's rows that are in the flagged row groups."""
    return np.repeat(groups, np.diff(ends))


def _leaf_columns(schema: Any) -> dict[str, int]:
    """Return the position in a row group of each column of a file, by its name."""
    return {schema.column(number).path: number for number in range(len(schema))}


def _groups_to_search(
    file: pq.ParquetFile, names: Collection[str], searched: SearchedValues
) -> np.ndarray:
    """Return a mask of the row groups that may have one of the values in one of the columns."""
    every = np.ones(file.num_row_groups, bool)
    schema = file.schema_arrow
    all_texts = all(is_text(schema.field(name).type) for name in names)
    if searched.texts is None or not all_texts:
        return every
    leaves = _leaf_columns(file.schema)
    for group in range(file.num_row_groups):
        metadata = file.metadata.row_group(group)
        found = [metadata.column(leaves[name]).statistics for name in names]
        every[group] = any(_may_have(statistics, searched.texts) for statistics in found)
    return every


def _may_have(statistics: Any, texts: Sequence[str]) -> bool:
    """Return whether one of the sorted texts is between the least and the greatest value."""
    if statistics is None or not statistics.has_min_max:
        return True
    place = bisect_left(texts, statistics.min)
    return place < len(texts) and texts[place] <= statistics.max


def _has_any(table: pa.Table, values: pa.Array) -> np.ndarray:
    """Return a mask of the rows that have one of the values in any column."""
    found = np.zeros(table.num_rows, bool)
    for column in table.columns:
        texts = column if is_text(column.type) else column.cast(STRING)
        is_in = pc.is_in(texts, value_set=values.cast(texts.type))
        found |= is_in.combine_chunks().to_numpy(zero_copy_only=False)
    return found


# The file is named by its content and never changes.
@lru_cache(1024)
def _positions(path: Path) -> np.ndarray:
    """Return the positions of the deleted rows that a file lists."""
    return read_parquet(path)[POSITION].to_numpy()
