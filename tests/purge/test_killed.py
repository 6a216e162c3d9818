"""A purge that is killed at any point continues by the same command, and no run is possible before
that."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import DataError, LockedError, UsageError
from pipeline.purge.intention import FILE
from pipeline.settings.init import init_project
from tests.projects import ProjectFolder, new_project
from tests.purge.test_purge import CANARY, KEPT, SECRET, found_in
from tests.sizes import size
from tests.states import postgres_rows

AT = """
import os, signal, sys
import pipeline.project, pipeline.purge.document as document, pipeline.purge.history as history
import pipeline.purge.workspaces as workspaces
from pathlib import Path
from pipeline.purge.intention import PurgeIntents
from pipeline.runs.gc import collect_garbage
from pipeline.project import Project
from pipeline.runs.reports import Runs
from pipeline.models.cache.replies import ReplyCache

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(place, name):
    function = getattr(place, name)
    setattr(place, name, lambda *given, **named: (function(*given, **named), die()))

def after_file():
    unlink = Path.unlink

    def then_die(path, missing_ok=False):
        unlink(path, missing_ok)
        if path.name == "secret.txt":
            die()

    Path.unlink = then_die

root, point = sys.argv[1:]
{
    "batches": lambda: after(document, "_abandon_batches"),
    "intention": lambda: after(PurgeIntents, "save"),
    "file": after_file,
    "index": lambda: after(document, "_publish"),
    "checked": lambda: after(document, "_require_gone"),
    "stopped": lambda: setattr(workspaces.shutil, "rmtree", die),
    "dropped": lambda: setattr(workspaces, "_load_again", die),
    "one loaded": lambda: after(workspaces, "_load_again"),
    "all loaded": lambda: after(workspaces, "remake_embedded"),
    "others": lambda: after(document, "withdraw") or setattr(document, "forget_history", die),
    "snapshots": lambda: after(history, "collect_garbage"),
    "reports": lambda: after(Runs, "forget_before"),
    "cache": lambda: after(ReplyCache, "forget_all_but"),
    "end": lambda: setattr(PurgeIntents, "end", die),
}[point]()
with Project.open(root) as project:
    project.purge("secret.txt")
"""
EMBEDDED = ("file", "stopped", "dropped", "one loaded", "all loaded")
POINTS = (
    "batches", "intention", "file", "index", "checked", "dropped", "one loaded", "others",
    "snapshots", "reports",
    "cache", "end",
)  # fmt: skip
BEFORE = ("batches",)
"""Nothing is deleted by then: a run may go on."""


def kill_at(folder: ProjectFolder, point: str) -> None:
    command = [sys.executable, "-c", AT, str(folder.root), point]
    done = subprocess.run(
        command, env=folder.environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def refuse_runs(folder: ProjectFolder) -> None:
    with folder.open() as project:
        for work in (project.run, project.load, project.index):
            with pytest.raises(
                LockedError,
                match=r"purge of secret\.txt was broken off; 'graphmill purge --document",
            ):
                work("fast")
        with pytest.raises(LockedError, match="broken off"):
            project.purge("a.txt")
        with pytest.raises(LockedError, match="broken off"):
            project.purge_history(dry_run=False)


@pytest.mark.parametrize("point", size(["one loaded", "reports"], POINTS))
def test_a_killed_purge_continues_on_a_server(tmp_path: Path, postgres_url: str, point: str):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET})
    with folder.open() as project:
        project.run("fast")
        mine = project.settings.workspace
    with folder.open(f"workspace={mine}-2") as project:
        project.load("fast")
    kill_at(folder, point)
    if point not in BEFORE:
        refuse_runs(folder)
    with folder.open() as project:
        report = project.purge("secret.txt")
        assert report.exit_code == 0
        assert report.rows["fast"]["documents"] == 1
        assert project.verify("fast").agrees
        assert project.run("fast").load["postgres"]["documents"]["inserted"] == 0
        project.cache.close()
    for workspace in (mine, f"{mine}-2"):
        rows = postgres_rows(postgres_url, workspace)
        assert (len(rows["graphmill_documents"]), CANARY in repr(rows)) == (3, False)
    assert found_in(folder.root, CANARY) == found_in(folder.root, "secret.txt") == []
    assert found_in(folder.root, "Harrow") != []


@pytest.mark.parametrize("point", size(["dropped"], EMBEDDED))
def test_a_killed_purge_continues_on_the_embedded_server(tmp_path: Path, point: str):
    init_project(tmp_path / "mill")
    folder = ProjectFolder(tmp_path / "mill")
    for name, text in {**KEPT, "secret.txt": SECRET}.items():
        folder.write(name, text)
    folder.edit_settings(max_delete_ratio=1)
    with folder.open() as project:
        project.run("fast")
    with folder.open("workspace=staging") as project:
        project.load("fast")
        project.stop_stores()
    kill_at(folder, point)
    refuse_runs(folder)
    with folder.open() as project:
        assert project.purge("secret.txt").rebuilt
        lives = project.workspaces()["postgres"]
        assert {name: live.tables["documents"].rows for name, live in lives.items()} == {
            "default": 3,
            "staging": 3,
        }
        assert project.verify("fast").agrees
        project.stop_stores()
    assert found_in(folder.root, CANARY) == []


def test_a_second_purge_of_a_document_is_refused(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "mill", postgres_url, {**KEPT, "secret.txt": SECRET})
    with folder.open() as project:
        project.run("fast")
        project.purge("secret.txt")
        with pytest.raises(
            UsageError,
            match=r"secret\.txt: no file, no document of any run that is kept, no record",
        ):
            project.purge("secret.txt")


def test_a_damaged_note_of_a_purge_is_an_error(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "mill", postgres_url, KEPT)
    (folder.root / "data").mkdir(exist_ok=True)
    (folder.root / FILE).write_text("{")
    with (
        folder.open() as project,
        pytest.raises(DataError, match=r"purge\.json: .*move the file away, then purge"),
    ):
        project.run("fast")
