"""Persons who were erased after a backup are erased from what is restored of it."""

import json
from pathlib import Path

import pytest

from pipeline.project import Project
from pipeline.purge.purged import LIST, PurgedDocuments
from tests.persons.test_subject import TEXTS
from tests.projects import ProjectFolder, new_project
from tests.purge.test_purge import found_in
from tests.states import postgres_rows

QUESTIONS = (
    '{"id": "1", "question": "Where is Anselm  TORR?"}\n{"id": "2", "question": "Who is Idra?"}\n'
)


@pytest.fixture(scope="module")
def erased(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """Return a project that erased two persons since its backup ``b.zip``.

    A document that names the first was kept. A correction renames each of them.
    """
    root = tmp_path_factory.mktemp("erased")
    folder = new_project(root / "mine", postgres_url, TEXTS)
    (folder.root / "data/questions.jsonl").write_text(QUESTIONS)
    with folder.open() as project:
        for name, other in (("Yrsa Quillon", "Yrsa Mell"), ("Anselm Torr", "Anselm Thorr")):
            project.add_correction({"kind": "rename", "entity": name, "to": other})
        project.run("fast")
        project.backup(root / "b.zip")
        project.erase_person("Yrsa Quillon", keep=["news.txt"])
        project.erase_person("Anselm Torr")
    return folder


def test_the_list_has_no_name(erased: ProjectFolder):
    text = (erased.root / LIST).read_text()
    assert len(json.loads(text)["persons"]) == 4
    assert not any(word in text.lower() for word in ("quillon", "mell", "torr", "thorr"))


def test_an_older_backup_is_restored_without_the_persons(
    erased: ProjectFolder, tmp_path: Path, postgres_url: str
):
    report = Project.restore(erased.root.parent / "b.zip", tmp_path / "copy", "erased-again")
    assert report.exit_code == 0, report.problems
    assert report.purged == ("cellar.txt", "mill.txt", "tower.txt")
    assert "2 corrections, 1 question of an evaluation" in report.notes[0]
    assert "deleted from the graph: 2 names" in report.notes[0]
    with Project.open(tmp_path / "copy") as copy:
        names = set(copy.table("entities", "fast")["name"])
        assert copy.find_person("Anselm Torr").is_empty
        left = copy.find_person("Yrsa Quillon")
        assert [one.source for one in left.documents] == ["news.txt"]
        assert {one["kind"] for one in left.corrections} == {"delete_entity"}
        assert not left.entities
        assert copy.verify("fast").agrees
        rows = postgres_rows(postgres_url, "erased-again")
        copy.cache.close()
    assert not names & {"Yrsa Quillon", "Yrsa Mell", "Anselm Torr", "Anselm Thorr"}
    assert "Idra Senn" in names
    assert "thorr" not in repr(rows).lower()
    assert found_in(tmp_path / "copy", "Thorr") == []
    assert (tmp_path / "copy/data/questions.jsonl").read_text() == QUESTIONS.splitlines(True)[1]


def test_a_restore_without_the_list_says_that_persons_are_back(
    erased: ProjectFolder, tmp_path: Path
):
    lost = erased.root.rename(erased.root.parent / "lost")
    try:
        done = erased.invoke(
            "restore", str(erased.root.parent / "b.zip"), str(tmp_path / "a"), "--workspace", "a-er"
        )
    finally:
        lost.rename(erased.root)
    assert "what was purged or erased after" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "is_named"),
    [
        ("王小明", "昨天王小明去了北京。", True),
        ("王明", "昨天王小明去了北京。", False),
        ("Zoë Quillon", "of ZOË QUILLON's house", True),
        ("Ann Lee", "Joann Lee", False),
    ],
)
def test_an_erased_name_is_found_by_hashes_as_it_is_by_its_letters(
    tmp_path: Path, name: str, text: str, is_named: bool
):
    purged = PurgedDocuments.of(tmp_path)
    purged.note("gone.txt")
    purged.note_names([name], deleted=True)
    purged.note_names([name], deleted=False)
    names = purged.erased_names()
    assert names.are_in(text) == is_named
    assert names.is_deleted(name.upper())
    assert not names.is_deleted(text)
    other = PurgedDocuments.of(tmp_path / "other")
    other.take_over(purged)
    assert other.erased_names().is_deleted(name)
    assert "gone.txt" in other.among(["gone.txt"])
