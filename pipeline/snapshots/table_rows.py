"""Read the files of tables: whole, in order in batches, by the values of a column, or only what
differs between two snapshots.

Every file is sorted by the table's key and has row groups of some thousands of rows. So several
files can be merged in order without looking ahead, and a few rows can be read without the rest of
their file. A table without an order has one file, whose rows stand as they were written.

A file has *live* rows, and deleted ones, whose positions are in another file. A *mask* is an array
of booleans over the rows of one file.
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
from pipeline.snapshots.small_files import SmallFiles

# PyArrow creates the functions of this module on import, so type checkers see none of them.
pc: Any = pyarrow.compute

BATCH_ROWS = 10_000
LEAST_ROWS = 500
"""The fewest rows of a file that are read together while several files are merged."""
REFILL_BELOW = LEAST_ROWS
"""A stream with fewer waiting rows is read on, so that a merge seldom waits for one of them."""
BYTES_OF_FILE = 2**20
"""Bytes of a column that are read together from a single file."""
LEAST_BYTES_OF_FILE = 2**16
"""The fewest bytes of a column that are read together from each of several files."""
MOST_READINGS = 4
"""The most rows that are read for each row of a table, if every bucket is read on its own."""
HASH = "_hash"
"""The column with the hash of a row. Its first bytes are from the key's hash, so that they give the
bucket; the whole tells rows apart (row_hashes.py)."""
STREAM = "_stream"
"""The column with the number of the stream that a row comes from, while streams are merged."""
POSITION = "position"
NO_ROW = np.zeros(0, bool)
"""A mask without length, which stands for no row of a file of any length."""
DESCENDING = "-"
"""The prefix of a column of an order that sorts from the greatest value down."""


@dataclass(frozen=True)
class TableFile:
    """A file of a table, as the records of snapshots keep it.

    - ``path`` is relative to the snapshots folder.
    - ``rows`` counts all rows of the file, ``gone_rows`` the deleted ones.
    - ``gone`` is the path of the file with the positions of the deleted rows, or "".
    - ``bucket`` has the bits, as "0" and "1", with which the hashes of the file's keys begin.
    - ``added`` is true for a file that a later run wrote beside the files that make up the buckets.
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
      the files that hold them. A table that an earlier release wrote has the hash of its one file.
    - ``order`` names the columns that fix the order of the rows (see DESCENDING). It is empty if
      the rows stand as they were written, in one file.
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

    Files that are not in ``folder`` are read from ``beneath``, if there is one. ``small`` keeps
    the rows of small files.
    """

    folder: Folder
    beneath: "TableReader | None" = None
    small: SmallFiles = field(default_factory=SmallFiles, compare=False, repr=False)

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
        self._fetch_files(snapshot.paths)

    def _fetch_files(self, paths: Iterable[str]) -> None:
        """Fetch files by their paths, in this folder and in all beneath."""
        own, others = self._split_paths(paths)
        self.folder.fetch(own)
        if self.beneath and others:
            self.beneath._fetch_files(others)

    def _split_paths(self, paths: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the paths of files in this folder, and those to read from ``beneath``."""
        if not self.beneath:
            return list(paths), []
        own: list[str] = []
        others: list[str] = []
        for path in paths:
            if self.folder.is_here(path):
                own.append(path)
            else:
                others.append(path)
        return own, others

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Return the schema of a table without HASH. Raises DataError if its file is missing."""
        # All files of a table have one schema.
        return _schema_without_hash(self.find_undamaged(snapshot.files[0].path))

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
        """Return the rows of a table whose files are on disk. See `read_arrow`."""
        wanted = self._choose_columns(snapshot, columns)
        if len(snapshot.files) == 1:
            # The rows of one file are in order already.
            return self._read_live_rows(snapshot.files[0], wanted)
        needed = add_sort_columns(snapshot.order, wanted)
        parts = [self._read_live_rows(file, needed) for file in snapshot.files]
        rows = sort_rows(pa.concat_tables(parts), snapshot.order)
        return rows.select(wanted)

    def read_batches(
        self, snapshot: Snapshot, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator over the rows of a table in order, some thousands at a time.

        About as many are in memory, of several files at least LEAST_ROWS of each. The call fetches
        all files side by side before it returns, not on the first step of the iterator.
        """
        self._fetch_all(snapshot)
        return self._merge_files(snapshot, columns)

    def _merge_files(
        self, snapshot: Snapshot, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        files = snapshot.files
        wanted = self._choose_columns(snapshot, columns)
        if len(files) == 1:
            yield from self._batches_of_file(files[0], wanted, BATCH_ROWS)
            return
        needed = add_sort_columns(snapshot.order, wanted)
        # All files are open together and share the memory that one file would take.
        rows_of_file = max(LEAST_ROWS, BATCH_ROWS // len(files))
        bytes_of_file = max(LEAST_BYTES_OF_FILE, BYTES_OF_FILE // len(files))
        streams = [
            self._batches_of_file(file, needed, rows_of_file, bytes_of_file) for file in files
        ]
        for rows in merge_streams(streams, snapshot.order):
            in_one_chunk = rows.select(wanted).combine_chunks()
            yield from in_one_chunk.to_batches(BATCH_ROWS)

    def read_unordered(
        self, snapshot: Snapshot, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator over the rows of a table, file by file, in no order.

        Each batch has some thousands of rows. The call fetches all files before it returns.
        """
        self._fetch_all(snapshot)
        return self._read_file_by_file(snapshot, columns)

    def _read_file_by_file(
        self, snapshot: Snapshot, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        wanted = self._choose_columns(snapshot, columns)
        for file in snapshot.files:
            yield from self._batches_of_file(file, wanted, BATCH_ROWS)

    def read_first(self, snapshot: Snapshot, columns: Sequence[str]) -> pa.Table:
        """Return the first row of a table, or no row if it is empty.

        Of each file only the beginning is read.
        """
        self._fetch_all(snapshot)
        # The rows of one file are in order already.
        is_single = len(snapshot.files) == 1
        needed = list(columns) if is_single else add_sort_columns(snapshot.order, columns)
        parts = [self._make_empty(snapshot, needed)]
        for file in snapshot.files:
            head = next(self._batches_of_file(file, needed, 1, LEAST_BYTES_OF_FILE), None)
            if head is not None:
                parts.append(pa.table(head))
        first_of_files = _join_sorted(parts, snapshot)
        return first_of_files[:1].select(list(columns))

    def select(
        self,
        snapshot: Snapshot,
        searched_columns: Collection[str],
        values: pa.Array,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the rows that have one of the values in a searched column, in order."""
        self._fetch_all(snapshot)
        wanted = self._choose_columns(snapshot, columns)
        needed = wanted
        if len(snapshot.files) > 1:
            needed = add_sort_columns(snapshot.order, wanted)
        parts = self._select_by_file(snapshot, searched_columns, values, needed)
        return _join_sorted(parts, snapshot).select(wanted)

    def select_unordered(
        self,
        snapshot: Snapshot,
        searched_columns: Collection[str],
        values: pa.Array,
        columns: Sequence[str],
    ) -> pa.Table:
        """Return the rows that `select` returns, in no order.

        The table must have an order, by which the caller sorts them later: the result also has the
        columns that `sort_rows` needs.
        """
        self._fetch_all(snapshot)
        needed = add_sort_columns(snapshot.order, columns)
        parts = self._select_by_file(snapshot, searched_columns, values, needed)
        return pa.concat_tables(parts)

    def _select_by_file(
        self,
        snapshot: Snapshot,
        searched_columns: Collection[str],
        values: pa.Array,
        columns: Sequence[str],
    ) -> list[pa.Table]:
        """Return the selected rows of each file that has some, after a table without rows."""
        searched = SearchedValues.of(values)
        parts = [self._make_empty(snapshot, columns)]
        for file in snapshot.files:
            found = self._find_rows(file, searched_columns, searched)
            found &= self._live_mask(file)
            if found.any():
                parts.append(self._read_file(file.path, columns, found))
        return parts

    def can_read_buckets(self, snapshot: Snapshot, column: str, bits: int) -> bool:
        """Return whether `read_bucket` can read the buckets of a column's values, of so many bits.

        The files must be divided by the hash of this column, and the column must have no null.
        Reading all buckets in turn may read at most MOST_READINGS rows for each row of the table.
        """
        if snapshot.key != column:
            return False
        kind = self.schema(snapshot).field(column).type
        if not is_text(kind):
            return False
        rows_read = 0
        for file in snapshot.files:
            # A file whose bucket has fewer bits is read once for each bucket within it.
            missing_bits = max(bits - len(file.bucket), 0)
            rows_read += file.rows * 2**missing_bits
        if rows_read > MOST_READINGS * snapshot.rows:
            return False
        return not any(self._may_have_null(file, column) for file in snapshot.files)

    def _may_have_null(self, file: TableFile, column: str) -> bool:
        """Return whether a column of a file may have a null, as far as its statistics tell."""
        metadata = pq.read_metadata(self.find_undamaged(file.path))
        leaf = _leaf_columns(metadata.schema)[column]
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(leaf).statistics
            # The count is None where it is not known.
            if statistics is None or statistics.null_count != 0:
                return True
        return False

    def count_by_bucket(self, snapshot: Snapshot, bits: int) -> np.ndarray:
        """Return the number of rows in each bucket of this many bits of the key's hash."""
        self._fetch_all(snapshot)
        buckets = 2**bits
        sizes = np.zeros(buckets, np.int64)
        for file in snapshot.files:
            bucket_of_rows = numbers_of(self._read_hashes(file), bits)
            sizes += np.bincount(bucket_of_rows, minlength=buckets)
        return sizes

    def read_bucket(self, snapshot: Snapshot, bucket: str, columns: Sequence[str]) -> pa.Table:
        """Return the rows whose key hashes begin with the bits of ``bucket``, in order."""
        needed = add_sort_columns(snapshot.order, columns)
        parts = [self._make_empty(snapshot, needed)]
        for file in snapshot.files:
            is_within_bucket = file.bucket.startswith(bucket)
            contains_bucket = bucket.startswith(file.bucket)
            if is_within_bucket:
                parts.append(self._read_live_rows(file, needed))
            elif contains_bucket:
                rows = self._read_live_rows(file, needed)
                bucket_of_rows = numbers_of(read_hash_column(rows[HASH]), len(bucket))
                in_bucket = bucket_of_rows == int(bucket, 2)
                parts.append(rows.filter(pa.array(in_bucket)))
        rows = _join_sorted(parts, snapshot)
        return rows.select(list(columns))

    def _find_rows(
        self, file: TableFile, searched_columns: Collection[str], searched: SearchedValues
    ) -> np.ndarray:
        """Return a mask of the file's rows that have one of the values in one of the columns.

        Row groups that cannot have one, according to their statistics, are not read.
        """
        path = self.find_undamaged(file.path)
        distinct_names = list(dict.fromkeys(searched_columns))
        small = self.small.read(path)
        if small is not None:
            return _has_any(small.select(distinct_names), searched.values)
        with pq.ParquetFile(path, **WIDE) as opened:
            groups = _choose_groups(opened, distinct_names, searched)
            bounds = _group_bounds(opened)
            group_numbers = np.flatnonzero(groups).tolist()
            rows = opened.read_row_groups(group_numbers, columns=distinct_names)
        was_read = _rows_of_groups(groups, bounds)
        found = np.zeros(len(was_read), bool)
        found[was_read] = _has_any(rows, searched.values)
        return found

    def difference(
        self, before: Snapshot, now: Snapshot, columns: Sequence[str] | None = None
    ) -> tuple[pa.Table, pa.Table]:
        """Return the rows that only ``before`` has, and those that only ``now`` has, in no order.

        A changed row is in both. The two must have the same columns. Rows that both have at the
        same position of one file are not read.
        """
        wanted = self._choose_columns(now, columns)
        places_before = self._places_not_in(before, now)
        places_now = self._places_not_in(now, before)
        hashes_before = self._read_hashes_at(places_before)
        hashes_now = self._read_hashes_at(places_now)
        chosen_before, chosen_now = in_one_alone(hashes_before, hashes_now)
        only_before = self._read_places(before, places_before, chosen_before, wanted)
        only_now = self._read_places(now, places_now, chosen_now, wanted)
        return only_before, only_now

    def _places_not_in(self, one: Snapshot, other: Snapshot) -> list["RowsOfFile"]:
        """Return the live rows of ``one`` that ``other`` does not share, by file.

        A row is shared if the other snapshot has it live in the same file.
        """
        files_of_other = {file.path: file for file in other.files}
        places: list[RowsOfFile] = []
        for file in one.files:
            in_one_only = self._live_mask(file)
            # The same file, maybe with other deleted rows.
            shared = files_of_other.get(file.path)
            if shared is not None:
                in_one_only &= ~self._live_mask(shared)
            if in_one_only.any():
                places.append(RowsOfFile(file, in_one_only))
        return places

    def _read_places(
        self,
        snapshot: Snapshot,
        places: Sequence["RowsOfFile"],
        chosen: np.ndarray,
        columns: list[str],
    ) -> pa.Table:
        """Return the chosen rows; ``chosen`` has a boolean for each row of all places in turn."""
        parts = [self._make_empty(snapshot, columns)]
        start = 0
        for place in places:
            end = start + np.count_nonzero(place.mask)
            chosen_mask = place.mask.copy()
            chosen_mask[place.mask] = chosen[start:end]
            start = end
            if chosen_mask.any():
                parts.append(self._read_file(place.file.path, columns, chosen_mask))
        return pa.concat_tables(parts)

    def _read_live_rows(self, file: TableFile, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the live rows of a file."""
        live_mask = self._live_mask(file) if file.gone else None
        return self._read_file(file.path, columns, live_mask)

    def _make_empty(self, snapshot: Snapshot, columns: Sequence[str]) -> pa.Table:
        """Return an empty table with the types of these columns."""
        return self._read_file(snapshot.files[0].path, columns, NO_ROW)

    def _read_hashes(self, file: TableFile) -> np.ndarray:
        """Return the hashes of the live rows of a file."""
        rows = self._read_live_rows(file, [HASH])
        return read_hash_column(rows[HASH])

    def _read_hashes_at(self, places: Sequence["RowsOfFile"]) -> np.ndarray:
        """Return the hashes of the rows of these places."""
        hashes: list[np.ndarray] = []
        for place in places:
            every_row = self._read_file(place.file.path, [HASH], None)
            hashes.append(read_hash_column(every_row[HASH])[place.mask])
        return all_hashes(hashes)

    def _live_mask(self, file: TableFile) -> np.ndarray:
        """Return a boolean mask over the rows of a file that is false for deleted rows."""
        live_mask = np.ones(file.rows, bool)
        if file.gone:
            deleted = _read_positions(self.find_undamaged(file.gone))
            live_mask[deleted] = False
        return live_mask

    def _read_file(
        self, path: str, columns: Sequence[str] | None, mask: np.ndarray | None
    ) -> pa.Table:
        """Return the rows of a file that are true in the mask, or all rows if it is None.

        If HASH is among the columns, it is computed for a file of an earlier version, which has no
        hashes. Such a file is not divided by the key, so the key's part of them is zero.
        """
        wants_hashes = columns is not None and HASH in columns
        path_on_disk = self.find_undamaged(path)
        small = self.small.read(path_on_disk)
        if small is not None:
            lacks_hashes = wants_hashes and HASH not in small.column_names
            rows = add_hash_column(small, row_hashes(small, key=None)) if lacks_hashes else small
            return _select_rows(rows, columns, mask)
        with pq.ParquetFile(path_on_disk, **WIDE) as opened:
            if wants_hashes and HASH not in opened.schema_arrow.names:
                table = _read_opened(opened)
                hashed = add_hash_column(table, row_hashes(table, key=None))
                return _select_rows(hashed, columns, mask)
            return _read_opened(opened, columns, mask)

    def _batches_of_file(
        self,
        file: TableFile,
        columns: Sequence[str],
        most_rows: int,
        bytes_of_column: int = BYTES_OF_FILE,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of a file, at most ``most_rows`` at a time, in no empty batch.

        ``bytes_of_column`` is the number of bytes of a column that are read together.
        """
        path = self.find_undamaged(file.path)
        names = list(columns)
        live_mask = self._live_mask(file) if file.gone else None
        small = self.small.read(path)
        if small is not None:
            live_rows = _select_rows(small, names, live_mask)
            if live_rows.num_rows:
                yield from live_rows.combine_chunks().to_batches(most_rows)
            return
        start = 0
        # A buffer holds a piece of a column; buffering ahead would hold whole row groups.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=bytes_of_column, **WIDE) as opened:
            for batch in opened.iter_batches(most_rows, columns=names):
                end = start + len(batch)
                live_batch = batch
                if live_mask is not None:
                    live_batch = batch.filter(pa.array(live_mask[start:end]))
                start = end
                if len(live_batch):
                    # Parquet gives columns in the order of the file.
                    yield live_batch.select(names)

    def _choose_columns(self, snapshot: Snapshot, columns: Sequence[str] | None) -> list[str]:
        return self.columns(snapshot) if columns is None else list(columns)


@dataclass(frozen=True)
class RowsOfFile:
    """The rows of a file that are true in a mask."""

    file: TableFile
    mask: np.ndarray


def read_parquet(
    path: Path, columns: Sequence[str] | None = None, mask: np.ndarray | None = None
) -> pa.Table:
    """Return the rows and columns of a file, all of them or some.

    Rows are chosen by the mask, NO_ROW for none. Row groups without a chosen row are skipped. (To
    open a file as a dataset would take ten times as long.)
    """
    with pq.ParquetFile(path, **WIDE) as opened:
        return _read_opened(opened, columns, mask)


def _read_opened(
    opened: pq.ParquetFile, columns: Sequence[str] | None = None, mask: np.ndarray | None = None
) -> pa.Table:
    """Return the rows and columns of an open file, as ``read_parquet`` does."""
    names = None if columns is None else list(columns)
    threads = opened.metadata.num_rows >= ROWS_FOR_THREADS
    if mask is None:
        table = opened.read(columns=names, use_threads=threads)
    else:
        bounds = _group_bounds(opened)
        # NO_ROW has no length of its own.
        full_mask = mask if len(mask) else np.zeros(bounds[-1], bool)
        masks_of_groups = np.split(full_mask, bounds[1:-1])
        has_chosen = np.array([part.any() for part in masks_of_groups], bool)
        # A file without row groups still gives one empty part.
        groups = has_chosen[: opened.num_row_groups]
        group_numbers = np.flatnonzero(groups).tolist()
        table = opened.read_row_groups(group_numbers, columns=names, use_threads=threads)
        chosen_of_read = full_mask[_rows_of_groups(groups, bounds)]
        # A filter copies all rows, so it is avoided if it would keep them all.
        if not chosen_of_read.all():
            table = table.filter(pa.array(chosen_of_read))
    # Parquet gives columns in the order of the file.
    return table if names is None else table.select(names)


def _select_rows(
    table: pa.Table, columns: Sequence[str] | None, mask: np.ndarray | None
) -> pa.Table:
    """Return rows and columns of a table in memory, as ``read_parquet`` does of a file."""
    selected = table if columns is None else table.select(list(columns))
    if mask is None:
        return selected
    if not mask.any():
        return selected[:0]
    # A filter copies all rows, so it is avoided if it would keep them all.
    return selected if mask.all() else selected.filter(pa.array(mask))


def merge_streams(
    streams: Sequence[Iterator[pa.RecordBatch]], order: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the rows of several sorted streams as one sorted stream.

    A batch of a stream must not be empty, and must have the columns that `sort_rows` needs. The
    result has the column STREAM too.

    Some rows of each stream wait in memory. A row can be passed on once every stream that has not
    ended has a later row waiting: nothing that follows can come before it.
    """
    open_streams = dict(enumerate(streams))
    waiting: list[pa.Table] = []
    waiting_rows = np.zeros(len(streams), np.int64)
    while open_streams:
        to_refill = [number for number in open_streams if waiting_rows[number] < REFILL_BELOW]
        for number in to_refill:
            batch = next(open_streams[number], None)
            if batch is None:
                del open_streams[number]
                continue
            stream_of_rows = pa.array(np.full(len(batch), number))
            waiting.append(pa.table(batch).append_column(STREAM, stream_of_rows))
        if not waiting:
            return
        rows = sort_rows(pa.concat_tables(waiting), order)
        stream_of_rows = rows[STREAM].to_numpy()
        from_end = stream_of_rows[::-1]
        # A later row may still come from an open stream, but none before its last waiting row.
        # Every open stream has one: it was refilled, and batches are not empty.
        ready = len(rows)
        for number in open_streams:
            rows_after_last = int(np.argmax(from_end == number))
            ready = min(ready, len(rows) - rows_after_last)
        yield rows.slice(0, ready)
        waiting = [rows.slice(ready)]
        waiting_rows = np.bincount(stream_of_rows[ready:], minlength=len(streams))


def sort_rows(table: pa.Table, order: Sequence[str]) -> pa.Table:
    """Return the rows sorted by the columns of an order, and by HASH where these are equal.

    The table must have these columns (`add_sort_columns`).
    """
    keys: list[tuple[str, str]] = []
    for name in order:
        direction = "descending" if name.startswith(DESCENDING) else "ascending"
        keys.append((name.removeprefix(DESCENDING), direction))
    keys.append((HASH, "ascending"))
    sorted_positions = pc.sort_indices(table, keys)
    return table.take(sorted_positions)


def _join_sorted(parts: Sequence[pa.Table], snapshot: Snapshot) -> pa.Table:
    """Join rows of several files in the order of their table.

    The first part has no rows. The rows of a single file are in order already.
    """
    rows = pa.concat_tables(parts)
    parts_with_rows = len(parts) - 1
    return rows if parts_with_rows <= 1 else sort_rows(rows, snapshot.order)


def name_sort_columns(order: Sequence[str]) -> list[str]:
    """Return the columns of an order without the marks for descending ones."""
    return [name.removeprefix(DESCENDING) for name in order]


def add_sort_columns(order: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the columns, and those by which `sort_rows` sorts, each once."""
    return list(dict.fromkeys([*columns, *name_sort_columns(order), HASH]))


def add_hash_column(table: pa.Table, hashes: np.ndarray) -> pa.Table:
    """Return the table with its hashes in the column HASH."""
    kind = pa.binary(HASH_BYTES)
    content = pa.py_buffer(np.ascontiguousarray(hashes))
    # No cell is null, so there is no buffer of validity.
    buffers = [None, content]
    cells = pa.FixedSizeBinaryArray.from_buffers(kind, len(hashes), buffers)
    return table.append_column(HASH, cells)


def read_hash_column(column: pa.ChunkedArray) -> np.ndarray:
    """Return the hashes in a column HASH, as uint8 of shape (rows, HASH_BYTES)."""
    cells = column.combine_chunks()
    if not len(cells):
        return all_hashes([])
    _, buffer = cells.buffers()
    content = np.frombuffer(buffer, np.uint8)
    start = cells.offset * HASH_BYTES
    end = start + len(cells) * HASH_BYTES
    return content[start:end].reshape(-1, HASH_BYTES)


def split_flags(flags: np.ndarray, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Split an array of flags into pieces as long as the parts."""
    lengths = [len(part) for part in parts]
    ends = np.cumsum(lengths)
    return np.split(flags, ends[:-1])


def _group_bounds(opened: pq.ParquetFile) -> np.ndarray:
    """Return zero, and the position of the row after each row group."""
    metadata = opened.metadata
    sizes = [metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
    return np.cumsum([0, *sizes])


def _rows_of_groups(groups: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return a mask of the file's rows that are in the flagged row groups.

    ``bounds`` are those of `_group_bounds`.
    """
    rows_of_each = np.diff(bounds)
    return np.repeat(groups, rows_of_each)


def _leaf_columns(schema: Any) -> dict[str, int]:
    """Return the position in a row group of each column of a file, by its name."""
    return {schema.column(number).path: number for number in range(len(schema))}


def _choose_groups(
    opened: pq.ParquetFile, searched_columns: Collection[str], searched: SearchedValues
) -> np.ndarray:
    """Return a boolean for each row group: whether it may have one of the values in a column."""
    groups = np.ones(opened.num_row_groups, bool)
    schema = opened.schema_arrow
    all_are_texts = all(is_text(schema.field(name).type) for name in searched_columns)
    if searched.texts is None or not all_are_texts:
        return groups
    leaf_columns = _leaf_columns(opened.schema)
    leaves = [leaf_columns[name] for name in searched_columns]
    for number in range(opened.num_row_groups):
        metadata = opened.metadata.row_group(number)
        statistics = [metadata.column(leaf).statistics for leaf in leaves]
        groups[number] = any(_may_have(each, searched.texts) for each in statistics)
    return groups


def _may_have(statistics: Any, texts: Sequence[str]) -> bool:
    """Return whether one of the sorted texts is between the least and the greatest value."""
    if statistics is None or not statistics.has_min_max:
        return True
    first_candidate = bisect_left(texts, statistics.min)
    if first_candidate == len(texts):
        return False
    return texts[first_candidate] <= statistics.max


def _has_any(table: pa.Table, values: pa.Array) -> np.ndarray:
    """Return a mask of the rows that have one of the values in any column."""
    found = np.zeros(table.num_rows, bool)
    for column in table.columns:
        texts = column if is_text(column.type) else column.cast(STRING)
        searched = values.cast(texts.type)
        has_value = pc.is_in(texts, value_set=searched).combine_chunks()
        found |= has_value.to_numpy(zero_copy_only=False)
    return found


# A cache is safe here: a file is named by its content and never changes.
@lru_cache(1024)
def _schema_without_hash(path: Path) -> pa.Schema:
    """Return the schema of a file of a table, without HASH."""
    return pa.schema([field for field in pq.read_schema(path) if field.name != HASH])


# A cache is safe here too.
@lru_cache(1024)
def _read_positions(path: Path) -> np.ndarray:
    """Return the positions of the deleted rows that a file lists."""
    return read_parquet(path)[POSITION].to_numpy()
