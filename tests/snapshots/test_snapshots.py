import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.contract.schemas import TEXTS
from pipeline.errors import DataError
from pipeline.files import sha256_of
from pipeline.snapshots.store import Manifest, SnapshotStore, StepRecord
from pipeline.snapshots.tables import Snapshot, TableFile

KILLED_WRITERS = """
import os, signal, sys, time
from pathlib import Path
import pydantic_core  # each writer would import it before its first record
from pipeline.contract.schemas import TEXTS
from pipeline.snapshots.store import SnapshotStore, StepRecord

def write(store, start):
    for number in range(start, start + 1000):
        table = TEXTS.encode(TEXTS.frame([(str(row), f"{number} " * 50) for row in range(300)]), "texts")
        snapshot = store.tables.write("texts", table)
        store.save_record(StepRecord("s", f"{number:064x}", {}, {"texts": snapshot}))

for turn in range(12):
    writer = os.fork()
    if not writer:
        write(SnapshotStore(Path(sys.argv[1])), turn * 1000)
    time.sleep(0.02 * (turn + 1))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
"""  # noqa: E501


def texts(*rows: str) -> pa.Table:
    return TEXTS.encode(
        TEXTS.frame([(str(number), text) for number, text in enumerate(rows)]), "texts"
    )


def test_batches_hold_a_part_of_the_file(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.snapshots.table_rows.BATCH_ROWS", 1000)
    vectors = np.random.default_rng(1).normal(size=(20_000, 100)).astype(np.float32)
    snapshot = store.tables.write(
        "vectors", pa.table({"vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 100)})
    )
    size = (store.root / snapshot.files[0].path).stat().st_size
    before, held, rows = pa.total_allocated_bytes(), 0, 0
    for batch in store.tables.read_batches(snapshot):
        held, rows = max(held, pa.total_allocated_bytes() - before), rows + len(batch)
    assert rows == len(vectors)
    assert held < size


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


@pytest.fixture
def record(store: SnapshotStore) -> StepRecord:
    outputs = {
        "texts": store.tables.write("texts", texts("a", "b")),
        "more": store.tables.write("more", texts()),
    }
    record = StepRecord(
        "embed", "f" * 64, {"params": {"size": 1}, "inputs": {"x": None}}, outputs, retry=True
    )
    store.save_record(record)
    return record


def test_equal_tables_are_one_file_named_by_its_content(store: SnapshotStore):
    first, again, other = (
        store.tables.write("texts", table) for table in (texts("a"), texts("a"), texts("b"))
    )
    assert first == again
    assert first.sha256 != other.sha256
    path = store.root / first.files[0].path
    assert (path.parent, path.stem, first.rows) == (store.root / "texts", sha256_of(path), 1)
    assert len(list(store.root.glob("texts/*"))) == 2


def test_a_table_that_is_there_is_not_written_again(store: SnapshotStore):
    path = store.root / store.tables.write("texts", texts("a")).files[0].path
    os.utime(path, (1, 1))
    store.tables.write("texts", texts("a"))
    assert path.stat().st_mtime == 1


@pytest.mark.parametrize("rows", [[], ["a"], ["a", "中", "\n,\"'"]])
def test_a_table_is_read_as_it_was_written(store: SnapshotStore, rows: list[str]):
    read = store.tables.read(store.tables.write("texts", texts(*rows)))
    assert read["text"].tolist() == rows
    assert TEXTS.encode(read, "texts").equals(texts(*rows))


def test_a_damaged_file_is_a_data_error_wherever_the_damage_is(store: SnapshotStore):
    snapshot = store.tables.write("texts", texts("a" * 30, "b"))
    path = store.root / snapshot.files[0].path
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(DataError, match="damaged; move it away and run the workflow again"):
            store.tables.read(snapshot)
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=path.name):
        store.tables.read(snapshot)


def test_a_file_that_is_gone_is_a_data_error(store: SnapshotStore):
    with pytest.raises(DataError, match=r"gone\.parquet: No such file"):
        store.tables.read(Snapshot(0, "0" * 64, (TableFile("texts/gone.parquet", 0),)))


def test_a_record_is_found_by_its_fingerprint(store: SnapshotStore, record: StepRecord):
    assert store.find_record(record.fingerprint) == record
    assert store.find_record("0" * 64) is None


def test_a_record_counts_only_while_all_its_snapshots_are_there(
    store: SnapshotStore, record: StepRecord
):
    (store.root / record.outputs["more"].files[0].path).unlink()
    assert store.find_record(record.fingerprint) is None


DAMAGES = [
    b"",
    b'{"step": "em',
    b"[]",
    b"{}",
    b"\xff" * 9,
    b'{"workflow": "index", "tables": {"t": 1}, "steps": {}}',
]


@pytest.mark.parametrize("content", DAMAGES)
def test_a_damaged_record_counts_as_missing(
    store: SnapshotStore, record: StepRecord, content: bytes, capsys: pytest.CaptureFixture[str]
):
    path = store.root / f"steps/{record.fingerprint}.json"
    path.write_bytes(content)
    assert store.find_record(record.fingerprint) is None
    assert f"{path}: " in capsys.readouterr().err
    store.save_record(record)
    assert store.find_record(record.fingerprint) == record


@pytest.mark.parametrize("content", DAMAGES)
def test_a_broken_manifest_falls_back_to_the_newest_whole_one(
    store: SnapshotStore, record: StepRecord, content: bytes
):
    first = Manifest("index", {"t": record.outputs["texts"]}, {"embed": record})
    second = Manifest("index", {"t": record.outputs["more"]}, {"embed": record})
    store.publish(first, "run-1")
    store.publish(second, "run-2")
    live, kept = store.root / "manifest-index.json", store.root / "manifests/index/run-2.json"
    live.write_bytes(content)
    assert store.manifest("index") == second
    kept.write_bytes(content)
    assert store.manifest("index") == first
    assert not store.is_lost("index")
    with pytest.raises(DataError, match="choose another run"):
        store.manifest("index", "run-2")
    store.publish(second, "run-3")
    assert store.live_manifest("index") == store.manifest("index", "run-3") == second
    for path in store.root.rglob("*.json"):
        path.write_bytes(content)
    assert store.manifest("index") == Manifest("index")
    assert store.is_lost("index")
    assert not store.is_lost("fast")


def test_every_flipped_bit_of_a_manifest_or_record_is_seen(
    store: SnapshotStore, record: StepRecord
):
    manifest = Manifest("index", {"t": record.outputs["texts"]}, {"embed": record})
    store.publish(manifest, "run-1")
    for path in (
        store.root / "manifest-index.json",
        store.root / f"steps/{record.fingerprint}.json",
    ):
        whole = path.read_bytes()
        for place in range(len(whole)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            assert store.live_manifest("index") == manifest
            assert store.find_record(record.fingerprint) in (None, record)
        path.write_bytes(whole)


def test_a_damaged_table_counts_as_missing_and_is_written_again(
    store: SnapshotStore, record: StepRecord
):
    path = store.root / record.outputs["texts"].files[0].path
    whole, state = path.read_bytes(), path.stat()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    os.utime(
        path, ns=(state.st_atime_ns, state.st_mtime_ns)
    )  # as where a disk, not a program, has done it
    assert store.find_record(record.fingerprint) is None
    with pytest.raises(DataError, match="damaged; move it away and run the workflow again"):
        store.tables.read(record.outputs["texts"], ["id"])
    assert store.tables.write("texts", texts("a", "b")) == record.outputs["texts"]
    assert path.read_bytes() == whole
    assert store.find_record(record.fingerprint) == record


def test_a_manifest_is_read_as_it_was_published(store: SnapshotStore, record: StepRecord):
    manifest = Manifest("index", {"t": record.outputs["texts"]}, {"embed": record})
    store.publish(manifest, "run-1")
    assert store.manifest("index") == manifest
    assert store.manifest("fast") == Manifest("fast")
    assert (store.root / "manifest-index.json").is_file()


def test_nothing_temporary_is_left(store: SnapshotStore, record: StepRecord):
    store.publish(Manifest("index", {}, {"embed": record}), "run-1")
    assert not list(store.root.rglob("*.partial"))


def test_a_failed_write_leaves_nothing(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch):
    def full_disk(*args: object, **kwargs: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(pq, "write_table", full_disk)
    with pytest.raises(OSError, match="no space"):
        store.tables.write("texts", texts("a"))
    assert not [path for path in store.root.rglob("*") if path.is_file()]


def test_killed_writers_leave_whole_files_only(store: SnapshotStore):
    project = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", KILLED_WRITERS, str(store.root)], cwd=project, check=True)
    tables, records = (
        list(store.root.glob("texts/*.parquet")),
        list(store.root.glob("steps/*.json")),
    )
    assert tables
    assert records
    for path in tables:
        name = path.relative_to(store.root).as_posix()
        assert len(store.tables.read(Snapshot(300, path.stem, (TableFile(name, 300),)))) == 300
    for path in records:
        assert store.find_record(path.stem)
