"""A killed import of another index goes on: the next one ends as if nothing had been."""

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project, workspace_of
from tests.sizes import size
from tests.states import table_hashes
from tests.verbs.graphrag_folders import unpack, village, write
from tests.verbs.lightrag_folders import INDEX, edit_graph
from tests.whole.moments import PROCESSES

NAMING = ("replace", "rename")
"""The functions of ``os`` that give a file or folder its name."""


def import_until(root: str, theirs: str, act: Callable[[int], None], kind: str = "lightrag") -> int:
    """Import an index; before each file gets its name, call ``act`` with the number of those
    before. Return their number."""
    been = 0

    def counted(done: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            nonlocal been
            act(been)
            been += 1
            return done(*given, **named)

        return noted

    with ExitStack() as stack:
        for name in NAMING:
            stack.enter_context(patch.object(os, name, counted(getattr(os, name))))
        project = stack.enter_context(Project.open(root))
        import_index = getattr(project, f"import_{kind}")
        import_index(theirs, options=RunOptions(allow_deletes=True))
    return been


def import_and_die(root: str, theirs: str, end: int, kind: str = "lightrag") -> None:
    def die(number: int) -> None:
        if number == end:
            os.kill(os.getpid(), signal.SIGKILL)

    import_until(root, theirs, die, kind)


def state_of(folder: ProjectFolder) -> tuple[dict[str, str], list[str]]:
    lines = (folder.root / "corrections.jsonl").read_text("utf-8").splitlines()
    with folder.open() as project:
        return table_hashes(project, "lightrag"), sorted(lines)


@pytest.fixture(scope="module")
def eve(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """A project with an imported index."""
    folder = new_project(tmp_path_factory.mktemp("eve") / "p", postgres_url, {})
    with folder.open() as project:
        project.import_lightrag(INDEX)
    return folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index after a day of edits."""
    folder = Path(shutil.copytree(INDEX, tmp_path_factory.mktemp("theirs") / "rag_storage"))
    edit_graph(folder)
    return folder


@pytest.mark.parametrize("share", size([0.05, 0.5], [0.0, 0.03, 0.06, 0.1, 0.3, 0.5, 0.7, 0.9]))
def test_a_killed_import_goes_on(share: float, eve: ProjectFolder, theirs: Path, tmp_path: Path):
    undisturbed, killed = (eve.copy(tmp_path / name) for name in ("undisturbed", "killed"))
    number = import_until(str(undisturbed.root), str(theirs), lambda number: None)
    arguments = (str(killed.root), str(theirs), int(number * share))
    process = PROCESSES.Process(target=import_and_die, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    killed.edit_settings(workspace=workspace_of(killed.root))
    with killed.open() as project:
        project.import_lightrag(theirs)
        project.load("lightrag")
        assert project.verify("lightrag").problems == ()
    assert state_of(killed) == state_of(undisturbed)
    left = [path.name for path in (killed.root / "data").iterdir() if "partial" in path.name]
    assert not left


@pytest.mark.parametrize("share", size([0.3, 0.8], [0.0, 0.1, 0.3, 0.5, 0.7, 0.9]))
def test_a_killed_import_of_graphrag_goes_on(share: float, tmp_path: Path):
    theirs = str(write(tmp_path / "output", village(dict.fromkeys(range(30), "lit"))))
    undisturbed, killed = (
        new_project(tmp_path / name, NO_STORE) for name in ("undisturbed", "killed")
    )
    number = import_until(str(undisturbed.root), theirs, lambda number: None, "graphrag")
    arguments = (str(killed.root), theirs, int(number * share), "graphrag")
    process = PROCESSES.Process(target=import_and_die, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    with killed.open() as project:
        project.import_graphrag(theirs)
    assert tables_of(killed) == tables_of(undisturbed)


def test_three_nights_after_an_import_of_graphrag_equal_a_full_build(tmp_path: Path):
    folder = new_project(tmp_path / "nightly", NO_STORE)
    houses = dict.fromkeys(range(12), "lit")
    nights = [
        houses,
        houses | {3: "sold"},
        {house: deed for house, deed in houses.items() if house not in (0, 5)},
        houses | {3: "broke", 20: "found", 21: "lost"},
    ]
    for number, night in enumerate(nights):
        theirs = write(tmp_path / "output", village(night))
        full = new_project(tmp_path / f"full{number}", NO_STORE)
        for each in (folder, full):
            with each.open() as project:
                project.import_graphrag(theirs)
                reports = project.table("community_reports", "graphrag")
            assert len(reports) == len(night)
        assert tables_of(folder) == tables_of(full)


FIRST_FILES = {"kept.txt": "Otto Brun left Tessing Town.", "lamp.txt": "Ada Holm sold the Lamp."}
PEOPLE = ("Ada Holm", "Otto Brun", "Ida Vale", "Mira Quill")


def edit_files(files: dict[str, str], draw: Random) -> None:
    """Add, edit and delete two files; some have the names of documents of the index."""
    for name in draw.sample(["lamp.txt", "harbour.txt", "new.txt", "more.txt"], 2):
        if name in files and draw.random() < 0.5:
            del files[name]
        else:
            files[name] = f"{draw.choice(PEOPLE)} met {draw.choice(PEOPLE)} in Harrow Light."


@pytest.mark.parametrize("kind", ["lightrag", "graphrag"])
def test_an_index_that_was_imported_goes_on_for_nights(
    kind: str, theirs: Path, tmp_path: Path, postgres_url: str
):
    index, workflow = theirs, "lightrag"
    if kind == "graphrag":
        index, workflow = unpack(tmp_path / "graphrag"), "graphrag_cache"
    settings: dict[str, Any] = {"files": "fast"}
    if kind == "graphrag":
        settings["path"] = str(index)
    files = dict(FIRST_FILES)
    folder = new_project(tmp_path / "nightly", postgres_url, files, **{kind: settings})
    # Both imports write more than twice as many files.
    arguments = (str(folder.root), str(index), 20, kind)
    process = PROCESSES.Process(target=import_and_die, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    with folder.open() as project:
        import_index = getattr(project, f"import_{kind}")
        assert import_index(index).totals["calls"] == 0
        again = import_index(index)
        assert {step.action for step in again.steps} == {"reused"}
        project.load(workflow)
        assert project.verify(workflow).problems == ()
    draw = Random(35)
    for number in range(size(2, 10)):
        edit_files(files, draw)
        for path in (folder.root / "data" / "input").iterdir():
            path.unlink()
        for name, text in files.items():
            folder.write(name, text)
        with folder.open() as project:
            project.run(workflow, options=RunOptions(allow_deletes=True))
            assert project.verify(workflow).problems == ()
            after = table_hashes(project, workflow)
            if kind == "graphrag":
                assert len(project.table("community_reports", workflow))
                assert len(project.table("covariates", workflow))
        full = new_project(tmp_path / f"full{number}", NO_STORE, files, **{kind: settings})
        with full.open() as project:
            getattr(project, f"import_{kind}")(index)
            assert table_hashes(project, workflow) == after


def tables_of(folder: ProjectFolder) -> dict[str, str]:
    with folder.open() as project:
        return table_hashes(project, "graphrag")
