"""Files in ZIP archives: each is a document, and an archive is made for harm in vain."""

import errno
import io
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.documents import archives, input_files
from pipeline.errors import DeletionError, DiskFullError
from pipeline.verbs.load_documents import LoadParams, find_files, load_documents
from tests.engine.documents.test_unread import kept, night
from tests.projects import ProjectFolder, new_project

WORKFLOW = "name: short\nsteps:\n  - verb: load_documents\n  - verb: chunk_documents\n"
LETTERS = {f"letters/{number}.txt": f"Letter {number} from Quill Point." for number in range(8)}


def pack(path: Path, files: Mapping[str, str | bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def reasons_of(folder: Path, **params: object) -> tuple[list[str], dict[str, str]]:
    documents, rejects = load_documents(LoadParams.model_validate({"path": str(folder), **params}))
    reasons = dict(zip(rejects["row_id"], rejects["reason"], strict=True))
    return sorted(documents["source"]), reasons


def test_each_file_of_an_archive_is_read_by_its_kind(tmp_path: Path):
    pack(
        tmp_path / "a.ZIP",
        {
            "x/letter.txt": "A letter.",
            "cases.csv": "id,text\n1,One\n2,Two\n",
            "./page.html": "<h1>Lens</h1>",
            "__MACOSX/x/._letter.txt": "junk",
            "x/.hidden.txt": "hidden",
            "picture.png": b"\x89PNG",
        },
    )
    sources, reasons = reasons_of(tmp_path)
    assert sources == ["a.ZIP/cases.csv#1", "a.ZIP/cases.csv#2", "a.ZIP/page.html",
                       "a.ZIP/x/letter.txt"]  # fmt: skip
    assert reasons == {"a.ZIP/picture.png": "unsupported"}


def test_the_day_of_a_file_in_an_archive_may_be_its_date(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("letter.txt", (2024, 5, 3, 10, 0, 0)), "A letter.")
    documents, _ = load_documents(LoadParams(path=str(tmp_path), dates_from=("file_time",)))
    assert list(documents["date"]) == ["2024-05-03"]


def test_what_leads_out_of_an_archive_is_not_read(tmp_path: Path):
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in (
            "../up.txt",
            "/etc/passwd.txt",
            "x/../../up.txt",
            "C:\\up.txt",
            "..\\back.txt",
        ):
            archive.writestr(name, "Zyxomandrel")
        archive.writestr(link, "/etc/passwd")
        archive.writestr("x/fine.txt", "A letter.")
    sources, reasons = reasons_of(tmp_path)
    assert sources == ["a.zip/x/fine.txt"]
    assert len(reasons) == 6
    assert set(reasons.values()) == {"outside"}


def test_an_archive_with_a_directory_too_long_to_read_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pack(tmp_path / "a.zip", LETTERS)
    pack(tmp_path / "b.zip", {"letter.txt": "A letter."})
    monkeypatch.setattr(archives, "_LONGEST_DIRECTORY", 100)
    sources, reasons = reasons_of(tmp_path)
    assert sources == ["b.zip/letter.txt"]
    assert reasons == {"a.zip": "parse"}


def test_few_files_are_unpacked_at_once_and_only_kinds_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    module, temporary = sys.modules[load_documents.__module__], tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "in").mkdir()
    unpacked: list[list[str]] = []
    read = module.documents_of_file

    def watched(*arguments: object) -> object:
        unpacked.append(sorted(path.name for path in temporary.glob("*/*/*")))
        return read(*arguments)

    pack(tmp_path / "in/a.zip", {f"{n}.txt": f"Text {n}." for n in range(5)} | {"5.png": "x"})
    (tmp_path / "in/b.txt").write_text("B.")
    whole = load_documents(LoadParams(path=str(tmp_path / "in")))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(input_files, "_MOST_PACKED", 2)
    monkeypatch.setattr(module, "documents_of_file", watched)
    parts = load_documents(LoadParams(path=str(tmp_path / "in")))
    assert unpacked[::2] == [["0.txt", "1.txt"], ["2.txt", "3.txt"], ["4.txt"], []]
    assert all(now.equals(before) for now, before in zip(parts, whole, strict=True))
    assert len(parts[0]) == 6


def test_a_full_disk_where_files_are_unpacked_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    pack(tmp_path / "a.zip", {"a.txt": "A."})
    monkeypatch.setattr(input_files.shutil, "copyfileobj", fail)
    with pytest.raises(DiskFullError, match="make space"):
        load_documents(LoadParams(path=str(tmp_path)))


def encrypted(path: Path) -> None:
    """Write an archive whose directory says that its file is encrypted."""
    pack(path, {"secret.txt": "A letter."})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(content)


def damaged(path: Path) -> None:
    """Write an archive of two files, of which the content of the first is another than packed."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "A letter.")
        archive.writestr("b.txt", "Another one.")
    path.write_bytes(path.read_bytes().replace(b"A letter.", b"A litter."))


def twice(path: Path) -> None:
    """Write an archive of two files with one name."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "The first.")
        archive.writestr("a.txt", "The second.")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_archives_are_rejects_and_the_others_are_read(tmp_path: Path):
    zeros = b"0" * (3 * 2**20)
    pack(tmp_path / "bomb.zip", {"huge.txt": zeros, "fine.txt": "A letter."})
    pack(tmp_path / "bombs.zip", {f"{number}.txt": zeros[: 2**20] for number in range(110)})
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("self.zip", b"PK")
    pack(tmp_path / "cyclic.zip", {"self.zip": inner.getvalue()})
    pack(tmp_path / "none.zip", {})
    (tmp_path / "broken.zip").write_bytes(b"PK\3\4" + b"\0" * 100)
    (tmp_path / "empty.zip").touch()
    encrypted(tmp_path / "locked.zip")
    damaged(tmp_path / "one.zip")
    with zipfile.ZipFile(tmp_path / "rare.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.txt", "A letter.")
    twice(tmp_path / "twice.zip")
    sources, reasons = reasons_of(tmp_path, max_file_mb=2)
    assert sources == ["bomb.zip/fine.txt", "one.zip/b.txt", "twice.zip/a.txt"]
    assert reasons == {
        "bomb.zip/huge.txt": "too_large",
        "bombs.zip": "too_large",
        "broken.zip": "parse",
        "cyclic.zip/self.zip": "unsupported",
        "empty.zip": "parse",
        "locked.zip/secret.txt": "unreadable",
        "none.zip": "empty",
        "one.zip/a.txt": "parse",
        "rare.zip/a.txt": "unreadable",
        "twice.zip/a.txt": "duplicate_id",
    }


def test_an_edit_in_an_archive_changes_the_row_of_its_file_alone(tmp_path: Path):
    pack(tmp_path / "a.zip", LETTERS)
    params = LoadParams(path=str(tmp_path))
    before = find_files(params).set_index("name")["content"]
    pack(tmp_path / "a.zip", {**LETTERS, "letters/3.txt": "Another letter."})
    after = find_files(params).set_index("name")["content"]
    assert list(before.index) == list(after.index)
    assert list(after[after != before].index) == ["a.zip/letters/3.txt"]


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = new_project(tmp_path / "mill", "embedded", {"a.txt": "A letter."}, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    return folder


def test_nights_of_a_project_with_an_archive(folder: ProjectFolder):
    place = folder.root / "data/input/a.zip"
    pack(place, LETTERS)
    assert len(night(folder)[0]) == 9
    # One edited, one gone, one new.
    changed = {**LETTERS, "letters/3.txt": "Another letter.", "letters/9.txt": "A new letter."}
    del changed["letters/5.txt"]
    pack(place, changed)
    with folder.open() as project:
        changes = project.changed_documents("short")
    assert sorted(zip(changes["change"], changes["source"], strict=True)) == [
        ("edited", "a.zip/letters/3.txt"),
        ("gone", "a.zip/letters/5.txt"),
        ("new", "a.zip/letters/9.txt"),
    ]
    documents, rejects, code = night(folder)
    assert documents["a.zip/letters/3.txt"] == "Another letter."
    assert (len(documents), len(rejects), code) == (9, 0, 0)
    # A damaged archive keeps what it gave, also in the night after.
    whole = place.read_bytes()
    place.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        documents, rejects, _ = night(folder)
        assert len(documents) == 9
        assert len(kept(rejects)) == 8
    place.write_bytes(whole)
    assert kept(night(folder)[1]) == []
    # An archive that lost most of its files is a mass deletion.
    pack(place, {"letters/1.txt": LETTERS["letters/1.txt"]})
    folder.edit_settings(max_delete_ratio=0.3)
    with folder.open() as project, pytest.raises(DeletionError, match=r"a\.zip/letters/0\.txt"):
        project.index()


def test_a_purge_of_an_archive_takes_the_documents_of_its_files(folder: ProjectFolder):
    pack(folder.root / "data/input/a.zip", {"x/secret.txt": "Zyxomandrel."})
    assert len(night(folder)[0]) == 2
    refused = folder.invoke_refused("purge", "--document", "a.zip/x/secret.txt", "--yes")
    assert "still in a.zip; take x/secret.txt out of the archive" in refused
    assert folder.invoke("purge", "--document", "a.zip", "--yes").exit_code == 0
    assert list(night(folder)[0]) == ["a.txt"]
