"""Garbage collection keeps and deletes the right files, also if it is interrupted."""

import shutil
from pathlib import Path

import pytest

from pipeline.contract.schemas import TEXTS
from pipeline.engine.run_report import RunReport
from pipeline.errors import DataError, LockedError, UsageError
from pipeline.runs.gc import GcReport, SnapshotSize, collect_garbage
from pipeline.runs.reports import Runs, UnfinishedRun
from pipeline.snapshots.store import Manifest, SnapshotStore, StepRecord
from tests.projects import DOCUMENTS, new_project

NIGHTS = 4


def publish(store: SnapshotStore, workflow: str, run_id: str, *texts: str) -> Manifest:
    """Publish a run of two steps; its table ``shared`` is the same in every run."""
    tables, steps = {}, {}
    for step, rows in {"shared": ("always",), "texts": texts}.items():
        table = TEXTS.encode(
            TEXTS.frame([(str(number), text) for number, text in enumerate(rows)]), step
        )
        tables[step] = store.tables.write(step, table)
        fingerprint = tables[step].sha256[::-1]
        steps[step] = StepRecord(step, fingerprint, {}, {"out": tables[step]})
        store.save_record(steps[step])
    manifest = Manifest(workflow, tables, steps)
    store.publish(manifest, run_id)
    return manifest


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    """Create four runs of one workflow, and one of another that shares a table with the second."""
    store = SnapshotStore(tmp_path / "snapshots")
    for night in range(NIGHTS):
        publish(store, "index", f"run-{night}", f"night {night}")
    publish(store, "fast", "run-9", "night 1")
    return store


def files(store: SnapshotStore) -> set[str]:
    return {
        path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if path.is_file()
    }


def assert_whole(store: SnapshotStore) -> None:
    """Check that every manifest, live or kept, can be read with all its tables and found by its
    records."""
    for workflow in store.workflows():
        for run_id in ("", *store.history(workflow)):
            manifest = store.manifest(workflow, run_id)
            assert set(manifest.tables) == {"shared", "texts"}
            for snapshot in manifest.tables.values():
                assert len(store.tables.read(snapshot)) == snapshot.rows
            for record in manifest.steps.values():
                assert store.find_record(record.fingerprint) == record


def test_the_newest_manifests_and_what_they_name_are_kept(store: SnapshotStore):
    kept = [store.manifest("index", f"run-{night}") for night in (2, 3)] + [store.manifest("fast")]
    before = files(store)
    report = collect_garbage(store, keep=2, dry_run=False)
    assert store.history("index") == ["run-2", "run-3"]
    assert [
        store.manifest("index", "run-2"),
        store.manifest("index"),
        store.manifest("fast"),
    ] == kept
    assert report.manifests == {"index": ["run-0", "run-1"]}
    assert (report.records.files, report.tables["texts"].files, set(report.tables)) == (
        1,
        1,
        {"texts"},
    )
    gone = before - files(store)
    assert len(gone) == 4
    assert sum(name.startswith("texts/") for name in gone) == 1, (
        "the table of night 1 is fast's too"
    )
    assert_whole(store)
    assert collect_garbage(store, keep=2, dry_run=False).total == SnapshotSize(0, 0)


def test_a_dry_run_says_the_same_and_deletes_nothing(store: SnapshotStore):
    before = files(store)
    dry = collect_garbage(store, keep=1, dry_run=True)
    assert files(store) == before
    size = sum((store.root / name).stat().st_size for name in before)
    done = collect_garbage(store, keep=1, dry_run=False)
    assert done == GcReport(False, 1, dry.manifests, dry.records, dry.tables)
    left = sum((store.root / name).stat().st_size for name in files(store))
    assert size - left > dry.total.bytes > 0
    assert dry.to_json()["total"] == {"files": dry.total.files, "bytes": dry.total.bytes}


def test_logs_from_before_the_oldest_kept_night_are_deleted(store: SnapshotStore, tmp_path: Path):
    """Logs of nights without a change stay with the night whose tables they show."""
    runs = Runs.of(tmp_path)
    logs = {
        "run-0": "index", "run-1": "index", "run-2": "index", "run-2b": "index", "run-3": "index",
        "run-1f": "fast", "run-9": "fast", "run-1o": "never completed", "run-3o": "never completed",
    }  # fmt: skip
    for run_id, workflow in logs.items():
        runs.save(RunReport(run_id, workflow, "failed", 1))
        runs.log_path(run_id).write_text("{}")
    runs.note(UnfinishedRun("run-0k", "index"))
    for unreported in ("run-0k", "run-0u"):
        runs.log_path(unreported).write_text("{}")
    old = {"run-0", "run-0k", "run-0u", "run-1", "run-1f", "run-1o"}
    dry = collect_garbage(store, keep=2, dry_run=True, runs=runs)
    assert dry.logs == SnapshotSize(len(old), 2 * len(old))
    assert len(list(runs.folder.glob("*.log"))) == len(logs) + 2
    assert collect_garbage(store, keep=2, dry_run=False, runs=runs).logs == dry.logs
    assert {log.stem for log in runs.folder.glob("*.log")} == logs.keys() - old
    assert set(runs.reported_ids()) == logs.keys()
    assert collect_garbage(store, keep=2, dry_run=False, runs=runs).total == SnapshotSize(0, 0)


def test_unnamed_snapshots_are_deleted_and_other_files_stay(store: SnapshotStore):
    stray = store.tables.write(
        "strays", TEXTS.encode(TEXTS.frame([("1", "of a run that failed")]), "strays")
    )
    theirs = store.root / "texts" / "notes.parquet"
    theirs.write_text("mine")
    report = collect_garbage(store, keep=NIGHTS, dry_run=False)
    assert {table: size.files for table, size in report.tables.items()} == {"strays": 1}
    assert not store.tables.exists(stray)
    assert theirs.exists()


def test_a_collection_interrupted_between_any_two_deletions_leaves_a_working_project(
    store: SnapshotStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    unlink, deletions = Path.unlink, len(files(store))
    collected = SnapshotStore(shutil.copytree(store.root, tmp_path / "collected"))
    collect_garbage(collected, keep=1, dry_run=False)
    deletions -= len(files(collected))
    assert deletions >= 6
    for done in range(deletions):
        broken = SnapshotStore(shutil.copytree(store.root, tmp_path / f"broken-{done}"))
        left = iter(range(done))

        def delete_or_die(path: Path, missing_ok: bool = False, left=left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            unlink(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", delete_or_die)
        with pytest.raises(KeyboardInterrupt):
            collect_garbage(broken, keep=1, dry_run=False)
        monkeypatch.undo()
        assert len(files(store)) - len(files(broken)) == done
        assert_whole(broken)
        for workflow in store.workflows():
            kept = broken.history(workflow)
            assert kept == store.history(workflow)[-len(kept) :], "the oldest go first"
        collect_garbage(broken, keep=1, dry_run=False)
        assert files(broken) == files(collected)


@pytest.mark.parametrize("keep", [0, -1])
def test_at_least_one_manifest_is_kept(store: SnapshotStore, keep: int):
    with pytest.raises(UsageError, match="keep at least 1"):
        collect_garbage(store, keep, dry_run=False)


def test_nothing_is_deleted_while_the_live_manifest_cannot_be_read(store: SnapshotStore):
    kept = store.root / "manifests" / "fast" / f"{store.history('fast')[-1]}.json"
    whole = kept.read_bytes()
    for path in (store.root / "manifest-fast.json", kept):
        path.write_text("{")
    before = files(store)
    with pytest.raises(DataError, match=r"not readable .*; run 'graphmill index fast' first"):
        collect_garbage(store, keep=1, dry_run=False)
    assert files(store) == before
    kept.write_bytes(whole)
    collect_garbage(store, keep=1, dry_run=False)
    assert all(map(store.tables.exists, store.manifest("fast").tables.values()))


def test_a_project_goes_on_after_gc_and_never_collects_beside_a_run(
    tmp_path: Path, postgres_url: str
):
    titled = "---\ntitle: The Lamp of Quill\n---\n\nIt was lit in 1871.\n"
    folder = new_project(tmp_path / "p", postgres_url, {**DOCUMENTS, "lamp.md": titled})
    with folder.open() as project:
        for night in range(3):
            folder.write("harbour.txt", f"{DOCUMENTS['harbour.txt']} Night {night}.")
            project.index("fast")
        with project.runs.alone(), pytest.raises(LockedError):
            project.gc(keep=1, dry_run=False)
        tables = project.snapshots.manifest("fast").tables
        assert project.gc(keep=1).total.files > 0
        made_of_units = ("text_unit_headers", "statements")
        before = {name: project.table(name, "fast") for name in made_of_units}
        assert all(len(rows) for rows in before.values())
        assert project.gc(keep=1, dry_run=False).total.files > 0
        for name, rows in before.items():
            assert project.table(name, "fast").equals(rows), name
        assert {step.action for step in project.index("fast").steps} == {"reused"}
        assert project.snapshots.manifest("fast").tables == tables
        assert project.load("fast").outcome == "completed"
