"""A full disk, by a limit on the size of files: every write beyond it fails as on a device without space."""

import subprocess
import sys
from pathlib import Path

from pipeline.contract.schemas import TEXTS
from pipeline.runs.gc import collect_garbage
from pipeline.snapshots.store import Manifest, SnapshotStore
from tests.projects import ProjectFolder, new_project

LIMITED_STORE = """
import random, resource, sys
from pathlib import Path
from pipeline.errors import DiskFullError
from pipeline.contract.schemas import TEXTS
from pipeline.snapshots.store import Manifest, SnapshotStore, StepRecord

store = SnapshotStore(Path(sys.argv[1]))
noise = random.Random(0).randbytes(200_000).hex()
table = TEXTS.encode(TEXTS.frame([(str(row), noise[row * 100:(row + 1) * 100]) for row in range(4000)]), "texts")
record = StepRecord("s", "a" * 64, {"params": noise[:9000]}, {})
attempts = {
    "texts": lambda: store.write("texts", table),
    "steps": lambda: store.record(record),
    "index": lambda: store.publish(Manifest("index", {}, {"s": record}), "run-1"),
}
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for folder, write in attempts.items():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        write()
        sys.exit(f"{folder}: written")
    except DiskFullError as error:
        assert f"{folder}: a file could not be written" in str(error), error
        assert "run the same command again" in str(error), error
    left = [path for path in store.root.rglob("*") if path.is_file()]
    assert not left, left
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
for write in attempts.values():
    write()
assert len(store.read(store.write("texts", table))) == 4000
"""
LIMITED_PROJECT = """
import resource, sys
from pipeline.project import Project

kind, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
with Project.open(sys.argv[1]) as project:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), hard))
    project.index("fast") if sys.argv[2] == "index" else project.gc(keep=1, dry_run=False)
"""
ROOT = Path(__file__).parents[2]


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_full_disk_leaves_nothing_half_written_and_says_where_it_was(tmp_path: Path):
    done = run(LIMITED_STORE, tmp_path / "snapshots")
    assert done.returncode == 0, done.stderr


def test_a_run_goes_on_once_there_is_space(tmp_path: Path, postgres_url: str):
    folder, whole = new_project(tmp_path / "p", postgres_url), new_project(tmp_path / "whole", postgres_url)
    done = run(LIMITED_PROJECT, folder.root, "index", 9000)
    assert "DiskFullError" in done.stderr, done.stderr
    assert "a file could not be written" in done.stderr
    assert not list((folder.root / "data").rglob("*.partial"))
    with folder.open() as project, whole.open() as other:
        steps = project.index("fast").steps
        other.index("fast")
        assert {step.action for step in steps} == {"reused", "ran"}
        assert project.snapshots.manifest("fast").tables == other.snapshots.manifest("fast").tables


def test_gc_needs_no_space(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "p", postgres_url)
    store = _with_garbage(folder)
    done = run(LIMITED_PROJECT, folder.root, "gc", 0)
    assert done.returncode == 0, done.stderr
    assert collect_garbage(store, 1, dry_run=True).total.files == 0


def _with_garbage(folder: ProjectFolder) -> SnapshotStore:
    with folder.open() as project:
        store = project.snapshots
    for night in range(2):
        table = store.write("texts", TEXTS.encode(TEXTS.frame([("1", str(night))]), "texts"))
        store.publish(Manifest("index", {"texts": table}), f"run-{night}")
    return store
