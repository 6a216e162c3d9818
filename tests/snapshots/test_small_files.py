"""A small file is read once, and what is selected of it in memory is what is read of the file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.contract.schemas import INT, STRING, STRINGS, table
from pipeline.errors import DamagedError
from pipeline.snapshots import small_files, tables
from pipeline.snapshots.store import SnapshotStore
from pipeline.snapshots.table_rows import HASH, Snapshot, TableReader

SCHEMA = table("id", id=STRING, text=STRING, n=INT, words=STRINGS)
IDS = [f"id{number:02}" for number in range(40)]
Read = Callable[[TableReader, Snapshot], Any]


def rows_of(ids: list[str], text: str) -> pa.Table:
    cells = [{"id": id, "text": text, "n": len(id), "words": [text, id]} for id in ids]
    return SCHEMA.encode(SCHEMA.frame(cells), "rows")


def in_parts(store: SnapshotStore, snapshot: Snapshot) -> Snapshot:
    """Return a version of the table with several files, of which some have deleted rows."""
    ids = ["id03", "id39"]
    kept = rows_of(ids[:1], "edited")
    return store.tables.replace_rows("rows", snapshot, "id", pa.array(ids), kept)


def note_opened_files(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that grows by each Parquet file that is opened from now on."""
    opened: list[object] = []
    open_file = pq.ParquetFile.__init__

    def noted(file: pq.ParquetFile, source: object, **options: Any) -> None:
        opened.append(source)
        open_file(file, source, **options)

    monkeypatch.setattr(pq.ParquetFile, "__init__", noted)
    return opened


READS: dict[str, Read] = {
    "all rows": lambda reader, table: reader.read_arrow(table),
    "some columns": lambda reader, table: reader.read_arrow(table, ["words", "id"]),
    "hashes": lambda reader, table: reader.read_arrow(table, [HASH]),
    "batches": lambda reader, table: pa.Table.from_batches(reader.read_batches(table)),
    "file by file": lambda reader, table: pa.Table.from_batches(reader.read_unordered(table)),
    "the first row": lambda reader, table: reader.read_first(table, ["text"]),
    "some rows": lambda reader, table: reader.select(
        table, ["id", "text"], pa.array(["id05", "edited", "nothing"])
    ),
    "no row": lambda reader, table: reader.select(table, ["id"], pa.array(["nothing"]), ["n"]),
    "a bucket": lambda reader, table: reader.read_bucket(table, "10", ["id", "text"]),
    "counts": lambda reader, table: reader.count_by_bucket(table, 2).tolist(),
    "the schema": lambda reader, table: reader.schema(table),
    "nothing in common": lambda reader, table: reader.difference(
        Snapshot(0, "", table.files[:1], table.order), table, ["id"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("edit", [False, True], ids=["one version", "with deleted rows"])
def test_a_small_file_is_read_as_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Read, edit: bool
):
    monkeypatch.setattr(tables, "BUCKET_ROWS", 16)
    monkeypatch.setattr(tables, "WHOLE_BELOW", 1)
    store = SnapshotStore(tmp_path)
    snapshot = store.tables.write("rows", rows_of(IDS, "text"), SCHEMA.order)
    if edit:
        snapshot = in_parts(store, snapshot)
        assert any(file.gone for file in snapshot.files)
    assert len(snapshot.files) > 1
    of_small_files = [read(store.tables, snapshot) for _ in range(2)]
    monkeypatch.setattr(small_files, "MOST_BYTES_OF_FILE", -1)
    of_large_files = read(SnapshotStore(tmp_path).tables, snapshot)
    assert of_small_files == [of_large_files, of_large_files]


def test_the_rows_of_a_small_file_are_read_once(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    snapshot = store.tables.write("rows", rows_of(IDS, "text"), SCHEMA.order)
    opened = note_opened_files(monkeypatch)
    for read in READS.values():
        read(store.tables, snapshot)
    # Once for its rows, and once for its schema.
    assert len(opened) == 2


def test_damage_is_found_although_the_rows_are_kept(store: SnapshotStore):
    snapshot = store.tables.write("rows", rows_of(IDS, "text"), SCHEMA.order)
    store.tables.read(snapshot)
    file = store.root / snapshot.files[0].path
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(DamagedError):
        store.tables.read(snapshot)


def test_the_rows_used_least_recently_go_first(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    versions = [
        store.tables.write("rows", rows_of(IDS, text), SCHEMA.order) for text in ("a", "b", "c")
    ]
    files = [store.root / version.files[0].path for version in versions]
    small = small_files.SmallFiles()
    first = small.read(files[0])
    assert first is not None
    monkeypatch.setattr(small_files, "MOST_BYTES", int(2.5 * first.nbytes))
    small.read(files[1])
    assert small.read(files[0]) is first
    small.read(files[2])
    assert list(small.rows) == [files[0].stem, files[2].stem]
    assert small.bytes == sum(rows.nbytes for rows in small.rows.values())


REPEATED = rows_of(IDS, "once " * 20_000)
"""Rows that take 8 MB in memory. On disk the text that they share stands once."""
LONG = rows_of(IDS[:2], "twice " * 200_000)
"""Rows that take 2.4 MB in memory, and as much on disk without compression."""


@pytest.mark.parametrize("rows", [REPEATED, LONG], ids=["repeated", "long"])
def test_a_small_file_of_large_rows_is_not_decoded(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch, rows: pa.Table
):
    monkeypatch.setattr(small_files, "ROWS_AT_ONCE", 5)
    snapshot = store.tables.write("rows", rows, SCHEMA.order)
    path = store.root / snapshot.files[0].path
    assert path.stat().st_size < small_files.MOST_BYTES_OF_FILE
    opened = note_opened_files(monkeypatch)
    small = small_files.SmallFiles()
    at_first = pa.total_allocated_bytes()
    assert small.read(path) is None
    assert small.read(path) is None
    assert len(opened) == 1, "a file that was too large is opened again"
    assert pa.total_allocated_bytes() == at_first
    assert not small.rows
    assert store.tables.read_arrow(snapshot, rows.column_names) == rows


def test_files_that_are_too_large_are_forgotten_first_come_first(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(small_files, "MOST_BYTES_OF_ROWS", 0)
    monkeypatch.setattr(small_files, "MOST_TOO_LARGE", 2)
    versions = [
        store.tables.write("rows", rows_of(IDS, text), SCHEMA.order) for text in ("a", "b", "c")
    ]
    files = [store.root / version.files[0].path for version in versions]
    small = small_files.SmallFiles()
    for file in files:
        assert small.read(file) is None
    assert list(small.too_large) == [files[1].stem, files[2].stem]


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path)
