"""A full disk: a small file system that is really full, or a limit on the size of files."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pipeline.contract.schemas import TEXTS
from pipeline.runs.gc import collect_garbage
from pipeline.snapshots.store import Manifest, SnapshotStore
from tests.corpora import cut_by_paragraphs, voyages
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_faults import canonical
from tests.servers.openai_server import OpenAIServer
from tests.small_disks import small_disk
from tests.states import models

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
    "texts": lambda: store.tables.write("texts", table),
    "steps": lambda: store.save_record(record),
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
assert len(store.tables.read(store.tables.write("texts", table))) == 4000
"""  # noqa: E501
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
    folder, whole = (
        new_project(tmp_path / "p", postgres_url),
        new_project(tmp_path / "whole", postgres_url),
    )
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
        table = store.tables.write("texts", TEXTS.encode(TEXTS.frame([("1", str(night))]), "texts"))
        store.publish(Manifest("index", {"texts": table}), f"run-{night}")
    return store


def replies_kept(folder: ProjectFolder) -> int:
    with closing(sqlite3.connect(folder.root / "data" / "cache.sqlite")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM completions").fetchone()
    return count


def test_a_disk_that_becomes_full_in_a_run_loses_no_reply_and_pays_for_none_twice(
    tmp_path: Path, openai: OpenAIServer
):
    """The padding makes each reply about 20 kB, so that the disk is full long before the last text
    unit."""
    usual = openai.reply
    openai.reply = lambda messages, body: replace(
        told := usual(messages, body), text=(told.text or "") + "\n" * 20_000
    )
    with small_disk(tmp_path / "disk", megabytes=24) as disk:
        folder = new_project(
            disk.root / "p",
            NO_STORE,
            voyages(80),
            models={"chat": models(openai, max_tokens=16_000)["chat"]},
        )
        cut_by_paragraphs(folder)
        disk.fill(leave=1_000_000)
        full = folder.invoke("index")
        assert full.exit_code == 1
        assert "make space" in full.stderr
        assert "nothing is lost" not in full.stderr
        paid = openai.count("chat", 200)
        assert 4 < paid < 80
        assert replies_kept(folder) == paid

        for _ in range(2):  # as a job does every night
            again = folder.invoke("index")
            assert again.exit_code == 1
            assert "make space" in again.stderr
        assert replies_kept(folder) == openai.count("chat", 200) <= paid + 4

        disk.make_space()
        assert folder.invoke("index").exit_code == 0
        asked = [canonical(request.body) for request in openai.requests if request.kind == "chat"]
        assert len(asked) == len(set(asked)) == 80
