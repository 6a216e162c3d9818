"""The folder that mirrors a bucket: what is fetched, put up, found damaged; and that the bucket
alone is the truth."""

import pickle
import shutil
import threading
from pathlib import Path

import pytest

from pipeline.errors import DamagedError, DataError, LeaseLostError
from pipeline.snapshots.store import SnapshotStore, StepRecord, open_snapshots
from tests.buckets import Bucket
from tests.servers.s3_server import between
from tests.snapshots.test_places import FIRST, SECOND, night, texts


def test_a_deleted_folder_is_fetched_again(bucket: Bucket, tmp_path: Path):
    store = bucket.snapshots(tmp_path / "mirror")
    with store.folder.alone("here"):
        snapshot = night(store, FIRST, *"abc")
    shutil.rmtree(store.root)
    for reader in (store, open_snapshots(bucket.address, tmp_path / "another", bucket.environment)):
        assert reader.workflows() == ["flow"]
        assert reader.history("flow") == [FIRST]
        assert reader.tables.read_arrow(reader.manifest("flow").tables["texts"]).equals(
            texts(*"abc")
        )
        assert (reader.root / snapshot.paths[0]).exists()


def test_a_record_stands_only_after_its_files(bucket: Bucket, tmp_path: Path):
    puts: list[str] = []
    with between(
        bucket.server, before=lambda method, path: puts.append(path) if method == "PUT" else None
    ) as (end, _):
        store = bucket.by(end).snapshots(tmp_path / "mirror")
        with store.folder.alone("here"):
            night(store, FIRST, *"abc")
    order = [path.split("/")[3] for path in puts if "check-" not in path and "lease" not in path]
    assert order == ["texts", "steps", "manifests", "manifest-flow.json"]


def test_a_run_that_changes_nothing_lists_once_and_writes_nothing(bucket: Bucket, tmp_path: Path):
    with bucket.snapshots(tmp_path / "mirror").folder.alone("here"):
        pass
    with between(bucket.server) as (endpoint, traffic):
        store = bucket.by(endpoint).snapshots(tmp_path / "mirror")
        with store.folder.alone("here"):
            for run_id in (FIRST, SECOND):
                puts = traffic.requests.get("PUT", 0)
                snapshot = night(store, run_id, *"abc")
                assert store.find_record(snapshot.sha256)
                store.history("flow")
        assert traffic.requests["LIST"] == 1
        assert traffic.requests["PUT"] - puts == 2  # its record, and the lease that is given back


@pytest.mark.parametrize("where", ["here", "there"])
def test_damage_on_disk_is_repaired_and_damage_in_the_store_is_reported(
    bucket: Bucket, tmp_path: Path, where: str
):
    store = bucket.snapshots(tmp_path / "mirror")
    with store.folder.alone("here"):
        snapshot = night(store, FIRST, *"abc")
    if where == "here":
        (store.root / snapshot.paths[0]).write_bytes(b"nonsense")
        assert store.tables.read_arrow(snapshot).equals(texts(*"abc"))
        return
    bucket.damage(snapshot.paths[0])
    shutil.rmtree(store.root)
    with pytest.raises(DamagedError, match=r"s3://bucket/.*/texts/.*: damaged"):
        store.tables.read_arrow(snapshot)
    assert not store.tables.exists(snapshot)
    with store.folder.alone("here"):
        assert store.find_record(snapshot.sha256) is None
        assert night(store, SECOND, *"abc") == snapshot
    shutil.rmtree(store.root)
    assert bucket.snapshots(tmp_path / "another").tables.read_arrow(snapshot).equals(texts(*"abc"))


def test_a_damaged_record_counts_as_none(
    bucket: Bucket, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    store = bucket.snapshots(tmp_path / "mirror")
    with store.folder.alone("here"):
        snapshot = night(store, FIRST, *"abc")
        bucket.damage(f"steps/{snapshot.sha256}.json")
        assert store.find_record(snapshot.sha256) is None


def test_an_object_that_another_client_deleted_is_deleted_on_disk_too(
    bucket: Bucket, tmp_path: Path
):
    one, other = bucket.snapshots(tmp_path / "one"), bucket.snapshots(tmp_path / "other")
    with one.folder.alone("one"):
        snapshot = night(one, FIRST, *"abc")
        one.tasks.note("task", {})
    with other.folder.alone("other"):
        other.folder.delete(snapshot.paths)
        other.tasks.clear()
    assert (one.root / snapshot.paths[0]).exists()
    with one.folder.alone("one"):
        assert not (one.root / snapshot.paths[0]).exists()
        with pytest.raises(DataError):
            one.tables.require(snapshot)
        assert one.tasks.read_notes(["task"]) == {}


def test_a_process_without_the_lease_does_tasks_and_writes_nothing_else(
    bucket: Bucket, tmp_path: Path
):
    client, worker = bucket.snapshots(tmp_path / "client"), bucket.snapshots(tmp_path / "worker")
    order, rows = ("id",), texts(*"abcdef")
    with client.folder.alone("client"):
        files = {
            "texts": [
                file
                for of in "01"
                for file in worker.tables.write_bucket("texts", rows, order, of, "id")
            ]
        }
        worker.tasks.note("task", files)
        assert client.tasks.read_notes(["task"]) == {"task": files}
        table = client.tables.join_files("texts", files["texts"], rows.schema, order, None)
        client.save_record(StepRecord("step", "0" * 64, {}, {"texts": table}))
        assert client.tables.read_arrow(table).equals(rows)
        with pytest.raises(LeaseLostError):
            worker.save_record(StepRecord("step", "1" * 64, {}, {"texts": table}))
        with pytest.raises(LeaseLostError):
            worker.folder.delete(table.paths)
    assert f"steps/{'0' * 64}.json" in bucket.names


def test_a_process_that_stays_keeps_again_what_was_deleted_meanwhile(
    bucket: Bucket, tmp_path: Path
):
    client, worker = bucket.snapshots(tmp_path / "client"), bucket.snapshots(tmp_path / "worker")

    def done() -> list[str]:
        files = worker.tables.write_bucket("texts", texts(*"abc"), ("id",), "0", "id")
        worker.tasks.note("task", {"texts": files})
        return [file.path for file in files]

    with client.folder.alone("client"):
        names = done()
        assert client.tasks.read_notes(["task"])
        client.folder.delete(names)
        client.tasks.clear()
        worker.folder.refresh()
        assert not (worker.root / names[0]).exists()
        assert done() == names
    assert set(names) <= bucket.names


def test_tables_are_kept_before_a_record_names_them(bucket: Bucket, tmp_path: Path):
    client, worker = bucket.snapshots(tmp_path / "client"), bucket.snapshots(tmp_path / "worker")
    with client.folder.alone("client"):
        table = client.tables.write("texts", texts(*"abc"), ("id",))
        client.tables.keep([table])
        assert worker.tables.read_arrow(table).equals(texts(*"abc"))


def test_files_of_other_processes_are_fetched_side_by_side(bucket: Bucket, tmp_path: Path):
    """A run on a cluster has hundreds of such files, and each is waited for."""
    worker, order, rows = bucket.snapshots(tmp_path / "worker"), ("id",), texts(*"abcdef")
    files = [
        file for of in "01" for file in worker.tables.write_bucket("texts", rows, order, of, "id")
    ]
    worker.tasks.note("task", {"texts": files})
    together = threading.Barrier(len(files))

    def meet(method: str, path: str) -> None:
        if method == "GET" and path.endswith(".parquet"):
            together.wait(30)

    with between(bucket.server, before=meet) as (endpoint, _):
        client = bucket.by(endpoint).snapshots(tmp_path / "client")
        with client.folder.alone("client"):
            assert client.tables.join_files("texts", files, rows.schema, order, None).rows == len(
                rows
            )
    assert len(files) > 1


def test_tasks_whose_files_are_missing_are_found_by_one_listing(bucket: Bucket, tmp_path: Path):
    worker = bucket.snapshots(tmp_path / "worker")
    tasks = [f"task-{number}" for number in range(4)]
    for task in tasks:
        file = worker.tables.write_bucket(
            "texts", texts(*(f"{task} {letter}" for letter in "abcdef")), ("id",), "0", "id"
        )
        worker.tasks.note(task, {"texts": file})
        if task in tasks[:3]:
            bucket.delete(file[0].path)
    with between(bucket.server) as (endpoint, traffic):
        client = bucket.by(endpoint).snapshots(tmp_path / "client")
        with client.folder.alone("client"):
            assert list(client.tasks.read_notes(tasks)) == tasks[3:]
            assert traffic.requests["LIST"] <= 3  # of all, of what is noted, and of all again


def test_a_reader_that_stays_sees_what_another_has_deleted(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    writer = bucket.snapshots(tmp_path / "writer")
    with between(bucket.server) as (endpoint, traffic), writer.folder.alone("writer"):
        reader = bucket.by(endpoint).snapshots(tmp_path / "reader")
        snapshot = night(writer, FIRST, *"abc")
        for _ in range(3):
            assert reader.tables.exists(snapshot)
        assert traffic.requests["LIST"] == 1
        writer.folder.delete(snapshot.paths)
        monkeypatch.setattr("pipeline.snapshots.mirror.SEEN_SECONDS", 0)
        assert not reader.tables.exists(snapshot)
        with pytest.raises(DataError, match="run the workflow again"):
            reader.tables.read_arrow(snapshot)
        night(writer, SECOND, *"abc")
        assert reader.tables.exists(snapshot)
        assert reader.tables.read_arrow(snapshot).equals(texts(*"abc"))


def test_columns_are_read_from_the_ends_of_files(bucket: Bucket, tmp_path: Path):
    store = bucket.snapshots(tmp_path / "mirror")
    with store.folder.alone("here"):
        snapshot = night(store, FIRST, *(str(number) * 100 for number in range(20_000)))
    names = [file.path for file in snapshot.files]
    with between(bucket.server) as (endpoint, traffic):
        reader = bucket.by(endpoint).snapshots(tmp_path / "another")
        found = dict(reader.folder.columns(names))
    assert found == {name: ["id", "text", "_hash"] for name in names}
    assert traffic.down < sum((store.root / name).stat().st_size for name in names) / 2


def test_a_dry_run_writes_beside_the_store(bucket: Bucket, tmp_path: Path):
    store = bucket.snapshots(tmp_path / "mirror")
    with store.folder.alone("here"):
        snapshot = night(store, FIRST, *"abc")
    shutil.rmtree(store.root)
    before = bucket.names
    tried = SnapshotStore(tmp_path / "tried", beneath=store)
    assert tried.tables.read_arrow(snapshot).num_rows == 3
    assert tried.tables.exists(snapshot)
    assert (
        tried.tables.read_arrow(
            tried.tables.write("texts", texts(*"abcd"), ("id",), snapshot)
        ).num_rows
        == 4
    )
    assert bucket.names == before


def test_keys_are_not_handed_to_other_processes(bucket: Bucket):
    assert bucket.server.environment["AWS_SECRET_ACCESS_KEY"] not in repr(bucket.objects)
    with pytest.raises(TypeError, match="environment"):
        pickle.dumps(bucket.objects)
