"""A project of one block of code: it works, and nothing of it is left behind."""

from pathlib import Path

import psutil
import pytest

from pipeline import Project

TEXT = "Osric Hale dredged the Tollen Quay in 1901."


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the processes that name the folder, such as its database's."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
    ]


def test_a_temporary_project_answers_and_leaves_neither_a_folder_nor_a_database():
    with Project.temporary() as project:
        project.add({"quay": TEXT})
        project.run()
        found = project.query_data("Who dredged the quay?", mode="naive")
        assert TEXT in str(found)
        root = project.root
        assert root.is_dir()
        assert processes_of(root)
    assert not root.exists()
    assert not processes_of(root)


def test_a_temporary_project_is_removed_when_its_block_fails():
    roots: list[Path] = []

    def fail() -> None:
        with Project.temporary() as project:
            roots.append(project.root)
            project.add(TEXT)
            # This starts the database.
            assert project.stores.all
            assert processes_of(project.root)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not roots[0].exists()
    assert not processes_of(roots[0])


def test_each_temporary_project_is_its_own():
    with Project.temporary() as first, Project.temporary() as second:
        first.add(TEXT)
        assert first.root != second.root
        assert [path.name for path in (second.root / "data/input").rglob("*.md")] == []
