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
    in_order,
    names_of,
    octets,
    split,
    with_hashes,
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
        files = [kept for kept in self.folder.listed(name) if _is_file_of(name, kept)]
        files.sort(key=lambda kept: kept.bytes, reverse=True)
        snapshots: list[Snapshot] = []
        for kept in files:
            sha256 = PurePosixPath(kept.name).stem
            snapshots.append(Snapshot(0, sha256, (TableFile(kept.name, 0),)))
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
            if gone.sum() + new.sum() <= OUTGROWN * before.rows:
                gone_by_file = split(gone, hashes_by_file)
                kept = [
                    each.without(gone_here)
                    for each, gone_here in zip(live, gone_by_file, strict=True)
                ]
                added = table.filter(pa.array(new))
                return self._write_changes(name, before, kept, added, hashes[new])
        hashed = _add_hashes(table, hashes, order)
        files = self._write_in_buckets(name, hashed) if order else [self._write_file(name, hashed)]
        return replace(snapshot, sha256=sha256, files=tuple(files))

    def _can_share_files(self, before: Snapshot, table: pa.Table, order: Sequence[str]) -> bool:
        """Return whether the table may reuse files of ``before``.

        That is large enough, and has the same order, columns and types.
        """
        if before.rows < WHOLE_BELOW or not order or before.order != tuple(order):
            return False
        return _columns_of(self.schema(before)) == _columns_of(table.schema)

    def replace_rows(
        self, name: str, before: Snapshot, column: str, values: pa.Array, rows: pa.Table
    ) -> Snapshot:
        """Return the table with ``rows`` in place of the rows whose ``column`` has one of the
        values. The table must have an order."""
        live = self._find_live_rows(before.files)
        searched = SearchedValues.of(values)
        # A mask per file over its live rows: at first all rows to replace, then those to delete.
        masks = [self._find_rows(each.file, [column], searched)[each.alive] for each in live]
        old = [each.hashes[mask] for each, mask in zip(live, masks, strict=True)]
        hashes = row_hashes(rows, before.key)
        gone, new = in_one_alone(all_hashes(old), hashes)
        if not gone.any() and not new.any():
            return before
        for mask, gone_here in zip(masks, split(gone, old), strict=True):
            mask[mask] = gone_here
        kept = [each.without(mask) for each, mask in zip(live, masks, strict=True)]
        return self._write_changes(name, before, kept, rows.filter(pa.array(new)), hashes[new])

    def write_bucket(
        self, name: str, rows: pa.Table, order: Sequence[str], bucket: str, naming: str
    ) -> list[TableFile]:
        """Write the rows of one bucket of groups; return the files, which `join_files` combines.

        The bits of ``bucket`` are the first of the hash of a group's name, which is in the column
        ``naming``. Rows of other buckets are ignored.
        """
        key = names_of(order)[0]
        hashes = row_hashes(rows, key)
        groups_are_keys = naming == key and is_text(rows[key].type)
        if groups_are_keys and not rows[key].null_count:
            groups = numbers_of(hashes, len(bucket))
        else:
            groups = group_numbers(rows[naming], len(bucket))
        in_bucket = groups == int(bucket, 2)
        # A filter copies all rows, so it is avoided if it would keep them all.
        if not in_bucket.all():
            rows, hashes = rows.filter(pa.array(in_bucket)), hashes[in_bucket]
        hashed = _add_hashes(rows, hashes, order)
        if not groups_are_keys:
            return [self._write_file(name, hashed, added=True)] if hashed.num_rows else []
        # The key hash of a null key is zero, not that of its group's name "". Such a row may be
        # outside of the bucket by the hash that its files go by.
        within = pa.array(_are_in(octets(hashed[HASH]), [bucket]))
        files = self._write_in_buckets(name, hashed.filter(within), bucket)
        outside = hashed.filter(pc.invert(within))
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
        no_rows = with_hashes(schema.empty_table(), all_hashes([]))
        only_additions = all(file.added for file in files)
        rewritten = _bucket_names(len(hashes)) if only_additions else None
        found = self._lay_out(name, order, live, no_rows, rewritten)
        found.sort(key=lambda file: (file.added, file.bucket))
        return Snapshot(len(hashes), sha256, tuple(found), tuple(order))

    def _find_live_rows(self, files: Iterable[TableFile]) -> list[LiveRows]:
        return [LiveRows(file, self._live_mask(file), self._read_hashes(file)) for file in files]

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
        hashes_of_all = all_hashes([*(each.hashes for each in kept), hashes])
        sha256 = table_digest(hashes_of_all, added.schema, True)
        files = self._lay_out(name, before.order, kept, _add_hashes(added, hashes, before.order))
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
            added_hashes = all_hashes([*(each.hashes for each in additions), octets(new[HASH])])
            rewritten = _outgrown_buckets(name, base, added_hashes)
        unchanged = [each for each in base if not each.file.bucket.startswith(tuple(rewritten))]
        files = [self._mark_gone(name, each) for each in unchanged]
        small = self._lay_out_additions(name, order, additions, new, rewritten)
        files += self._rewrite_buckets(name, order, kept, new, rewritten)
        return [*files, *small]

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
        left = [each.without(_are_in(each.hashes, rewritten)) for each in additions]
        files = [self._mark_gone(name, each) for each in left if each.rows]
        added = new.filter(pa.array(~_are_in(octets(new[HASH]), rewritten)))
        if added.num_rows:
            files += self._write_in_buckets(name, added, added=True)
        mergeable = [file for file in files if not file.bucket]
        if len(mergeable) <= _limit_of(name, MOST_ADDITIONS):
            return files
        mergeable.sort(key=lambda file: (file.live, file.path))
        merging = mergeable[: len(mergeable) // 2 + 1]
        rows = in_order(pa.concat_tables(map(self._read_live_rows, merging)), order)
        others = [file for file in files if file not in merging]
        return [*others, *self._write_in_buckets(name, rows, added=True)]

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
        mixed = [each for each in kept if each.file.added and not each.file.bucket]
        of_one_bucket = [each for each in kept if each.file.bucket or not each.file.added]
        waiting = [new, *(self._read_buckets(each, rewritten) for each in mixed)]
        files: list[TableFile] = []
        for bucket in rewritten:
            parts = [
                rows.filter(pa.array(_are_in(octets(rows[HASH]), [bucket]))) for rows in waiting
            ]
            parts += [
                self._read_buckets(each, [bucket])
                for each in of_one_bucket
                if _overlap(each.file.bucket, bucket)
            ]
            rows = in_order(pa.concat_tables(parts), order)
            files += self._write_in_buckets(name, rows, bucket)
        return files

    def _read_buckets(self, each: LiveRows, buckets: Sequence[str]) -> pa.Table:
        """Return the live rows of a file that are in one of the buckets."""
        flags = each.alive.copy()
        flags[flags] = _are_in(each.hashes, buckets)
        return self._read_file(each.file.path, None, flags)

    def _write_in_buckets(
        self, name: str, rows: pa.Table, bucket: str = "", added: bool = False
    ) -> list[TableFile]:
        """Write the rows of a bucket to as many files as their number needs.

        The rows are in order and have their hashes.
        """
        # Each further bit of the hash halves the buckets.
        more_bits = min((rows.num_rows // BUCKET_ROWS).bit_length(), MOST_BITS - len(bucket))
        if not more_bits:
            return [self._write_file(name, rows, bucket, added)]
        count = 2**more_bits
        numbers = numbers_of(octets(rows[HASH]), len(bucket) + more_bits) & (count - 1)
        files: list[TableFile] = []
        for number in range(count):
            part = rows.filter(pa.array(numbers == number))
            files.append(self._write_file(name, part, f"{bucket}{number:0{more_bits}b}", added))
        return files

    def _mark_gone(self, name: str, each: LiveRows) -> TableFile:
        """Write the positions of a file's deleted rows, if they changed; return the file."""
        if each.gone == each.file.gone_rows:
            return each.file
        positions = pa.table({POSITION: pa.array(np.flatnonzero(~each.alive), pa.uint32())})
        gone = self._write_parquet(f"{name}/{GONE_FOLDER}", positions)
        return replace(each.file, gone=gone, gone_rows=each.gone)

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
        name = PurePosixPath(snapshot.files[0].path).parent.as_posix()
        buckets = [file.bucket for file in snapshot.files if not file.added]
        no_rows = self._read_live_rows(snapshot.files[0]).slice(0, 0)
        live = self._find_live_rows(snapshot.files)
        files = self._lay_out(name, snapshot.order, live, no_rows, buckets)
        return replace(snapshot, files=tuple(files))


def _is_file_of(table: str, kept: Kept) -> bool:
    """Return whether the file holds rows of the table, not positions of deleted rows."""
    folder = PurePosixPath(kept.name).parent
    if not FILE_OF_A_TABLE.fullmatch(kept.name) or folder.name == GONE_FOLDER:
        return False
    return folder.as_posix() == table


def _limit_of(name: str, most: float) -> float:
    """Return the limit of a table or bucket: between half of ``most`` and all of it.

    It is spread by a hash of the name, so that tables that grow alike do not all reach their limit
    in one run.
    """
    share = xxh3_64_intdigest(name.encode()) / 2**64
    return most * (1 + share) / 2


def _outgrown_buckets(name: str, base: Sequence[LiveRows], added_hashes: np.ndarray) -> list[str]:
    """Return the buckets to rewrite, none of them within another.

    ``added_hashes`` are those of the rows in additions. A bucket is rewritten if it has outgrown
    its limit, or as a part of a larger one if it and its neighbours have become small.
    """
    if sum(each.rows for each in base) + len(added_hashes) < WHOLE_BELOW:
        return [""]
    added_counts = np.bincount(numbers_of(added_hashes, MOST_BITS), minlength=2**MOST_BITS)
    rows: dict[str, int] = {}
    outgrown: set[str] = set()
    for each in base:
        bucket = each.file.bucket
        added = _count_in(added_counts, bucket)
        rows[bucket] = each.rows + added
        limit = _limit_of(f"{name}/{bucket}", OUTGROWN) * rows[bucket]
        if max(each.gone, added) > limit:
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
    bits = min((rows // BUCKET_ROWS).bit_length(), MOST_BITS)
    return [f"{number:0{bits}b}" for number in range(2**bits)] if bits else [""]


def _count_in(counts: np.ndarray, bucket: str) -> int:
    """Return how many rows a bucket has; ``counts`` has one number per leaf of MOST_BITS bits."""
    first = int(bucket.ljust(MOST_BITS, "0"), 2)
    last = int(bucket.ljust(MOST_BITS, "1"), 2)
    return int(counts[first : last + 1].sum())


def _are_in(hashes: np.ndarray, buckets: Sequence[str]) -> np.ndarray:
    """Return a boolean mask of the rows that are in one of the buckets."""
    found = np.zeros(len(hashes), bool)
    for bucket in buckets:
        found |= numbers_of(hashes, len(bucket)) == int(bucket or "0", 2)
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
    hashed = with_hashes(table, hashes)
    if order and _has_equal_neighbours(table.select(names_of(order))):
        return in_order(hashed, order)
    return hashed


def _has_equal_neighbours(keys: pa.Table) -> bool:
    """Return whether a row of keys equals the row before it."""
    if keys.num_rows < 2:
        return False
    columns = [column.combine_chunks() for column in keys.columns]
    equal = [_equal_cells(column[1:], column[:-1]) for column in columns]
    return bool(np.logical_and.reduce(equal).any())


def _equal_cells(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Compare two columns cell by cell; two null cells are equal."""
    equal = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(left.is_null(), right.is_null())
    return pc.or_(equal, both_null).to_numpy(zero_copy_only=False)


def _repeated(schema: pa.Schema) -> list[str]:
    """Return the columns whose values may repeat, by their names in Parquet.

    These are written with a dictionary. For other columns, above all vectors, a dictionary doubles
    the time to write, and readers keep it in memory.
    """
    names: list[str] = []
    items: list[str] = []
    for column in schema:
        if is_list(column.type):
            if is_text(column.type.value_type):
                items.append(f"{column.name}.list.element")
        elif column.name not in UNIQUE:
            names.append(column.name)
    return [*names, *items]
