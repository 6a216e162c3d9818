"""Back to an earlier night, and forth again."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.contract.schemas import TEXTS
from pipeline.engine.run_options import RunOptions
from pipeline.errors import DataError, UsageError
from pipeline.project import Project
from pipeline.runs.stages import manifest_of
from pipeline.snapshots.store import Manifest, SnapshotStore
from tests.projects import DOCUMENTS, new_project
from tests.stored import stored_hashes


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    store = SnapshotStore(tmp_path / "snapshots")
    for run_id, table in {"20260101-a": "one", "20260103-a": "two", "20260105-a": "one"}.items():
        store.publish(_manifest(store, table), run_id)
    return store


def _manifest(store: SnapshotStore, name: str) -> Manifest:
    return Manifest(
        "index", {name: store.tables.write(name, TEXTS.encode(TEXTS.frame([(name, name)]), name))}
    )


RUNS = [
    "20260101-a",
    "20260102-a",
    "20260103-a",
    "20260104-a",
    "20260104-b",
    "20260105-a",
    "20260106-a",
]


@pytest.mark.parametrize(
    ("run", "table"),
    [
        ("20260101-a", "one"),
        ("20260102", "one"),
        ("20260103", "two"),
        ("20260104-b", "two"),
        ("20260105-a", "one"),
        ("20260106", "one"),
    ],
)
def test_a_run_that_changed_nothing_had_what_the_one_before_left(
    store: SnapshotStore, run: str, table: str
):
    assert set(manifest_of(run, "index", store, RUNS).tables) == {table}


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            "2027",
            (
                r"no such run; the newest are: 20260106-a, 20260105-a, 20260104-b, 20260104-a,"
                r" 20260103-a$"
            ),
        ),
        ("20260104", r"2 runs begin so; the newest are: 20260104-b, 20260104-a$"),
        ("", "7 runs begin so"),
        ("../index", "no such run"),
    ],
)
def test_what_names_no_run_or_several_is_a_usage_error(
    store: SnapshotStore, run: str, message: str
):
    with pytest.raises(UsageError, match=message):
        manifest_of(run, "index", store, RUNS)


def test_a_workflow_that_has_never_run(store: SnapshotStore):
    with pytest.raises(UsageError, match="none; run 'graphmill index fast'"):
        manifest_of("2026", "fast", store, [])


def test_what_is_no_longer_kept_is_a_data_error(store: SnapshotStore):
    store.delete_manifest("index", "20260101-a")
    with pytest.raises(
        DataError,
        match="no manifest is kept from the time of run 20260102-a; the oldest is 20260103",
    ):
        manifest_of("20260102", "index", store, RUNS)
    (store.root / store.manifest("index", "20260103-a").tables["two"].files[0].path).unlink()
    with pytest.raises(
        DataError, match=r"\.parquet: gone or damaged, and table 'two' of run 20260104-a with it"
    ):
        manifest_of("20260104-a", "index", store, RUNS)


def test_a_damaged_manifest_of_a_night_is_not_replaced_by_an_older_ones(store: SnapshotStore):
    (store.root / "manifests/index/20260103-a.json").write_bytes(b"")
    with pytest.raises(DataError, match=r"20260103-a\.json: not readable .*; choose another run"):
        manifest_of("20260104-a", "index", store, RUNS)


def test_an_equal_manifest_is_not_kept_twice_and_keeps_its_id(store: SnapshotStore):
    store.publish(store.manifest("index"), "20260106-a")
    assert store.history("index") == ["20260101-a", "20260103-a", "20260105-a"]
    assert store.manifest("index") == store.manifest("index", "20260105-a")


def test_a_live_manifest_without_a_history_gets_one(store: SnapshotStore):
    for run_id in store.history("index"):
        store.delete_manifest("index", run_id)
    store.publish(store.manifest("index"), "20260107-a")
    assert store.history("index") == ["20260107-a"]


def test_the_stores_go_back_to_a_night_and_forth(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "p", postgres_url)
    with folder.open() as project:
        first = project.run("fast").run_id
        before = _rows(project)
        quiet = project.index("fast").run_id
        folder.delete("harbour.txt")
        folder.write("new.txt", DOCUMENTS["harbour.txt"].replace("Mira Vale", "Dana Holt"))
        project.run("fast")
        after = _rows(project)
        assert after != before
        for run in (first, quiet):
            assert (
                project.load("fast", options=RunOptions(manifest=run)).load["postgres"][
                    "documents"
                ]["inserted"]
                == 1
            )
            assert _rows(project) == before
            project.load("fast")
            assert _rows(project) == after
        project.gc(keep=1, dry_run=False)
        with pytest.raises(DataError, match="no manifest is kept from the time"):
            project.load("fast", options=RunOptions(manifest=first))
        with pytest.raises(UsageError, match="no such run"):
            project.load("fast", options=RunOptions(manifest="1999"))
        assert _rows(project) == after
        report = project.status()
        assert report
        # The load of a night that is gone has failed; that of an unknown night was refused.
        assert (report["outcome"], report["exit_code"]) == ("failed", 1)
        assert report["refused"]["exit_code"] == 2


def _rows(project: Project) -> Mapping[str, Mapping[str, str]]:
    return stored_hashes(project.stores.all[0])


def test_no_earlier_night_is_loaded_unasked(tmp_path: Path, postgres_url: str):
    """Where the last night's manifest cannot be read, nor its copy."""
    folder = new_project(tmp_path / "mill", postgres_url, workflow="fast")
    with folder.open() as project:
        project.run()
        folder.write("pier.txt", "The Pier of Quill was built by Mira Vale in 1880.")
        project.run()
        shown = project.stores.vectors.documents()
    snapshots = folder.root / "data/snapshots"
    last = max(snapshots.glob("manifests/fast/*.json"))
    whole = last.read_bytes()
    for path in (last, snapshots / "manifest-fast.json"):
        path.write_bytes(whole[:100])
    for command in ("load", "verify"):
        done = folder.invoke(command)
        assert (done.exit_code, f"{last}: " in done.stderr) == (1, True)
        assert done.stderr.rstrip().endswith("run 'graphmill index fast' first")
    with folder.open() as project:
        assert project.stores.vectors.documents() == shown
        assert project.run().exit_code == 0
        assert project.verify().agrees
