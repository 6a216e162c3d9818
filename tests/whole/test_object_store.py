"""Nights whose snapshots are in a bucket: equal to those on disk, whatever is killed, deleted, or comes between."""

import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from pipeline.engine import tasks
from pipeline.errors import LockedError, ObjectStoreError
from pipeline.runs.services import MIRROR_FOLDER
from tests.buckets import Bucket
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project
from tests.servers.s3_server import S3Server, between, nothing, s3_server
from tests.sizes import size
from tests.states import postgres_rows, table_hashes

NAME = "Wintermere Quillfeather"
LETTER = f"A letter\n\n{NAME} met Anselm Torr at the Harrow Light. {NAME} left Quill Point.\n"
EDITED = DOCUMENTS["observatory.txt"].replace("1852", "1853").replace("Pell", "Marrack")


def project(tmp_path: Path, name: str, url: str = NO_STORE) -> ProjectFolder:
    return new_project(tmp_path / name, url, {**DOCUMENTS, "letter.txt": LETTER}, workflow="fast")


def nights(folder: ProjectFolder, between_them: Callable[[], None] = lambda: None) -> list[dict[str, str]]:
    """The tables after a first night, an edit, and a deletion."""
    found = []
    for change in (lambda: None, lambda: folder.write("observatory.txt", EDITED), lambda: folder.delete("harbour.txt")):
        change()
        between_them()
        with folder.open() as opened:
            opened.index("fast")
            found.append(table_hashes(opened, "fast"))
    return found


def mirror_of(folder: ProjectFolder) -> Path:
    return folder.root / MIRROR_FOLDER


def test_tables_are_those_of_a_folder_also_where_the_mirror_is_deleted_each_day(bucket: Bucket, tmp_path: Path):
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


def test_stores_are_loaded_and_purged_of_the_last_byte(bucket: Bucket, tmp_path: Path, postgres_url: str):
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
        here = {path.relative_to(mirror_of(folder)).as_posix() for path in mirror_of(folder).rglob("*.parquet")}
        assert here <= bucket.names
        assert opened.verify("fast").agrees
        assert len(opened.snapshots.history("fast")) == 1
        opened.gc(1, dry_run=False)
        assert opened.index("fast").outcome == "completed"


@dataclass(frozen=True)
class Undisturbed:
    """What a first night comes to, and how many objects it writes."""

    tables: dict[str, str]
    writes: int


@pytest.fixture(scope="module")
def undisturbed(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    written = Writes(0, lambda: None)
    folder = project(tmp_path_factory.mktemp("undisturbed"), "p")
    with between(s3, before=written) as (endpoint, _):
        Bucket(s3, "undisturbed", s3.environment).by(endpoint).hold(folder)
        with folder.open() as opened:
            opened.index("fast")
            return Undisturbed(table_hashes(opened, "fast"), written.seen)


@dataclass
class Writes:
    """Does something at the write of this number, of those that are a night's own."""

    number: int
    do: Callable[[], None]
    seen: int = 0

    def __call__(self, method: str, path: str) -> None:
        if method == "PUT" and "lease.json" not in path and "check-" not in path:
            self.seen += 1
            if self.seen == self.number:
                self.do()


def moments(seed: int) -> list[float]:
    """Shares of a night's writes, drawn once."""
    return [round(share, 3) for share in random.Random(seed).sample([each / 40 for each in range(2, 40)], size(2, 5))]


@pytest.mark.parametrize("share", moments(1))
def test_a_client_killed_between_upload_and_record_makes_no_finished_step_again(
    bucket: Bucket, tmp_path: Path, share: float, undisturbed: Undisturbed
):
    """Before the server has what is written, and, every other time, after: when the client does not know it yet."""
    folder, clients = project(tmp_path, "p"), list[subprocess.Popen[bytes]]()

    def kill() -> None:
        clients[0].kill()
        clients[0].wait()
        raise ConnectionAbortedError

    number = round(share * undisturbed.writes)
    killing = Writes(number, kill)
    before, after = (killing, nothing) if number % 2 else (nothing, killing)
    with between(bucket.server, before=before, after=after) as (endpoint, _):
        bucket.by(endpoint).hold(folder)
        clients.append(subprocess.Popen(folder.command_line("index", "fast"), env=folder.environment))
        assert clients[0].wait(120) == -signal.SIGKILL
    recorded = {Path(name).stem for name in bucket.names if Path(name).parent.name == "steps"}
    bucket.hold(folder)
    with folder.open() as opened:
        report = opened.index("fast")
        assert table_hashes(opened, "fast") == undisturbed.tables
        steps = {record.fingerprint: step for step, record in opened.snapshots.manifest("fast").steps.items()}
    actions = {step.step: step.action for step in report.steps}
    assert recorded <= set(steps)
    assert all(actions[steps[fingerprint]] == "reused" for fingerprint in recorded)
    assert recorded or number < 5


@pytest.mark.parametrize("share", moments(2))
def test_the_server_killed_in_a_run_is_a_clear_end_and_the_next_goes_on(
    tmp_path: Path, share: float, undisturbed: Undisturbed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.snapshots.objects.RETRIES", {"max_retries": 1})
    folder = project(tmp_path, "p")
    with s3_server(tmp_path / "s3") as server:
        killing = Writes(round(share * undisturbed.writes), server.kill)
        held = Bucket(server, "p", server.environment)
        with between(server, before=killing) as (endpoint, _):
            held.by(endpoint).hold(folder)
            with folder.open() as opened, pytest.raises(ObjectStoreError, match="run the same command again") as raised:
                opened.index("fast")
            assert "\n" not in str(raised.value)
        server.start()
        held.hold(folder)
        with folder.open() as opened:
            assert opened.index("fast").outcome == "completed"
            assert table_hashes(opened, "fast") == undisturbed.tables


def test_a_process_that_stays_sees_what_another_machine_has_deleted(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = project(tmp_path, "p")
    bucket.hold(folder)
    with folder.open() as staying:
        staying.index("fast")
        assert staying.night().left_out == []
        assert {step.action for step in staying.plan("fast")} == {"reuse"}
        tables = staying.snapshots.manifest("fast").tables
        elsewhere = bucket.snapshots(tmp_path / "elsewhere")
        with elsewhere.alone("elsewhere"):
            elsewhere.delete_files([path for name in ("rejects", "text_units") for path in tables[name].paths])
        shutil.rmtree(mirror_of(folder))
        assert staying.night().left_out is None
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
        with elsewhere.alone("elsewhere:/p"), pytest.raises(LockedError, match=r"elsewhere:/p.* wait for it to end"):
            opened.index("fast")
        assert opened.index("fast").outcome == "completed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"snapshots": "s3://no-such-bucket/p"}, "s3://no-such-bucket/p: there is no such bucket; make it"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong-key-of-mine"}, "refused the key (SignatureDoesNotMatch); set AWS_"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "no answer from 127.0.0.1:9; see that it is up"),
        ({"snapshots": "s3://me:my-key@bucket/p"}, "a key in an address; put it into the environment or .env"),
        ({"snapshots": "http://bucket/p"}, "no address of an object store; write s3://bucket/prefix"),
        ({"snapshots": "s3:/bucket/p"}, "no address of an object store; write s3://bucket/prefix"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_bucket_is_said_in_a_line(
    bucket: Bucket, tmp_path: Path, change: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.snapshots.objects.RETRIES", {"max_retries": 1})
    folder = project(tmp_path, "p")
    bucket.hold(folder)
    bucket.environment.update({name: value for name, value in change.items() if name.startswith("AWS_")})
    bucket.hold(folder)
    if "snapshots" in change:
        folder.edit_settings(snapshots=change["snapshots"])
    done = folder.invoke("index", "fast")
    assert done.exit_code in (1, 2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not any(key in done.stderr for key in ("my-key", "wrong-key-of-mine", "local-tests-only"))


def test_tasks_in_buckets_by_workers_of_this_machine_leave_the_same_tables(
    bucket: Bucket, tmp_path: Path, undisturbed: Undisturbed
):
    folder = project(tmp_path, "p")
    bucket.hold(folder)
    with patch.object(tasks, "TASK_ROWS", 8), folder.open("engine.workers=2") as opened:
        opened.index("fast")
        assert table_hashes(opened, "fast") == undisturbed.tables
    assert not [name for name in bucket.names if "unfinished" in name]
    shutil.rmtree(mirror_of(folder))
    with folder.open() as opened:
        assert opened.index("fast").outcome == "completed"
        assert all(opened.snapshots.exists(table) for table in opened.snapshots.manifest("fast").tables.values())
