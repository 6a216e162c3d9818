"""A backup or a restore that is killed at any point leaves nothing under the final name."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.sizes import size

AT = """
import os, signal, sys
from pathlib import Path
import pipeline.backup.archive as archive, pipeline.backup.restore as restore
import pipeline.backup.write as write
from pipeline.project import Project

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(place, name):
    function = getattr(place, name)
    setattr(place, name, lambda *given, **named: (function(*given, **named), die()))

def at_call(place, name, number):
    function, calls = getattr(place, name), []

    def counting(*given, **named):
        calls.append(1)
        return die() if len(calls) == number else function(*given, **named)

    setattr(place, name, counting)

root, file, target, point = sys.argv[1:]
{
    "first file": lambda: at_call(archive.ArchiveWriter, "add", 1),
    "some files": lambda: at_call(archive.ArchiveWriter, "add", 20),
    "manifest": lambda: after(archive.ArchiveWriter, "finish"),
    "checking": lambda: at_call(archive.ArchiveReader, "content", 10),
    "no name": lambda: setattr(write, "_publish", die),
    "named": lambda: after(write, "_publish"),
    "extracting": lambda: at_call(archive.ArchiveReader, "content", 10),
    "copy": lambda: after(restore, "_make_copy"),
    "no folder": lambda: setattr(restore, "_publish", die),
    "folder": lambda: after(restore, "_publish"),
}[point]()
if target:
    Project.restore(file, target, "killed-copy")
else:
    with Project.open(root) as project:
        project.backup(file)
"""
LEFT_HALF = ("first file", "some files", "manifest", "checking", "no name")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    folder = new_project(tmp_path_factory.mktemp("killed") / "mine", NO_STORE)
    with folder.open() as project:
        project.index("fast")
    return folder


def kill_at(folder: ProjectFolder, file: Path, target: str, point: str) -> None:
    command = [sys.executable, "-c", AT, str(folder.root), str(file), target, point]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("point", size(["some files", "no name", "named"], [*LEFT_HALF, "named"]))
def test_a_killed_backup_leaves_no_file_of_its_name_or_a_whole_one(
    folder: ProjectFolder, tmp_path: Path, point: str
):
    file = tmp_path / "b.zip"
    kill_at(folder, file, "", point)
    assert file.exists() is (point == "named")
    if not file.exists():
        with folder.open() as project:
            project.backup(file)
        assert os.listdir(tmp_path) == ["b.zip"]
    assert Project.restore(file, tmp_path / "new").exit_code == 0


@pytest.mark.parametrize(
    "point", size(["copy", "folder"], ["extracting", "copy", "no folder", "folder"])
)
def test_a_killed_restore_leaves_no_folder_of_its_name_or_a_whole_one(
    folder: ProjectFolder, tmp_path: Path, point: str
):
    file, target = tmp_path / "b.zip", tmp_path / "new"
    with folder.open() as project:
        project.backup(file)
    kill_at(folder, file, str(target), point)
    assert target.exists() is (point == "folder")
    if not target.exists():
        Project.restore(file, target, "killed-copy")
    assert sorted(os.listdir(tmp_path)) == ["b.zip", "new"]
    with Project.open(target) as copy:
        assert copy.settings.workspace == "killed-copy"
        assert {one.action for one in copy.plan("fast")} == {"reuse"}
