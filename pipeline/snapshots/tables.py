"""Writes the files of tables: buckets of rows, small additions, and positions of deleted rows.

    <root>/<table>/<sha256>.parquet        rows, by key, each with its hash in the last column
    <root>/<table>/gone/<sha256>.parquet   positions of the deleted rows of one such file

A small table is one file. A larger one is divided into buckets by the first bits of the hash of
each row's key; the number of buckets follows from the number of rows. A run that changes few rows
adds one file with the new rows of all buckets, and a file of positions for each file that loses
rows. When there are too many additions, the smaller half of them is merged into one. When additions
and deleted rows exceed a share of a bucket, that bucket is rewritten as one or several files.
Files are named by the hash of their content and never change.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from xxhash import xxh3_64_intdigest

from pipeline.contract.cells import VECTOR
from pipeline.contract.schemas import is_list, is_text, type_name
from pipeline.errors import DataError
from pipeline.files import publish_file, sha256_of, temporary_file
from pipeline.snapshots.folder import Kept
from pipeline.snapshots.row_hashes import (
    MOST_BITS,
    all_hashes,
    group_numbers,
    in_one_alone,
    numbers_of,
    row_hashes,
    table_digest,
)
from pipeline.snapshots.table_rows import (
    HASH,
    POSITION,
    SearchedValues,
    Snapshot,
    TableFile,
    TableReader,
    add_hash_column,
    name_sort_columns,
    read_hash_column,
    sort_rows,
    split_flags,
)

# PyArrow creates the functions of this module on import, so type checkers see none of them.
pc: Any = pyarrow.compute

ROW_GROUP, ROW_GROUP_OF_VECTORS = 10_000, 1_000
"""Rows of a row group. To read one row its whole group is read, and vectors are large."""
PAGE_BYTES = 2**18
GONE_FOLDER = "gone"
FILE_OF_A_TABLE = re.compile(rf"(?!\.\.?/)[^/]+/({GONE_FOLDER}/)?[0-9a-f]{{64}}\.parquet")
"""The path of a file of a table below the snapshots folder. The first part is not "." or ".."."""
WHOLE_BELOW = 1_000
"""Rows below which a table is one file: writing it again takes next to no time."""
UNIQUE = ("id", HASH)
"""Columns in which no value occurs twice."""
BUCKET_ROWS = 40_000
"""Rows from which on a bucket is split into two or more."""
LEAST_SHARE = 0.25
"""The share of BUCKET_ROWS below which neighbouring buckets are merged into one."""
MOST_ADDITIONS = 12
"""The most files of additions of a table. The limit of each table is lower: see `_limit_of`."""
OUTGROWN = 0.5
"""The most of a bucket's rows, as a share, that may be additions, or deleted from its file. Above
it the bucket is rewritten. The limit of each bucket is lower: see `_limit_of`."""


@dataclass
class LiveRows:
    """The live rows of a file, which are those that are not deleted.

    ``alive`` is a boolean mask over the rows of the file; ``hashes`` has one hash per live row.
    """

    file: TableFile
    alive: np.ndarray
    hashes: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.hashes)

    @property
    def gone(self) -> int:
        return len(self.alive) - len(self.hashes)

    def without(self, deleted: np.ndarray) -> "LiveRows":
        """Return the rows that stay live; ``deleted`` is a boolean mask over the live rows."""
        alive = self.alive.copy()
        alive[alive] = ~deleted
        return LiveRows(self.file, alive, self.hashes[~deleted])


@dataclass(frozen=True)
class TableStore(TableReader):
    """Reads and writes the tables of one folder of snapshots."""

    def keep(self, tables: Iterable[Snapshot]) -> None:
        """Make sure that the files of tables are kept wherever the snapshots are.

        A record that names a table does so as well; this is for the time before.
        """
        self.folder.keep(path for table in tables for path in table.paths)

    def list_files(self, name: str) -> list[Snapshot]:
        """Return each file with rows of a table as a snapshot of its own, the largest first.

        The number of rows is not known: it is 0.
        """
        files = [listed for listed in self.folder.listed(name) if _is_file_of(name, listed)]
        files.sort(key=lambda file: file.bytes, reverse=True)
        snapshots: list[Snapshot] = []
        for file in files:
            sha256 = PurePosixPath(file.name).stem
            table_file = TableFile(file.name, rows=0)
            snapshots.append(Snapshot(0, sha256, (table_file,)))
        return snapshots

    def _if_readable(self, snapshot: Snapshot | None) -> Snapshot | None:
        return snapshot if snapshot is not None and self.exists(snapshot) else None

    def write(
        self,
        name: str,
        table: pa.Table,
        order: Sequence[str] = (),
        before: Snapshot | None = None,
    ) -> Snapshot:
        """Write a table and return its snapshot.

        The result is ``before`` if that has the same rows. If it differs in few rows, the result
        shares its files. ``order`` names the columns that fix the order of the rows. Raises
        DiskFullError, and leaves nothing.
        """
        before = self._if_readable(before)
        snapshot = Snapshot(table.num_rows, "", (), tuple(order))
        hashes = row_hashes(table, snapshot.key)
        sha256 = table_digest(hashes, table.schema, bool(order))
        if before is not None and before.sha256 == sha256:
            return before
        if before is not None and self._can_share_files(before, table, order):
            live = self._find_live_rows(before.files)
            hashes_by_file = [each.hashes for each in live]
            gone, new = in_one_alone(all_hashes(hashes_by_file), hashes)
            changed_rows = np.count_nonzero(gone) + np.count_nonzero(new)
            if changed_rows <= OUTGROWN * before.rows:
                gone_by_file = split_flags(gone, hashes_by_file)
                kept = _without_gone(live, gone_by_file)
                added = table.filter(pa.array(new))
                return self._write_changes(name, before, kept, added, hashes[new])
        hashed = _add_hashes(table, hashes, order)
        # Buckets go by the hash of the key, which only a table with an order has.
        files = self._write_in_buckets(name, hashed) if order else [self._write_file(name, hashed)]
        return replace(snapshot, sha256=sha256, files=tuple(files))

    def _can_share_files(self, before: Snapshot, table: pa.Table, order: Sequence[str]) -> bool:
        """Return whether the table may reuse files of ``before``.

        That is large enough, and has the same order, columns and types.
        """
        if before.rows < WHOLE_BELOW:
            return False
        if not order or before.order != tuple(order):
            return False
        columns_before = _columns_of(self.schema(before))
        return columns_before == _columns_of(table.schema)

    def replace_rows(
        self, name: str, before: Snapshot, column: str, values: pa.Array, rows: pa.Table
    ) -> Snapshot:
        """Return the table with ``rows`` in place of the rows whose ``column`` has one of the
        values. The table must have an order."""
        live = self._find_live_rows(before.files)
        searched = SearchedValues.of(values)
        # For each file a mask over its live rows, and the hashes of the rows that it marks.
        found_by_file: list[np.ndarray] = []
        old_hashes: list[np.ndarray] = []
        for each in live:
            found = self._find_rows(each.file, [column], searched)
            found_in_live = found[each.alive]
            found_by_file.append(found_in_live)
            old_hashes.append(each.hashes[found_in_live])
        hashes = row_hashes(rows, before.key)
        # A row that is replaced by an equal one stays where it is.
        gone, new = in_one_alone(all_hashes(old_hashes), hashes)
        if not gone.any() and not new.any():
            return before
        gone_by_file: list[np.ndarray] = []
        for found, gone_of_found in zip(found_by_file, split_flags(gone, old_hashes), strict=True):
            gone_here = found.copy()
            gone_here[found] = gone_of_found
            gone_by_file.append(gone_here)
        kept = _without_gone(live, gone_by_file)
        added = rows.filter(pa.array(new))
        return self._write_changes(name, before, kept, added, hashes[new])

    def write_bucket(
        self, name: str, rows: pa.Table, order: Sequence[str], bucket: str, naming: str
    ) -> list[TableFile]:
        """Write the rows of one bucket of groups; return the files, which `join_files` combines.

        The bits of ``bucket`` are the first of the hash of a group's name, which is in the column
        ``naming``. Rows of other buckets are ignored.
        """
        key = name_sort_columns(order)[0]
        keys = rows[key]
        bits = len(bucket)
        hashes = row_hashes(rows, key)
        groups_are_keys = naming == key and is_text(keys.type)
        if groups_are_keys and not keys.null_count:
            # The hashes of the groups' names are there already.
            groups = numbers_of(hashes, bits)
        else:
            groups = group_numbers(rows[naming], bits)
        in_bucket = groups == int(bucket, 2)
        # A filter copies all rows, so it is avoided if it would keep them all.
        if not in_bucket.all():
            rows = rows.filter(pa.array(in_bucket))
            hashes = hashes[in_bucket]
        hashed = _add_hashes(rows, hashes, order)
        if not groups_are_keys:
            return [self._write_file(name, hashed, added=True)] if hashed.num_rows else []
        # The key hash of a null key is zero, not that of its group's name "". Such a row may be
        # outside of the bucket by the hash that its files go by.
        is_within = _are_in(read_hash_column(hashed[HASH]), [bucket])
        within = hashed.filter(pa.array(is_within))
        outside = hashed.filter(pa.array(~is_within))
        files = self._write_in_buckets(name, within, bucket)
        if outside.num_rows:
            files.append(self._write_file(name, outside, added=True))
        return files

    def join_files(
        self,
        name: str,
        files: Sequence[TableFile],
        schema: pa.Schema,
        order: Sequence[str],
        before: Snapshot | None,
    ) -> Snapshot:
        """Combine files into a table and return its snapshot, or ``before`` if it has the same
        rows.

        The files either make up all buckets or are all additions. Small neighbouring buckets are
        merged. The files were written by tasks that are noted (see `TaskNotes`).
        """
        self.folder.note_kept(file.path for file in files)
        self.folder.fetch(file.path for file in files)
        before = self._if_readable(before)
        live = self._find_live_rows(files)
        hashes = all_hashes([each.hashes for each in live])
        sha256 = table_digest(hashes, schema, True)
        if before is not None and before.sha256 == sha256:
            return before
        no_rows = add_hash_column(schema.empty_table(), all_hashes([]))
        only_additions = all(file.added for file in files)
        rewritten = _bucket_names(len(hashes)) if only_additions else None
        laid_out = self._lay_out(name, order, live, no_rows, rewritten)
        # The order in which tasks ended must not show in the record.
        laid_out.sort(key=lambda file: (file.added, file.bucket))
        return Snapshot(len(hashes), sha256, tuple(laid_out), tuple(order))

    def _find_live_rows(self, files: Iterable[TableFile]) -> list[LiveRows]:
        live: list[LiveRows] = []
        for file in files:
            alive = self._live_mask(file)
            hashes = self._read_hashes(file)
            live.append(LiveRows(file, alive, hashes))
        return live

    def _write_changes(
        self,
        name: str,
        before: Snapshot,
        kept: Sequence[LiveRows],
        added: pa.Table,
        hashes: np.ndarray,
    ) -> Snapshot:
        """Write a changed table and return its snapshot.

        ``kept`` has the rows that stay of each file of ``before``; ``hashes`` are those of the
        rows in ``added``.
        """
        hashes_of_kept = [each.hashes for each in kept]
        hashes_of_all = all_hashes([*hashes_of_kept, hashes])
        sha256 = table_digest(hashes_of_all, added.schema, True)
        new = _add_hashes(added, hashes, before.order)
        files = self._lay_out(name, before.order, kept, new)
        return replace(before, rows=len(hashes_of_all), sha256=sha256, files=tuple(files))

    def _lay_out(
        self,
        name: str,
        order: Sequence[str],
        kept: Sequence[LiveRows],
        new: pa.Table,
        rewritten: Sequence[str] | None = None,
    ) -> list[TableFile]:
        """Write what is missing of a table, and return its files: buckets first, then additions.

        The rows are those of ``kept`` and those of ``new``, which has their hashes. ``rewritten``
        names the buckets to rewrite; None stands for those that have outgrown their limits.
        """
        base = [each for each in kept if not each.file.added]
        additions = [each for each in kept if each.file.added]
        if rewritten is None:
            hashes_of_additions = [each.hashes for each in additions]
            added_hashes = all_hashes([*hashes_of_additions, read_hash_column(new[HASH])])
            rewritten = _outgrown_buckets(name, base, added_hashes)
        files: list[TableFile] = []
        for each in base:
            is_rewritten = each.file.bucket.startswith(tuple(rewritten))
            if not is_rewritten:
                files.append(self._mark_gone(name, each))
        files_of_additions = self._lay_out_additions(name, order, additions, new, rewritten)
        files += self._rewrite_buckets(name, order, kept, new, rewritten)
        return [*files, *files_of_additions]

    def _lay_out_additions(
        self,
        name: str,
        order: Sequence[str],
        additions: Sequence[LiveRows],
        new: pa.Table,
        rewritten: Sequence[str],
    ) -> list[TableFile]:
        """Return the files of additions without the rows of rewritten buckets.

        Rows of ``new`` are written as another addition. If there are too many files, the half of
        them with the fewest rows is merged into one.
        """
        files: list[TableFile] = []
        for each in additions:
            is_rewritten = _are_in(each.hashes, rewritten)
            left = each.without(is_rewritten)
            if left.rows:
                files.append(self._mark_gone(name, left))
        is_rewritten = _are_in(read_hash_column(new[HASH]), rewritten)
        added = new.filter(pa.array(~is_rewritten))
        if added.num_rows:
            files += self._write_in_buckets(name, added, added=True)
        # An addition of one bucket alone is large.
        mergeable = [file for file in files if not file.bucket]
        if len(mergeable) <= _limit_of(name, MOST_ADDITIONS):
            return files
        # The path decides among files of equal size, so that the choice is the same every time.
        mergeable.sort(key=lambda file: (file.live, file.path))
        half = len(mergeable) // 2 + 1
        merging = mergeable[:half]
        others = [file for file in files if file not in merging]
        parts = [self._read_live_rows(file) for file in merging]
        merged = sort_rows(pa.concat_tables(parts), order)
        return [*others, *self._write_in_buckets(name, merged, added=True)]

    def _rewrite_buckets(
        self,
        name: str,
        order: Sequence[str],
        kept: Sequence[LiveRows],
        new: pa.Table,
        rewritten: Sequence[str],
    ) -> list[TableFile]:
        """Write all live rows of these buckets, and return their new files."""
        if not rewritten:
            return []
        # Files that hold rows of any bucket are read once; a file of one bucket only for it.
        rows_of_any_bucket = [new]
        files_of_one_bucket: list[LiveRows] = []
        for each in kept:
            has_any_bucket = each.file.added and not each.file.bucket
            if has_any_bucket:
                rows_of_any_bucket.append(self._read_buckets(each, rewritten))
            else:
                files_of_one_bucket.append(each)
        files: list[TableFile] = []
        for bucket in rewritten:
            parts: list[pa.Table] = []
            for rows in rows_of_any_bucket:
                in_bucket = _are_in(read_hash_column(rows[HASH]), [bucket])
                parts.append(rows.filter(pa.array(in_bucket)))
            overlapping = [
                each for each in files_of_one_bucket if _overlap(each.file.bucket, bucket)
            ]
            parts += [self._read_buckets(each, [bucket]) for each in overlapping]
            rows_of_bucket = sort_rows(pa.concat_tables(parts), order)
            files += self._write_in_buckets(name, rows_of_bucket, bucket)
        return files

    def _read_buckets(self, live: LiveRows, buckets: Sequence[str]) -> pa.Table:
        """Return the live rows of a file that are in one of the buckets."""
        wanted = live.alive.copy()
        wanted[live.alive] = _are_in(live.hashes, buckets)
        return self._read_file(live.file.path, None, wanted)

    def _write_in_buckets(
        self, name: str, rows: pa.Table, bucket: str = "", added: bool = False
    ) -> list[TableFile]:
        """Write the rows of a bucket to as many files as their number needs.

        The rows are in order and have their hashes.
        """
        bits = len(bucket)
        more_bits = min(_bits_for(rows.num_rows), MOST_BITS - bits)
        if not more_bits:
            return [self._write_file(name, rows, bucket, added)]
        # All rows are in the bucket, so their hashes differ only in the further bits.
        further_bits = 2**more_bits - 1
        numbers = numbers_of(read_hash_column(rows[HASH]), bits + more_bits) & further_bits
        files: list[TableFile] = []
        for number in range(2**more_bits):
            part = rows.filter(pa.array(numbers == number))
            part_of_bucket = f"{bucket}{number:0{more_bits}b}"
            files.append(self._write_file(name, part, part_of_bucket, added))
        return files

    def _mark_gone(self, name: str, live: LiveRows) -> TableFile:
        """Write the positions of a file's deleted rows, if they changed; return the file."""
        # Rows are only ever deleted from a file, so an equal number means the same rows.
        if live.gone == live.file.gone_rows:
            return live.file
        positions = pa.array(np.flatnonzero(~live.alive), pa.uint32())
        deleted = pa.table({POSITION: positions})
        gone = self._write_parquet(f"{name}/{GONE_FOLDER}", deleted)
        return replace(live.file, gone=gone, gone_rows=live.gone)

    def _write_file(
        self, name: str, table: pa.Table, bucket: str = "", added: bool = False
    ) -> TableFile:
        path = self._write_parquet(name, table)
        return TableFile(path, table.num_rows, bucket=bucket, added=added)

    def _write_parquet(self, name: str, table: pa.Table) -> str:
        """Write a file named by its content, unless it is there undamaged; return its path.

        The path is relative to the snapshots folder. Raises DiskFullError and leaves nothing.
        """
        folder = self.folder.root / name
        with temporary_file(folder) as temporary:
            pq.write_table(
                table, temporary, compression="zstd", data_page_size=PAGE_BYTES,
                row_group_size=ROW_GROUP_OF_VECTORS if VECTOR in table.schema.types else ROW_GROUP,
                use_dictionary=_repeated(table.schema),  # pyright: ignore[reportArgumentType] - names are taken too
                store_schema=False,
            )  # fmt: skip
            path = folder / f"{sha256_of(temporary)}.parquet"
            relative = path.relative_to(self.folder.root).as_posix()
            if not path.exists() or not self._is_undamaged(relative):
                publish_file(temporary, path)
                self.folder.note_written(relative)
        return relative

    def _is_undamaged(self, path: str) -> bool:
        try:
            self.find_undamaged(path)
        except DataError:
            return False
        return True

    def ensure_order(self, name: str, snapshot: Snapshot, order: Sequence[str]) -> Snapshot:
        """Return the table with hashes and an order, which tables of earlier versions lack."""
        if snapshot.order or not order:
            return snapshot
        return self.write(name, self.read_arrow(snapshot), order)

    def drop_gone_rows(self, snapshot: Snapshot) -> Snapshot:
        """Rewrite the buckets of a table that has deleted rows, so that no file holds one."""
        if not any(file.gone for file in snapshot.files):
            return snapshot
        first_file = snapshot.files[0]
        name = PurePosixPath(first_file.path).parent.as_posix()
        buckets = [file.bucket for file in snapshot.files if not file.added]
        no_rows = self._read_live_rows(first_file).slice(0, 0)
        live = self._find_live_rows(snapshot.files)
        files = self._lay_out(name, snapshot.order, live, no_rows, buckets)
        return replace(snapshot, files=tuple(files))


def _without_gone(live: Sequence[LiveRows], gone_by_file: Sequence[np.ndarray]) -> list[LiveRows]:
    """Return what stays of each file; the masks mark the rows to delete among its live rows."""
    return [each.without(gone) for each, gone in zip(live, gone_by_file, strict=True)]


def _is_file_of(table: str, listed: Kept) -> bool:
    """Return whether the file holds rows of the table, not positions of deleted rows."""
    folder = PurePosixPath(listed.name).parent
    if folder.name == GONE_FOLDER or not FILE_OF_A_TABLE.fullmatch(listed.name):
        return False
    return folder.as_posix() == table


def _limit_of(name: str, most: float) -> float:
    """Return the limit of a table or bucket: between half of ``most`` and all of it.

    It is spread by a hash of the name, so that tables that grow alike do not all reach their limit
    in one run.
    """
    share = xxh3_64_intdigest(name.encode()) / 2**64
    least = most / 2
    return least * (1 + share)


def _outgrown_buckets(name: str, base: Sequence[LiveRows], added_hashes: np.ndarray) -> list[str]:
    """Return the buckets to rewrite, none of them within another.

    ``added_hashes`` are those of the rows in additions. A bucket is rewritten if it has outgrown
    its limit, or as a part of a larger one if it and its neighbours have become small.
    """
    base_rows = sum(each.rows for each in base)
    if base_rows + len(added_hashes) < WHOLE_BELOW:
        return [""]
    leaf_of_added = numbers_of(added_hashes, MOST_BITS)
    added_by_leaf = np.bincount(leaf_of_added, minlength=2**MOST_BITS)
    rows: dict[str, int] = {}
    outgrown: set[str] = set()
    for each in base:
        bucket = each.file.bucket
        added = _count_in(added_by_leaf, bucket)
        rows[bucket] = each.rows + added
        share_allowed = _limit_of(f"{name}/{bucket}", OUTGROWN)
        if max(each.gone, added) > share_allowed * rows[bucket]:
            outgrown.add(bucket)
    for bucket in rows:
        merged = _merge_with_neighbours(bucket, rows)
        if merged != bucket:
            outgrown.add(merged)
    return [bucket for bucket in sorted(outgrown) if not _is_within_any(bucket, outgrown)]


def _merge_with_neighbours(bucket: str, rows: Mapping[str, int]) -> str:
    """Return the largest bucket around this one that still has few rows, or this one itself.

    ``rows`` maps each bucket to the number of its rows.
    """
    while bucket:
        parent = bucket[:-1]
        rows_of_parent = sum(rows[each] for each in rows if each.startswith(parent))
        if rows_of_parent >= LEAST_SHARE * BUCKET_ROWS:
            return bucket
        bucket = parent
    return bucket


def _is_within_any(bucket: str, buckets: Collection[str]) -> bool:
    """Return whether one of the buckets contains this one and is larger."""
    return any(bucket[:end] in buckets for end in range(len(bucket)))


def _bucket_names(rows: int) -> list[str]:
    """Return the names of all buckets into which a table of this many rows is divided."""
    bits = min(_bits_for(rows), MOST_BITS)
    if not bits:
        return [""]
    return [f"{number:0{bits}b}" for number in range(2**bits)]


def _bits_for(rows: int) -> int:
    """Return how many bits of the hash divide so many rows into buckets below BUCKET_ROWS.

    Each further bit halves the buckets.
    """
    return (rows // BUCKET_ROWS).bit_length()


def _count_in(counts: np.ndarray, bucket: str) -> int:
    """Return how many rows a bucket has; ``counts`` has one number per leaf of MOST_BITS bits."""
    first_leaf = int(bucket.ljust(MOST_BITS, "0"), 2)
    last_leaf = int(bucket.ljust(MOST_BITS, "1"), 2)
    counts_of_leaves = counts[first_leaf : last_leaf + 1]
    return int(counts_of_leaves.sum())


def _are_in(hashes: np.ndarray, buckets: Sequence[str]) -> np.ndarray:
    """Return a boolean mask of the rows that are in one of the buckets."""
    found = np.zeros(len(hashes), bool)
    for bucket in buckets:
        if not bucket:
            # The bucket of no bits has all rows.
            return np.ones(len(hashes), bool)
        bucket_of_rows = numbers_of(hashes, len(bucket))
        found |= bucket_of_rows == int(bucket, 2)
    return found


def _overlap(one: str, other: str) -> bool:
    """Return whether one of the two buckets contains the other."""
    return one.startswith(other) or other.startswith(one)


def _columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(field.name, type_name(field.type)) for field in schema]


def _add_hashes(table: pa.Table, hashes: np.ndarray, order: Sequence[str]) -> pa.Table:
    """Return the table with the column HASH, sorted by it where keys are equal.

    Apart from that the rows are expected to be in order already.
    """
    hashed = add_hash_column(table, hashes)
    keys = table.select(name_sort_columns(order))
    if order and _has_equal_neighbours(keys):
        return sort_rows(hashed, order)
    return hashed


def _has_equal_neighbours(keys: pa.Table) -> bool:
    """Return whether a row of keys equals the row before it."""
    if keys.num_rows < 2:
        return False
    equals_row_before = np.ones(keys.num_rows - 1, bool)
    for column in keys.columns:
        cells = column.combine_chunks()
        equals_row_before &= _equal_cells(cells[1:], cells[:-1])
    return bool(equals_row_before.any())


def _equal_cells(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Compare two columns cell by cell; two null cells are equal."""
    equal_or_null = pc.equal(left, right)
    equal = pc.fill_null(equal_or_null, False)
    both_null = pc.and_(left.is_null(), right.is_null())
    are_alike = pc.or_(equal, both_null)
    return are_alike.to_numpy(zero_copy_only=False)


def _repeated(schema: pa.Schema) -> list[str]:
    """Return the columns whose values may repeat, by their names in Parquet.

    These are written with a dictionary. For other columns, above all vectors, a dictionary doubles
    the time to write, and readers keep it in memory.
    """
    names: list[str] = []
    for column in schema:
        if is_list(column.type):
            if is_text(column.type.value_type):
                names.append(f"{column.name}.list.element")
        elif column.name not in UNIQUE:
            names.append(column.name)
    return names
