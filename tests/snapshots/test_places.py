"""A store of snapshots keeps its promises on disk and in a bucket."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.contract.schemas import TEXTS
from pipeline.errors import DataError
from pipeline.runs.gc import collect_garbage
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

FIRST, SECOND, THIRD = (
    "20260101T000000.000000-aaaaaa",
    "20260102T000000.000000-bbbbbb",
    "20260103T000000.000000-cccccc",
)


def texts(*rows: str) -> pa.Table:
    return TEXTS.encode(
        TEXTS.frame([(f"id-{number}", text) for number, text in enumerate(rows)]), "texts"
    )


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SnapshotStore]:
    """Open a store and hold it as writers do."""
    folder = tmp_path / "snapshots"
    is_folder = request.param == "folder"
    store = (
        SnapshotStore(folder) if is_folder else request.getfixturevalue("bucket").snapshots(folder)
    )
    with store.folder.alone("here"):
        yield store


def night(store: SnapshotStore, run_id: str, *rows: str) -> Snapshot:
    """Publish a run of one step with one table."""
    snapshot = store.tables.write("texts", texts(*rows), TEXTS.order)
    record = StepRecord("step", snapshot.sha256, {"code": "1"}, {"texts": snapshot})
    store.save_record(record)
    store.publish(Manifest("flow", {"texts": snapshot}, {"step": record}), run_id)
    return snapshot


def test_a_record_leads_to_its_tables(store: SnapshotStore):
    snapshot = night(store, FIRST, "a", "b")
    record = store.find_record(snapshot.sha256)
    assert record is not None
    assert record.outputs["texts"] == snapshot
    assert store.tables.read_arrow(record.outputs["texts"]).equals(texts("a", "b"))
    assert store.find_record("0" * 64) is None


def test_manifests_are_kept_by_run_and_the_newest_is_live(store: SnapshotStore):
    first, second = night(store, FIRST, "a"), night(store, SECOND, "b")
    night(store, THIRD, "b")  # changes nothing
    assert store.workflows() == ["flow"]
    assert store.history("flow") == [FIRST, SECOND]
    assert store.history("another") == []
    assert store.manifest("flow").tables == {"texts": second}
    assert store.manifest("flow", FIRST).tables == {"texts": first}
    assert store.manifest("another").tables == {}
    store.delete_manifest("flow", FIRST)
    assert store.history("flow") == [SECOND]


def test_tasks_are_noted_until_their_step_has_a_record(store: SnapshotStore):
    files = {"texts": store.tables.write_bucket("texts", texts(*"abcdef"), TEXTS.order, "0", "id")}
    assert files["texts"]
    store.tasks.note("one", files)
    assert store.tasks.read_notes(["one", "another"]) == {"one": files}
    store.tasks.clear()
    assert store.tasks.read_notes(["one"]) == {}


def test_a_shared_file_is_found_until_it_is_withdrawn(store: SnapshotStore, tmp_path: Path):
    for number in "12":
        (tmp_path / number).write_bytes(number.encode())
    store.tasks.share({"1.rows": tmp_path / "1", "2.rows": tmp_path / "2"})
    assert store.tasks.find_shared("1.rows").read_bytes() == b"1"
    store.tasks.withdraw(["1.rows"])
    with pytest.raises(FileNotFoundError):
        store.tasks.find_shared("1.rows").read_bytes()
    assert store.tasks.find_shared("2.rows").read_bytes() == b"2"


def test_files_that_no_kept_manifest_names_are_garbage(store: SnapshotStore):
    old, new = night(store, FIRST, *"abc"), night(store, SECOND, *"def")
    would_go = collect_garbage(store, keep=1, dry_run=True)
    assert store.tables.exists(old)
    report = collect_garbage(store, keep=1, dry_run=False)
    assert report.tables == would_go.tables
    assert report.manifests == {"flow": [FIRST]}
    assert report.tables["texts"].files == report.records.files == 1
    assert report.tables["texts"].bytes > 0
    assert not store.tables.exists(old)
    assert store.tables.exists(new)
    assert {kept.name for kept in store.all_files()} == {*new.paths, f"steps/{new.sha256}.json"}


def test_compacted_files_hold_no_deleted_rows(store: SnapshotStore):
    rows = [f"text {number}" for number in range(2000)]
    before = night(store, FIRST, *rows)
    now = store.tables.write("texts", texts(*rows[:-10]), TEXTS.order, before)
    assert any(file.gone for file in now.files)
    record = StepRecord("step", now.sha256, {}, {"texts": now})
    store.save_record(record)
    store.publish(Manifest("flow", {"texts": now}, {"step": record}), SECOND)
    store.compact("flow")
    cleared = store.manifest("flow").tables["texts"]
    assert not any(file.gone for file in cleared.files)
    assert store.tables.read_arrow(cleared).equals(texts(*rows[:-10]))


def test_a_missing_file_is_reported_and_its_record_counts_as_missing(
    store: SnapshotStore, request: pytest.FixtureRequest
):
    snapshot = night(store, FIRST, "a")
    store.folder.delete(snapshot.paths)
    assert not store.tables.exists(snapshot)
    assert store.find_record(snapshot.sha256) is None
    with pytest.raises(DataError, match="run the workflow again"):
        store.tables.read_arrow(snapshot)
