"""Documents that were purged after a backup are purged from what is restored of it."""

import json
import os
from pathlib import Path

import pytest

from pipeline.backup.archive import open_backup
from pipeline.backup.restore import restore_files
from pipeline.errors import DataError, UsageError
from pipeline.project import Project
from pipeline.purge.purged import KEY, LIST, PurgedDocuments
from pipeline.runs.services import Services
from tests.projects import NO_STORE, ProjectFolder, new_project
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
    stores = found["verification"]["stores"]
    assert "workflow 'fast': counts and checksums agree with the tables; other" in stores
    assert found["verification"]["in_a_table"] is False
    assert CANARY not in text
    assert found["document_hash"] in json.loads((purged.root / LIST).read_text())["documents"]


def test_the_list_names_nothing_and_its_key_is_in_no_backup(purged: ProjectFolder):
    assert found_in(purged.root, CANARY) == []
    assert "secret.txt" not in (purged.root / LIST).read_text()
    assert os.stat(purged.root / KEY).st_mode & 0o077 == 0
    with open_backup(purged.root.parent / "later.zip") as later:
        assert later.manifest.workflow == "fast"
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


def test_a_folder_of_another_project_has_no_list(purged: ProjectFolder, tmp_path: Path):
    other = new_project(tmp_path / "other", NO_STORE)
    other.open().close()
    for wrong in (tmp_path, other.root):
        with pytest.raises(UsageError, match="not the folder of the project that was backed up"):
            Project.restore(purged.root.parent / "b.zip", tmp_path / "a", "wrong", purged=wrong)
    assert not (tmp_path / "a").exists()


def test_lists_with_the_same_key_are_merged(tmp_path: Path):
    lists = [PurgedDocuments.of(tmp_path / name) for name in ("mine", "copy")]
    mine, copy = lists
    mine.note("first.txt")
    copy.take_over(mine)
    mine.note("second.txt")
    copy.note("third.txt")
    mine.take_over(copy)
    assert set(mine.among(["first.txt", "second.txt", "third.txt"])) == {
        "first.txt", "second.txt", "third.txt",
    }  # fmt: skip


def test_a_certificate_that_cannot_be_written_is_refused_before_the_purge(tmp_path: Path):
    folder = new_project(tmp_path / "mine", NO_STORE, KEPT)
    file = tmp_path / "no-folder" / "certificate.json"
    done = folder.invoke("purge", "--document", "a.txt", "--yes", "--certificate", str(file))
    assert (done.exit_code, "there is no folder" in done.stderr) == (2, True)
    assert (folder.root / "data/input/a.txt").exists()


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


def test_a_list_without_its_key_allows_nothing_and_is_put_aside_by_a_restore(tmp_path: Path):
    folder = new_project(tmp_path / "mine", NO_STORE)
    purged = PurgedDocuments.of(folder.root)
    purged.note("gone.txt")
    with folder.open() as project:
        project.backup(tmp_path / "b.zip")
    purged.key.unlink()
    with pytest.raises(DataError, match="put your copy of the key there"):
        purged.among(["gone.txt"])
    with pytest.raises(DataError, match="put your copy of the key there"):
        purged.note("other.txt")
    assert not purged.key.exists()
    purged.list.unlink()
    restored = restore_files(tmp_path / "b.zip", tmp_path / "copy")
    assert "put aside as data/purged-without-key.json" in restored.notes[0]
    assert not (tmp_path / "copy" / LIST).exists()
    assert PurgedDocuments.of(tmp_path / "copy").among(["gone.txt"]) == {}


def test_nothing_of_the_original_outside_of_the_copy_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    live = tmp_path / "live"
    live.mkdir()
    for name, text in {**KEPT, "secret.txt": SECRET, "people.csv": PEOPLE}.items():
        (live / name).write_text(text)
    folder = new_project(
        tmp_path / "mine",
        NO_STORE,
        {},
        owner="team",
        output="../exports",
        input={"path": "../live"},
    )
    with folder.open() as project:
        project.index("fast")
        project.backup(tmp_path / "b.zip")
    outside = (live, tmp_path / "exports")
    before = {path: path.read_bytes() for place in outside for path in place.rglob("*.*")}
    for document in ("secret.txt", "people.csv#2"):
        PurgedDocuments.of(folder.root).note(document)
    monkeypatch.setattr(Services, "abandon_batches", lambda *_: pytest.fail("batches are touched"))
    restored = restore_files(tmp_path / "b.zip", tmp_path / "copy")
    assert restored.purged == ("people.csv#2", "secret.txt")
    assert {path: path.read_bytes() for path in before} == before
    assert found_in(tmp_path / "copy", CANARY) == []
    with Project.open(tmp_path / "copy") as copy:
        assert copy.settings.owner == ""
        assert sorted(copy.table("documents", "fast")["source"]) == [*KEPT, "people.csv#1"]
