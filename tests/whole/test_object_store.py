"""Nights whose snapshots are in a bucket: equal to those on disk, whatever is deleted or comes
between. What is killed: test_cluster_kills.py."""

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from pipeline.engine import tasks
from pipeline.errors import LockedError
from pipeline.runs.services import MIRROR_FOLDER
from tests.buckets import Bucket
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project
from tests.states import postgres_rows, table_hashes

NAME = "Wintermere Quillfeather"
LETTER = f"A letter\n\n{NAME} met Anselm Torr at the Harrow Light. {NAME} left Quill Point.\n"
EDITED = DOCUMENTS["observatory.txt"].replace("1852", "1853").replace("Pell", "Marrack")


def project(tmp_path: Path, name: str, url: str = NO_STORE) -> ProjectFolder:
    return new_project(tmp_path / name, url, {**DOCUMENTS, "letter.txt": LETTER}, workflow="fast")


def nights(
    folder: ProjectFolder, between_them: Callable[[], None] = lambda: None
) -> list[dict[str, str]]:
    """The tables after a first night, an edit, and a deletion."""
    found = []
    for change in (
        lambda: None,
        lambda: folder.write("observatory.txt", EDITED),
        lambda: folder.delete("harbour.txt"),
    ):
        change()
        between_them()
        with folder.open() as opened:
            opened.index("fast")
            found.append(table_hashes(opened, "fast"))
    return found


def mirror_of(folder: ProjectFolder) -> Path:
    return folder.root / MIRROR_FOLDER


def test_tables_are_those_of_a_folder_also_where_the_mirror_is_deleted_each_day(
    bucket: Bucket, tmp_path: Path
):
    on_disk = nights(project(tmp_path, "disk"))
    remote = project(tmp_path, "remote")
    bucket.hold(remote)
    assert nights(remote, lambda: shutil.rmtree(mirror_of(remote), ignore_errors=True)) == on_disk
    assert not (remote.root / "data" / "snapshots").exists()
    with remote.open() as opened:
        assert len(opened.table("documents", "fast")) == len(DOCUMENTS)
        assert {step.action for step in opened.index("fast").steps} == {"reused"}
        first = opened.snapshots.history("fast")[0]
        assert len(opened.snapshots.manifest("fast", first).tables) > 5


def test_stores_are_loaded_and_purged_of_the_last_byte(
    bucket: Bucket, tmp_path: Path, postgres_url: str
):
    folder = project(tmp_path, "p", postgres_url)
    bucket.hold(folder)
    with folder.open() as opened:
        opened.run("fast")
        assert bucket.has(NAME)
        folder.write("observatory.txt", EDITED)
        opened.run("fast")
        shutil.rmtree(mirror_of(folder))
        opened.purge("letter.txt")
        assert not bucket.has(NAME)
        assert NAME not in str(postgres_rows(postgres_url, opened.settings.workspace))
        here = {
            path.relative_to(mirror_of(folder)).as_posix()
            for path in mirror_of(folder).rglob("*.parquet")
        }
        assert here <= bucket.names
        assert opened.verify("fast").agrees
        assert len(opened.snapshots.history("fast")) == 1
        opened.gc(1, dry_run=False)
        assert opened.index("fast").outcome == "completed"


def test_a_process_that_stays_sees_what_another_machine_has_deleted(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = project(tmp_path, "p")
    bucket.hold(folder)
    with folder.open() as staying:
        staying.index("fast")
        assert staying.run_details().left_out == []
        assert {step.action for step in staying.plan("fast")} == {"reuse"}
        tables = staying.snapshots.manifest("fast").tables
        elsewhere = bucket.snapshots(tmp_path / "elsewhere")
        with elsewhere.folder.alone("elsewhere"):
            elsewhere.folder.delete(
                [path for name in ("rejects", "text_units") for path in tables[name].paths]
            )
        shutil.rmtree(mirror_of(folder))
        assert staying.run_details().left_out is None
        monkeypatch.setattr("pipeline.snapshots.mirror.SEEN_SECONDS", 0)
        assert ("run", "missing") in {(step.action, step.reason) for step in staying.plan("fast")}


def test_another_project_may_not_write_there(bucket: Bucket, tmp_path: Path):
    one, other = project(tmp_path, "one"), project(tmp_path, "other")
    for folder in (one, other):
        bucket.hold(folder)
    with one.open() as opened:
        opened.index("fast")
    said = other.invoke_refused("index", "fast")
    assert f"{bucket.address}: the snapshots of another project" in said


def test_two_clients_at_once_the_second_is_refused(bucket: Bucket, tmp_path: Path):
    folder = project(tmp_path, "one")
    bucket.hold(folder)
    elsewhere = bucket.snapshots(tmp_path / "elsewhere", period=2)
    with folder.open() as opened:
        assert opened.snapshots.mirror
        opened.snapshots.mirror.period = 2
        with (
            elsewhere.folder.alone("elsewhere:/p"),
            pytest.raises(LockedError, match=r"elsewhere:/p.* wait for it to end"),
        ):
            opened.index("fast")
        assert opened.index("fast").outcome == "completed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"snapshots": "s3://no-such-bucket/p"},
            "s3://no-such-bucket/p: there is no such bucket; make it"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong-key-of-mine"},
            "refused the key (SignatureDoesNotMatch); set AWS_"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "no answer from 127.0.0.1:9; see that it is up"),
        ({"snapshots": "s3://me:my-key@bucket/p"},
            "a key in an address; put it into the environment or .env"),
        ({"snapshots": "http://bucket/p"},
            "no address of an object store; write s3://bucket/prefix"),
        ({"snapshots": "s3:/bucket/p"}, "no address of an object store; write s3://bucket/prefix"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_bucket_is_said_in_a_line(
    bucket: Bucket,
    tmp_path: Path,
    change: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("pipeline.snapshots.objects.RETRIES", {"max_retries": 1})
    folder = project(tmp_path, "p")
    bucket.hold(folder)
    bucket.environment.update(
        {name: value for name, value in change.items() if name.startswith("AWS_")}
    )
    bucket.hold(folder)
    if "snapshots" in change:
        folder.edit_settings(snapshots=change["snapshots"])
    done = folder.invoke("index", "fast")
    assert done.exit_code in (1, 2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not any(
        key in done.stderr for key in ("my-key", "wrong-key-of-mine", "local-tests-only")
    )


def test_tasks_in_buckets_by_workers_of_this_machine_leave_the_same_tables(
    bucket: Bucket, tmp_path: Path
):
    with project(tmp_path, "disk").open() as opened:
        opened.index("fast")
        on_disk = table_hashes(opened, "fast")
    folder = project(tmp_path, "p")
    bucket.hold(folder)
    with patch.object(tasks, "TASK_ROWS", 8), folder.open("engine.workers=2") as opened:
        opened.index("fast")
        assert table_hashes(opened, "fast") == on_disk
    assert not [name for name in bucket.names if "unfinished" in name]
    shutil.rmtree(mirror_of(folder))
    with folder.open() as opened:
        assert opened.index("fast").outcome == "completed"
        assert all(
            opened.snapshots.tables.exists(table)
            for table in opened.snapshots.manifest("fast").tables.values()
        )
