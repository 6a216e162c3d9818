"""Documents that were purged after a backup are purged from what is restored of it."""

import json
import os
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.project import Project
from pipeline.purge.purged import KEY, LIST
from tests.projects import ProjectFolder, new_project
from tests.purge.test_purge import CANARY, KEPT, SECRET, found_in
from tests.verbs.graphrag_folders import version_3, write

PEOPLE = "id,text\n1,Idra Senn founded the Brack Institute.\n2,Mira Vale left the Zyxomandrel.\n"


@pytest.fixture(scope="module")
def purged(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """Return a project whose backup ``b.zip`` has a document and a record that it purged since."""
    root = tmp_path_factory.mktemp("purged")
    texts = {**KEPT, "secret.txt": SECRET, "people.csv": PEOPLE}
    folder = new_project(root / "mine", postgres_url, texts)
    with folder.open() as project:
        project.run("fast")
        project.backup(root / "b.zip")
        certificate = root / "certificate.json"
        done = folder.invoke(
            "purge", "--document", "secret.txt", "--yes", "--certificate", str(certificate)
        )
        assert done.exit_code == 0, done.stderr
        folder.write("people.csv", PEOPLE.replace("2,Mira", "3,Mira").replace(CANARY, "mill"))
        project.run("fast")
        project.purge("people.csv#2")
        project.backup(root / "later.zip")
    return folder


def test_a_certificate_says_what_was_removed_and_has_no_content(purged: ProjectFolder):
    text = (purged.root.parent / "certificate.json").read_text()
    found = json.loads(text)
    assert found["document"] == "secret.txt"
    assert found["removed"]["file"]
    assert found["removed"]["rows_of_tables"]["fast"]["documents"] == 1
    assert found["verification"]["stores"] == "agree with the tables"
    assert not found["verification"]["in_a_table"]
    assert CANARY not in text
    assert found["document_hash"] in json.loads((purged.root / LIST).read_text())["documents"]


def test_the_list_names_nothing_and_its_key_is_in_no_backup(purged: ProjectFolder):
    assert found_in(purged.root, CANARY) == []
    assert "secret.txt" not in (purged.root / LIST).read_text()
    assert os.stat(purged.root / KEY).st_mode & 0o077 == 0
    content = (purged.root.parent / "later.zip").read_bytes()
    assert (LIST.encode() in content, KEY.encode() in content) == (True, False)


def test_an_older_backup_is_restored_without_them(purged: ProjectFolder, tmp_path: Path):
    report = Project.restore(purged.root.parent / "b.zip", tmp_path / "copy", "purged-again")
    assert report.purged == ("people.csv#2", "secret.txt")
    assert report.exit_code == 0, report.problems
    assert "people.csv is left out, for it has people.csv#2" in report.notes[0]
    assert found_in(tmp_path / "copy", CANARY) == []
    with Project.open(tmp_path / "copy") as copy:
        assert sorted(copy.table("documents", "fast")["source"]) == [*KEPT, "people.csv#1"]
        assert copy.verify("fast").agrees


def test_a_copy_of_the_list_serves_where_the_project_is_lost(purged: ProjectFolder, tmp_path: Path):
    file, saved = purged.root.parent / "b.zip", tmp_path / "saved"
    saved.mkdir()
    for name in (LIST, KEY):
        (saved / Path(name).name).write_bytes((purged.root / name).read_bytes())
    lost = purged.root.rename(purged.root.parent / "lost")
    try:
        done = purged.invoke("restore", str(file), str(tmp_path / "a"), "--workspace", "a-list")
        assert "is not known here, so it is back; restore with --purged" in done.stderr
        assert (tmp_path / "a/data/input/secret.txt").exists()
        listed = ["--workspace", "b-list", "--purged", str(saved / "purged.json")]
        done = purged.invoke("restore", str(file), str(tmp_path / "b"), *listed)
        assert "purged again: secret.txt" in done.stdout
        assert found_in(tmp_path / "b", CANARY) == []
        (saved / "purged-key").unlink()
        done = purged.invoke("restore", str(file), str(tmp_path / "c"), *listed)
        assert (done.exit_code, "purged-key: no such file" in done.stderr) == (2, True)
        assert not (tmp_path / "c").exists()
    finally:
        lost.rename(purged.root)


def test_an_import_does_not_bring_them_back(purged: ProjectFolder, tmp_path: Path):
    tables = version_3()
    tables["documents"][0]["title"] = "secret.txt"
    theirs = write(tmp_path / "index", tables)
    with purged.open() as project:
        with pytest.raises(UsageError, match=r"it would bring back what was purged: secret\.txt"):
            project.import_graphrag(theirs)
        assert "graphrag" not in project.snapshots.workflows()
        tables["documents"][0]["title"] = "lamp.txt"
        assert project.import_graphrag(write(tmp_path / "other", tables)).exit_code == 0
