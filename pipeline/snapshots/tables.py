"""A table's files: a large one and small additions, with the positions of rows that are gone.

    <root>/<table>/<sha256>.parquet        rows, by key, each with its hash in the last column
    <root>/<table>/gone/<sha256>.parquet   positions in a file of rows that do not count any more

A small table is one file. A night that changes few rows of a large one adds a file with the rows that are new, and says
which of the others are gone; when the additions have become many they are merged into one, and when they outgrow the
large file the table is written anew. Files are named by the hash of their content and never changed.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipeline.contract.schemas import STRING, WIDE, is_text, type_name
from pipeline.errors import DataError
from pipeline.files import publish_file, sha256_of, temporary_file
from pipeline.snapshots.row_hashes import HASH_BYTES, all_hashes, in_one_alone, row_hashes, table_digest

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

ROW_GROUP = 100_000
BATCH_ROWS = 20_000
READ_AT_ONCE = 2**20
HASH = "_hash"
GONE_FOLDER, POSITION = "gone", "position"
WHOLE_BELOW = 20_000
"""Rows below which a table is one file: it is written in no time."""
MOST_ADDITIONS = 8
OUTGROWN = 0.5
"""Share of a table's rows that may be additions, or gone from the large file, before it is written anew."""
DESCENDING = "-"
"""Before a column of an order: from the greatest down."""


@dataclass(frozen=True)
class TableFile:
    """``path``: relative to the snapshots folder; ``rows``: in the file; ``gone``: the file of positions that do not
    count, and how many these are."""

    path: str
    rows: int
    gone: str = ""
    gone_rows: int = 0

    @property
    def live(self) -> int:
        return self.rows - self.gone_rows

    @property
    def paths(self) -> list[str]:
        return [self.path, *filter(None, [self.gone])]


@dataclass(frozen=True)
class Snapshot:
    """A table as it is. ``sha256``: its identity, the digest of its rows (``row_hashes``), whatever files they lie in;
    of a table that an earlier version has written, the hash of its one file. ``order``: the columns that fix the order
    of its rows (see DESCENDING), none where they stand as they were written."""

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
class TableFiles:
    """Reads and writes the files of one folder of snapshots. ``whole``: gives the path of a file that is found
    undamaged; ``made``: is told of one that was written."""

    root: Path
    whole: Callable[[str], Path]
    made: Callable[[str], None]

    def write(self, name: str, table: pa.Table, order: Sequence[str], before: Snapshot | None = None) -> Snapshot:
        """The table as a snapshot: that of ``before`` where it has the same rows, one that shares its files where it
        differs in few."""
        snapshot = Snapshot(table.num_rows, "", (), tuple(order))
        hashes = row_hashes(table, snapshot.key)
        sha256 = table_digest(hashes, table.schema, bool(order))
        if before is not None and before.sha256 == sha256:
            return before
        if before is not None and before.rows >= WHOLE_BELOW and self._is_alike(before, table, order):
            there = [self.hashes(file) for file in before.files]
            gone, new = in_one_alone(all_hashes(there), hashes)
            if gone.sum() + new.sum() <= OUTGROWN * before.rows:
                stays, added = all_hashes(there)[~gone], table.filter(pa.array(new))
                return self._with_changes(name, before, _split(gone, there), stays, added, hashes[new])
        return replace(snapshot, sha256=sha256, files=(self._new_file(name, _in_order(table, hashes, order)),))

    def _is_alike(self, before: Snapshot, table: pa.Table, order: Sequence[str]) -> bool:
        """Whether rows of the one may lie beside those of the other: in one order, with the same columns."""
        return (
            bool(order)
            and before.order == tuple(order)
            and _columns_of(self.schema(before)) == _columns_of(table.schema)
        )

    def replaced(self, name: str, before: Snapshot, column: str, values: pa.Array, rows: pa.Table) -> Snapshot:
        """The table with ``rows`` in place of those whose ``column`` has one of the values."""
        going, there, old = [], [], []
        for file in before.files:
            found = self.rows(file, [column, HASH])
            going.append(_has_any(found.select([column]), values))
            there.append(_octets(found[HASH]))
            old.append(there[-1][going[-1]])
        hashes = row_hashes(rows, before.key)
        gone, new = in_one_alone(all_hashes(old), hashes)
        if not gone.any() and not new.any():
            return before
        for going_here, gone_here in zip(going, _split(gone, old), strict=True):
            going_here[going_here] = gone_here
        stays = all_hashes([each[~going_here] for each, going_here in zip(there, going, strict=True)])
        return self._with_changes(name, before, going, stays, rows.filter(pa.array(new)), hashes[new])

    def _with_changes(
        self,
        name: str,
        before: Snapshot,
        going: Sequence[np.ndarray],
        stays: np.ndarray,
        added: pa.Table,
        hashes: np.ndarray,
    ) -> Snapshot:
        """``going``: of the rows of each file that count, which do not any more; ``stays``: hashes of the others;
        ``hashes``: of the rows added."""
        every = all_hashes([stays, hashes])
        after = replace(before, rows=len(every), sha256=table_digest(every, added.schema, True))
        files = [self._without(name, file, gone) for file, gone in zip(before.files, going, strict=True)]
        files = [file for file in files if file.live]
        if not self._is_worn(files, after.rows):
            new = [self._new_file(name, _in_order(added, hashes, before.order))] if added.num_rows else []
            kept, small = files[:1], [*files[1:], *new]
            if len(small) > MOST_ADDITIONS:
                small = [self._new_file(name, self._merged(small, before.order))]
            return replace(after, files=(*kept, *small))
        whole = pa.concat_tables([*map(self.rows, files), _hashed(added, hashes)])
        return replace(after, files=(self._new_file(name, _sorted(whole, before.order)),))

    def _is_worn(self, files: Sequence[TableFile], rows: int) -> bool:
        if rows < WHOLE_BELOW or not files:
            return True
        large = files[0]
        return max(large.gone_rows, rows - large.live) > OUTGROWN * rows

    def _merged(self, files: Sequence[TableFile], order: Sequence[str]) -> pa.Table:
        return _sorted(pa.concat_tables([self.rows(file) for file in files]), order)

    def _without(self, name: str, file: TableFile, going: np.ndarray) -> TableFile:
        if not going.any():
            return file
        alive = self._alive(file)
        alive[np.flatnonzero(alive)[going]] = False
        positions = pa.table({POSITION: pa.array(np.flatnonzero(~alive), pa.uint32())})
        path = self._write(f"{name}/{GONE_FOLDER}", positions)
        return replace(file, gone=path, gone_rows=positions.num_rows)

    def _alive(self, file: TableFile) -> np.ndarray:
        alive = np.ones(file.rows, bool)
        if file.gone:
            alive[_positions(self.whole(file.gone))] = False
        return alive

    def _new_file(self, name: str, table: pa.Table) -> TableFile:
        return TableFile(self._write(name, table), table.num_rows)

    def _write(self, name: str, table: pa.Table) -> str:
        """Unless its content is there already. Raises DiskFullError, and leaves nothing."""
        folder = self.root / name
        with temporary_file(folder) as temporary:
            pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP, store_schema=False)
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
        """The table as one that has hashes and an order, as those of an earlier version have not."""
        return snapshot if snapshot.order or not order else self.write(name, self.table(snapshot), order)

    def cleared(self, snapshot: Snapshot) -> Snapshot:
        """The same table without a file that holds rows which are gone."""
        if not any(file.gone for file in snapshot.files):
            return snapshot
        name = PurePosixPath(snapshot.files[0].path).parent.as_posix()
        return replace(snapshot, files=(self._new_file(name, self._merged(snapshot.files, snapshot.order)),))

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        found = pq.read_schema(self.whole(snapshot.files[0].path))
        return pa.schema([field for field in found if field.name != HASH])

    def columns(self, snapshot: Snapshot) -> list[str]:
        return self.schema(snapshot).names

    def table(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> pa.Table:
        """Its rows in their order."""
        wanted = self.columns(snapshot) if columns is None else list(columns)
        if len(snapshot.files) == 1:
            return self.rows(snapshot.files[0], wanted)
        needed = self._with_order(snapshot, wanted)
        whole = pa.concat_tables([self.rows(file, needed) for file in snapshot.files])
        return _sorted(whole, snapshot.order).select(wanted)

    def select(
        self, snapshot: Snapshot, names: Collection[str], values: pa.Array, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows that have one of the values in one of the columns ``names``, in their order."""
        wanted = self.columns(snapshot) if columns is None else list(columns)
        needed = wanted if len(snapshot.files) == 1 else self._with_order(snapshot, wanted)
        parts = [self._read(snapshot.files[0].path, needed).slice(0, 0)]
        for file in snapshot.files:
            found = self._alive(file) & _has_any(self._read(file.path, list(dict.fromkeys(names))), values)
            if found.any():
                parts.append(self._read(file.path, needed).filter(pa.array(found)))
        rows = pa.concat_tables(parts)
        return (rows if len(parts) <= 2 else _sorted(rows, snapshot.order)).select(wanted)

    def difference(
        self, before: Snapshot, now: Snapshot, columns: Sequence[str] | None = None
    ) -> tuple[pa.Table, pa.Table]:
        """Rows of the one and not of the other, in no order; a row that changed is in both."""
        wanted = self.columns(now) if columns is None else list(columns)
        gone, new = self._beside(before, now, wanted), self._beside(now, before, wanted)
        old_alone, new_alone = in_one_alone(_octets(gone[HASH]), _octets(new[HASH]))
        return gone.filter(pa.array(old_alone)).select(wanted), new.filter(pa.array(new_alone)).select(wanted)

    def _beside(self, one: Snapshot, other: Snapshot, columns: list[str]) -> pa.Table:
        """The rows of one that do not lie at the same place in the other."""
        theirs = {file.path: file for file in other.files}
        parts = []
        for file in one.files:
            alive, counterpart = self._alive(file), theirs.get(file.path)
            if counterpart is not None:
                alive &= ~self._alive(counterpart)
            if alive.any() or not parts:
                parts.append(self._read(file.path, [*columns, HASH]).filter(pa.array(alive)))
        return pa.concat_tables(parts)

    def batches(self, snapshot: Snapshot, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """As ``table``, some thousands of rows at a time; of a table of one file no more is held than these."""
        file = snapshot.files[0]
        if len(snapshot.files) > 1 or file.gone:
            yield from self.table(snapshot, columns).to_batches(BATCH_ROWS)
            return
        wanted = self.columns(snapshot) if columns is None else columns
        with pq.ParquetFile(self.whole(file.path), pre_buffer=False, buffer_size=READ_AT_ONCE, **WIDE) as opened:
            yield from opened.iter_batches(BATCH_ROWS, columns=wanted)

    def rows(self, file: TableFile, columns: list[str] | None = None) -> pa.Table:
        """The rows of a file that count."""
        table = self._read(file.path, columns)
        return table.filter(pa.array(self._alive(file))) if file.gone else table

    def hashes(self, file: TableFile) -> np.ndarray:
        return _octets(self.rows(file, [HASH])[HASH])

    def _read(self, path: str, columns: list[str] | None) -> pa.Table:
        """With HASH where it is asked for, also of a file of an earlier version, which has none."""
        found = self.whole(path)
        if columns is not None and HASH in columns and HASH not in pq.read_schema(found).names:
            table = read_parquet(found)
            return _hashed(table, row_hashes(table, None)).select(columns)
        return read_parquet(found, columns)

    def _with_order(self, snapshot: Snapshot, columns: list[str]) -> list[str]:
        return list(dict.fromkeys([*columns, *_names(snapshot.order), HASH]))


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a file, or some columns of it. A dataset of one file would cost ten times as much to open."""
    with pq.ParquetFile(path, **WIDE) as file:
        return file.read() if columns is None else file.read(columns=list(columns)).select(list(columns))


@lru_cache(256)
def _positions(path: Path) -> np.ndarray:
    """Of rows that are gone; the file never changes."""
    return read_parquet(path)[POSITION].to_numpy()


def _split(flags: np.ndarray, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The flags of all rows as those of each part."""
    return np.split(flags, np.cumsum([len(part) for part in parts])[:-1])


def _columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(field.name, type_name(field.type)) for field in schema]


def _has_any(table: pa.Table, values: pa.Array) -> np.ndarray:
    found = np.zeros(table.num_rows, bool)
    for column in table.columns:
        texts = column if is_text(column.type) else column.cast(STRING)
        found |= pc.is_in(texts, value_set=values.cast(texts.type)).combine_chunks().to_numpy(zero_copy_only=False)
    return found


def _hashed(table: pa.Table, hashes: np.ndarray) -> pa.Table:
    """The table with HASH."""
    cells = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(HASH_BYTES), len(hashes), [None, pa.py_buffer(np.ascontiguousarray(hashes))]
    )
    return table.append_column(HASH, cells)


def _octets(column: pa.ChunkedArray) -> np.ndarray:
    """The hashes, uint8 of shape (rows, 20)."""
    cells = column.combine_chunks()
    if not len(cells):
        return all_hashes([])
    octets = np.frombuffer(cells.buffers()[1], np.uint8)
    start = cells.offset * HASH_BYTES
    return octets[start : start + len(cells) * HASH_BYTES].reshape(-1, HASH_BYTES)


def _in_order(table: pa.Table, hashes: np.ndarray, order: Sequence[str]) -> pa.Table:
    """The table with HASH, which decides between rows of one key; the others are in their order already."""
    hashed = _hashed(table, hashes)
    return _sorted(hashed, order) if order and _has_ties(table.select(_names(order))) else hashed


def _has_ties(keys: pa.Table) -> bool:
    if keys.num_rows < 2:
        return False
    alike = [_alike(c[1:], c[:-1]) for c in (column.combine_chunks() for column in keys.columns)]
    return bool(np.logical_and.reduce(alike).any())


def _alike(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Cell by cell; two that are missing are alike."""
    equal = pc.fill_null(pc.equal(left, right), False)
    return pc.or_(equal, pc.and_(left.is_null(), right.is_null())).to_numpy(zero_copy_only=False)


def _sorted(table: pa.Table, order: Sequence[str]) -> pa.Table:
    directions = ["descending" if name.startswith(DESCENDING) else "ascending" for name in order]
    keys = [*zip(_names(order), directions, strict=True), (HASH, "ascending")]
    return table.take(pc.sort_indices(table, keys))


def _names(order: Sequence[str]) -> list[str]:
    return [name.removeprefix(DESCENDING) for name in order]
