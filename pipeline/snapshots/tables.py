"""A table's files: buckets of rows, small additions, and the positions of rows that are gone.

    <root>/<table>/<sha256>.parquet        rows, by key, each with its hash in the last column
    <root>/<table>/gone/<sha256>.parquet   positions in a file of rows that do not count any more

A small table is one file. A larger one is in buckets of rows whose keys have hashes that begin
alike, as many as its rows need. A night that changes few rows adds a file with those that are new,
whichever buckets they are of, and says which of the others are gone; when the small additions have
become many they are merged, and when they outgrow a bucket that is written anew, as one or as
several. Files are named by the hash of their content and never changed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
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
    Snapshot,
    Sought,
    TableFile,
    TableRows,
    in_order,
    names_of,
    octets,
    split,
    with_hashes,
)

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

ROW_GROUP, ROW_GROUP_OF_VECTORS = 10_000, 1_000
"""Rows. For one of them all of its group is read, and vectors are large."""
PAGE_BYTES = 2**18
GONE_FOLDER = "gone"
WHOLE_BELOW = 1_000
"""Rows below which a table is one file: it is written in no time."""
UNIQUE = ("id", HASH)
"""Columns that hold no value twice."""
BUCKET_ROWS = 40_000
"""Rows from which on a bucket is written as two, or more."""
LEAST_SHARE = 0.25
"""Of these rows those below which buckets side by side are written as one."""
MOST_ADDITIONS = 12
OUTGROWN = 0.5
"""Share of a bucket's rows that may be additions, or gone from its file, before it is written anew.
Both are the most of any table: see ``_limit``."""


@dataclass
class Lasting:
    """A file, which of its rows are still to count, as booleans, and the hashes of these."""

    file: TableFile
    alive: np.ndarray
    hashes: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.hashes)

    @property
    def gone(self) -> int:
        return len(self.alive) - len(self.hashes)

    def without(self, going: np.ndarray) -> "Lasting":
        """``going``: which of the rows that count do not any more."""
        alive = self.alive.copy()
        alive[alive] = ~going
        return Lasting(self.file, alive, self.hashes[~going])


@dataclass(frozen=True)
class TableFiles(TableRows):
    """Writes the files of one folder of snapshots as well. ``made``: is told of one that was
    written."""

    made: Callable[[str], None] = field(kw_only=True)

    def write(
        self, name: str, table: pa.Table, order: Sequence[str], before: Snapshot | None = None
    ) -> Snapshot:
        """The table as a snapshot: that of ``before`` where it has the same rows, one that shares
        its files where it differs in few."""
        snapshot = Snapshot(table.num_rows, "", (), tuple(order))
        hashes = row_hashes(table, snapshot.key)
        sha256 = table_digest(hashes, table.schema, bool(order))
        if before is not None and before.sha256 == sha256:
            return before
        if (
            before is not None
            and before.rows >= WHOLE_BELOW
            and self._is_alike(before, table, order)
        ):
            there = self._lasting(before.files)
            every = [each.hashes for each in there]
            gone, new = in_one_alone(all_hashes(every), hashes)
            if gone.sum() + new.sum() <= OUTGROWN * before.rows:
                stays = [
                    each.without(going)
                    for each, going in zip(there, split(gone, every), strict=True)
                ]
                return self._with_changes(
                    name, before, stays, table.filter(pa.array(new)), hashes[new]
                )
        hashed = _in_order(table, hashes, order)
        files = self._in_buckets(name, hashed) if order else [self._new_file(name, hashed)]
        return replace(snapshot, sha256=sha256, files=tuple(files))

    def _is_alike(self, before: Snapshot, table: pa.Table, order: Sequence[str]) -> bool:
        """Whether rows of the one may lie beside those of the other: in one order, with the same
        columns."""
        return (
            bool(order)
            and before.order == tuple(order)
            and _columns_of(self.schema(before)) == _columns_of(table.schema)
        )

    def replaced(
        self, name: str, before: Snapshot, column: str, values: pa.Array, rows: pa.Table
    ) -> Snapshot:
        """The table with ``rows`` in place of those whose ``column`` has one of the values."""
        there, sought = self._lasting(before.files), Sought.of(values)
        going = [self.having(each.file, [column], sought)[each.alive] for each in there]
        old = [each.hashes[of_values] for each, of_values in zip(there, going, strict=True)]
        hashes = row_hashes(rows, before.key)
        gone, new = in_one_alone(all_hashes(old), hashes)
        if not gone.any() and not new.any():
            return before
        for of_values, gone_here in zip(going, split(gone, old), strict=True):
            of_values[of_values] = gone_here
        stays = [each.without(gone_here) for each, gone_here in zip(there, going, strict=True)]
        return self._with_changes(name, before, stays, rows.filter(pa.array(new)), hashes[new])

    def write_bucket(
        self, name: str, rows: pa.Table, order: Sequence[str], bucket: str, naming: str
    ) -> list[TableFile]:
        """The files of those rows of a table that are of a bucket of groups, to be ``joined`` with
        others. ``naming``: the column that names their groups."""
        key = names_of(order)[0]
        hashes = row_hashes(rows, key)
        by_key = naming == key and is_text(rows[key].type)
        hashed_as_named = by_key and not rows[key].null_count
        groups = (
            numbers_of(hashes, len(bucket))
            if hashed_as_named
            else group_numbers(rows[naming], len(bucket))
        )
        ours = groups == int(bucket, 2)
        if not ours.all():  # a copy, otherwise
            rows, hashes = rows.filter(pa.array(ours)), hashes[ours]
        hashed = _in_order(rows, hashes, order)
        if not by_key:
            return [self._new_file(name, hashed, added=True)] if hashed.num_rows else []
        within = pa.array(_in_any(octets(hashed[HASH]), [bucket]))
        files, strays = (
            self._in_buckets(name, hashed.filter(within), bucket),
            hashed.filter(pc.invert(within)),
        )
        return [*files, self._new_file(name, strays, added=True)] if strays.num_rows else files

    def joined(
        self,
        name: str,
        files: Sequence[TableFile],
        schema: pa.Schema,
        order: Sequence[str],
        before: Snapshot | None,
    ) -> Snapshot:
        """The table whose rows are in these files, which make up all buckets or none; ``before``
        where it has the same rows. Buckets that are small beside each other are written as one."""
        stays = self._lasting(files)
        every = all_hashes([each.hashes for each in stays])
        sha256 = table_digest(every, schema, True)
        if before is not None and before.sha256 == sha256:
            return before
        none = with_hashes(schema.empty_table(), all_hashes([]))
        worn = None if any(not file.added for file in files) else _buckets_of(len(every))
        laid_out = self._laid_out(name, order, stays, none, worn)
        return Snapshot(len(every), sha256, tuple(sorted(laid_out, key=_place)), tuple(order))

    def _lasting(self, files: Iterable[TableFile]) -> list[Lasting]:
        return [Lasting(file, self.alive(file), self.hashes(file)) for file in files]

    def _with_changes(
        self,
        name: str,
        before: Snapshot,
        stays: Sequence[Lasting],
        added: pa.Table,
        hashes: np.ndarray,
    ) -> Snapshot:
        """``stays``: what is left of each file of before; ``hashes``: of the rows added."""
        every = all_hashes([*(each.hashes for each in stays), hashes])
        sha256 = table_digest(every, added.schema, True)
        files = self._laid_out(name, before.order, stays, _in_order(added, hashes, before.order))
        return replace(before, rows=len(every), sha256=sha256, files=tuple(files))

    def _laid_out(
        self,
        name: str,
        order: Sequence[str],
        stays: Sequence[Lasting],
        new: pa.Table,
        worn: Sequence[str] | None = None,
    ) -> list[TableFile]:
        """Files with the rows that stay and the new ones, which have their hashes. ``worn``: the
        buckets that are written anew; those that are outgrown, unless they are named."""
        bases = [each for each in stays if not each.file.added]
        additions = [each for each in stays if each.file.added]
        of_new = octets(new[HASH])
        loose = all_hashes([*(each.hashes for each in additions), of_new])
        worn = _worn(name, bases, loose) if worn is None else worn
        files = [
            self._marked(name, each)
            for each in bases
            if not each.file.bucket.startswith(tuple(worn))
        ]
        kept = [each.without(_in_any(each.hashes, worn)) for each in additions]
        small = [self._marked(name, each) for each in kept if each.rows]
        left = new.filter(pa.array(~_in_any(of_new, worn)))
        small += self._in_buckets(name, left, added=True) if left.num_rows else []
        unmerged = sorted(
            (file for file in small if not file.bucket), key=lambda file: (file.live, file.path)
        )
        if len(unmerged) > _limit(MOST_ADDITIONS, name):
            merging = unmerged[: len(unmerged) // 2 + 1]
            merged = in_order(pa.concat_tables(map(self.rows, merging)), order)
            small = [
                *(file for file in small if file not in merging),
                *self._in_buckets(name, merged, added=True),
            ]
        waiting = [
            new,
            *(self._in_buckets_of(each, worn) for each in additions if not each.file.bucket),
        ]
        for bucket in worn:
            parts = [
                rows.filter(pa.array(_in_any(octets(rows[HASH]), [bucket]))) for rows in waiting
            ]
            beside = [each for each in stays if each.file.bucket or not each.file.added]
            parts += [
                self._in_buckets_of(each, [bucket])
                for each in beside
                if _meet(each.file.bucket, bucket)
            ]
            files += self._in_buckets(name, in_order(pa.concat_tables(parts), order), bucket)
        return [*files, *small]

    def _in_buckets_of(self, each: Lasting, buckets: Sequence[str]) -> pa.Table:
        """The rows of a file that are in one of the buckets."""
        flags = each.alive.copy()
        flags[flags] = _in_any(each.hashes, buckets)
        return self.read(each.file.path, None, flags)

    def _in_buckets(
        self, name: str, rows: pa.Table, bucket: str = "", added: bool = False
    ) -> list[TableFile]:
        """The rows of a bucket, in order and with their hashes, in as many files as they need."""
        more = min((rows.num_rows // BUCKET_ROWS).bit_length(), MOST_BITS - len(bucket))
        if not more:
            return [self._new_file(name, rows, bucket, added)]
        numbers = numbers_of(octets(rows[HASH]), len(bucket) + more) & (2**more - 1)
        return [
            self._new_file(
                name, rows.filter(pa.array(numbers == number)), f"{bucket}{number:0{more}b}", added
            )
            for number in range(2**more)
        ]

    def _marked(self, name: str, each: Lasting) -> TableFile:
        """The file, with those of its rows that are gone."""
        if each.gone == each.file.gone_rows:
            return each.file
        positions = pa.table({POSITION: pa.array(np.flatnonzero(~each.alive), pa.uint32())})
        return replace(
            each.file, gone=self._write(f"{name}/{GONE_FOLDER}", positions), gone_rows=each.gone
        )

    def _new_file(
        self, name: str, table: pa.Table, bucket: str = "", added: bool = False
    ) -> TableFile:
        return TableFile(self._write(name, table), table.num_rows, bucket=bucket, added=added)

    def _write(self, name: str, table: pa.Table) -> str:
        """Unless its content is there already. Raises DiskFullError, and leaves nothing."""
        folder = self.root / name
        with temporary_file(folder) as temporary:
            pq.write_table(
                table, temporary, compression="zstd", data_page_size=PAGE_BYTES,
                row_group_size=_row_group(table.schema),
                use_dictionary=_repeated(table.schema),  # pyright: ignore[reportArgumentType] - names are taken too
                store_schema=False,
            )  # fmt: skip
            path = folder / f"{sha256_of(temporary)}.parquet"
            relative = path.relative_to(self.root).as_posix()
            if not path.exists() or not self._is_whole(relative):
                publish_file(temporary, path)
                self.made(relative)
        return relative

    def _is_whole(self, path: str) -> bool:
        try:
            self.whole(path)
        except DataError:
            return False
        return True

    def ordered(self, name: str, snapshot: Snapshot, order: Sequence[str]) -> Snapshot:
        """The table as one that has hashes and an order, as those of an earlier version have
        not."""
        return (
            snapshot
            if snapshot.order or not order
            else self.write(name, self.table(snapshot), order)
        )

    def cleared(self, snapshot: Snapshot) -> Snapshot:
        """The same table without a file that holds rows which are gone."""
        if not any(file.gone for file in snapshot.files):
            return snapshot
        name = PurePosixPath(snapshot.files[0].path).parent.as_posix()
        buckets = [file.bucket for file in snapshot.files if not file.added]
        none = self.rows(snapshot.files[0]).slice(0, 0)
        files = self._laid_out(name, snapshot.order, self._lasting(snapshot.files), none, buckets)
        return replace(snapshot, files=tuple(files))


def _limit(most: float, name: str) -> float:
    """Of a table or bucket: from half of the most to all of it, by its name, so that those that
    grow alike do not reach it in one night."""
    return most * (1 + xxh3_64_intdigest(name.encode()) / 2**64) / 2


def _worn(name: str, bases: Sequence[Lasting], loose: np.ndarray) -> list[str]:
    """The buckets to be written anew, none within another. ``loose``: hashes of the rows that are
    additions."""
    if sum(base.rows for base in bases) + len(loose) < WHOLE_BELOW:
        return [""]
    additions = np.bincount(numbers_of(loose, MOST_BITS), minlength=2**MOST_BITS)
    rows = {base.file.bucket: base.rows + _within(additions, base.file.bucket) for base in bases}
    worn = {
        base.file.bucket
        for base in bases
        if max(base.gone, rows[base.file.bucket] - base.rows)
        > _limit(OUTGROWN, f"{name}/{base.file.bucket}") * rows[base.file.bucket]
    }
    for bucket in rows:
        parent = bucket
        while (
            parent
            and sum(rows[each] for each in rows if each.startswith(parent[:-1]))
            < LEAST_SHARE * BUCKET_ROWS
        ):
            parent = parent[:-1]
        worn |= {parent} - {bucket}
    return [
        bucket
        for bucket in sorted(worn)
        if not any(bucket[:end] in worn for end in range(len(bucket)))
    ]


def _buckets_of(rows: int) -> list[str]:
    """Those that so many rows are written in, all of them."""
    bits = min((rows // BUCKET_ROWS).bit_length(), MOST_BITS)
    return [f"{number:0{bits}b}" for number in range(2**bits)] if bits else [""]


def _place(file: TableFile) -> tuple[bool, str]:
    return file.added, file.bucket


def _within(counts: np.ndarray, bucket: str) -> int:
    """How many of those that are counted by all their bits are in the bucket."""
    first, last = (int(bucket.ljust(MOST_BITS, bit), 2) for bit in "01")
    return int(counts[first : last + 1].sum())


def _in_any(hashes: np.ndarray, buckets: Sequence[str]) -> np.ndarray:
    found = np.zeros(len(hashes), bool)
    for bucket in buckets:
        found |= numbers_of(hashes, len(bucket)) == int(bucket or "0", 2)
    return found


def _meet(one: str, other: str) -> bool:
    """Whether the two buckets have rows in common."""
    return one.startswith(other) or other.startswith(one)


def _columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(field.name, type_name(field.type)) for field in schema]


def _in_order(table: pa.Table, hashes: np.ndarray, order: Sequence[str]) -> pa.Table:
    """The table with HASH, which decides between rows of one key; the others are in their order
    already."""
    hashed = with_hashes(table, hashes)
    return in_order(hashed, order) if order and _has_ties(table.select(names_of(order))) else hashed


def _has_ties(keys: pa.Table) -> bool:
    if keys.num_rows < 2:
        return False
    alike = [_alike(c[1:], c[:-1]) for c in (column.combine_chunks() for column in keys.columns)]
    return bool(np.logical_and.reduce(alike).any())


def _alike(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Cell by cell; two that are missing are alike."""
    equal = pc.fill_null(pc.equal(left, right), False)
    return pc.or_(equal, pc.and_(left.is_null(), right.is_null())).to_numpy(zero_copy_only=False)


def _row_group(schema: pa.Schema) -> int:
    return ROW_GROUP_OF_VECTORS if VECTOR in schema.types else ROW_GROUP


def _repeated(schema: pa.Schema) -> list[str]:
    """The columns whose values may come again, as Parquet names them. A dictionary of others,
    vectors above all, doubles what they cost to write, and is held by who reads them."""
    lists = [field for field in schema if is_list(field.type) and is_text(field.type.value_type)]
    plain = [field for field in schema if not is_list(field.type) and field.name not in UNIQUE]
    return [*(field.name for field in plain), *(f"{field.name}.list.element" for field in lists)]
