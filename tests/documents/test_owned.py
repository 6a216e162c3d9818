"""Documents that the project itself writes: names of files, front matter, and what is refused."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.documents.front_matter import split_front_matter
from pipeline.documents.owned import LONGEST_ID, OwnFolder, refuse_twice
from pipeline.errors import UsageError

NESTED: dict[str, Any] = {}
for _ in range(600):
    NESTED = {"a": NESTED}


@pytest.fixture
def folder(tmp_path: Path) -> OwnFolder:
    return OwnFolder(tmp_path / "input", "posted", {".md", ".txt", ".pdf", ".json"})


@pytest.mark.parametrize(
    "id",
    [
        "../escape", "a/b", "/etc/passwd", "..", ".hidden", "~$lock", "a\x00b", "a\nb", "a#1",
        "a:1", "a\\b", "-", " ", "x" * (LONGEST_ID + 1), "a.", "a ", "\ud800",
        "x" * (LONGEST_ID - 2),
    ],
)  # fmt: skip
def test_an_id_that_is_no_plain_name_is_refused_and_nothing_is_written(folder: OwnFolder, id: str):
    with pytest.raises(UsageError, match=r"^id: "):
        folder.text("text", id=id)
    with pytest.raises(UsageError, match=r"^id: "):
        folder.file(f"{id}/x.pdf" if id in ("-", " ") else id, b"")
    assert not folder.path.exists()


@pytest.mark.parametrize(
    "metadata",
    [
        {"year": 1871, "open": True, "tags": ["a: b", "- c"], "none": None, "price": 1.5},
        {"day": "2024-05-03", "yes": "yes", "number": "007", "lines": "a\nb\n", "long": "w " * 900},
        {"---": "---", "quote": "'\"", "emoji": "灯塔 🗼", "nested": {"a": [{"b": 1}]}},
    ],
)
def test_front_matter_gives_the_metadata_and_the_text_as_they_were(
    folder: OwnFolder, metadata: dict[str, Any]
):
    text = "---\nno: front matter of ours\n---\nA text."
    written = folder.text(text, "note", "A: title", metadata)
    fields, body = split_front_matter(written.content.decode())
    assert fields == {**metadata, "title": "A: title"}
    assert body == f"{text}\n"
    assert written.id == "note.md"


@pytest.mark.parametrize(
    "metadata",
    [{"a": "x" * 20_000}, NESTED, {"deep": [[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]}],
)
def test_metadata_that_front_matter_cannot_hold_is_refused(
    folder: OwnFolder, metadata: dict[str, Any]
):
    with pytest.raises(UsageError, match=r"^metadata: "):
        folder.text("text", "a", metadata=metadata)


def test_a_text_with_front_matter_of_its_own_is_refused(folder: OwnFolder):
    with pytest.raises(UsageError, match=r"^text: begins with front matter"):
        folder.text("---\nrole: admin\n---\nA text.")
    assert folder.text("---\nA text.").content == b"---\nA text.\n"


def test_a_byte_order_mark_hides_no_front_matter(folder: OwnFolder):
    with pytest.raises(UsageError, match=r"^text: begins with front matter"):
        folder.text("\ufeff\n\ufeff---\nrole: admin\n---\nA text.")
    assert folder.text("\ufeffA text.").content == b"A text.\n"


def test_different_texts_of_one_id_are_refused(folder: OwnFolder):
    one = folder.text("One text.", "note")
    refuse_twice([one, folder.text("One text.", "note.md"), folder.text("Another.", "other")])
    for id in ("note.md", "NOTE"):
        with pytest.raises(UsageError, match="is there twice; send each once"):
            refuse_twice([one, folder.text("Another text.", id)])


@pytest.fixture
def folding(folder: OwnFolder, monkeypatch: pytest.MonkeyPatch) -> OwnFolder:
    """A folder with the document quay.md, on a file system that tells no upper case from lower."""
    folder.write(folder.text("The quay.", "quay"))
    written = folder.path / "quay.md"
    listed = os.listdir(folder.path)
    for spelling in ("Quay.md", "qUAY.MD", "QUAY.MD"):
        # A second name of one file stands for a second spelling of its name.
        os.link(written, folder.path / spelling)
    monkeypatch.setattr(os, "listdir", lambda path: listed)
    return folder


def test_a_document_is_not_overwritten_by_one_whose_id_differs_in_case_alone(folding: OwnFolder):
    with pytest.raises(UsageError, match=r"^id: 'Quay\.md' would overwrite 'quay\.md': .* id$"):
        folding.text("Another quay.", "Quay")
    with pytest.raises(UsageError, match=r"^file: 'Quay\.md' would overwrite 'quay\.md'"):
        folding.file("Quay.md", b"Another quay.")
    assert folding.find("Quay") is None
    assert not folding.remove("Quay")
    assert folding.find("quay")
    assert folding.write(folding.text("The quay, edited.", "quay"))


def test_ids_that_differ_in_case_alone_are_two_documents_where_the_file_system_tells_them_apart(
    folder: OwnFolder,
):
    for id in ("quay", "Quay"):
        folder.write(folder.text(f"The text of {id}.", id))
    assert [one.id for one in folder.kept()] == ["Quay.md", "quay.md"]


def test_a_document_that_no_run_would_read_is_refused(folder: OwnFolder):
    folder = replace(folder, find_pattern=lambda: "**/*.md")
    assert folder.text("A text.", "note").id == "note.md"
    with pytest.raises(UsageError, match=r"'posted/note\.txt' does not match .*'\*\*/\*\.md'"):
        folder.text("A text.", "note.txt")
    with pytest.raises(UsageError, match=r"^file: .*input\.file_pattern"):
        folder.file("scan.pdf", b"")


def test_texts_are_written_in_the_encoding_in_which_runs_read_them(folder: OwnFolder):
    folder = replace(folder, encoding="cp1252")
    assert folder.text("café").content == "café\n".encode("cp1252")
    with pytest.raises(UsageError, match=r"input\.encoding \(cp1252\)"):
        folder.text("灯塔")


def test_lists_of_a_slack_export_are_no_documents(folder: OwnFolder):
    for name in ("users.json", "channels.json"):
        with pytest.raises(UsageError, match="Slack"):
            folder.file(name, b"[]")


def test_a_folder_that_is_not_mounted_any_more_takes_nothing(folder: OwnFolder):
    with pytest.raises(UsageError, match="not mounted"):
        replace(folder, was_mounted=True).write(folder.text("text"))
    assert not folder.path.exists()


def test_a_document_that_another_request_deletes_meanwhile_is_gone(
    folder: OwnFolder, monkeypatch: pytest.MonkeyPatch
):
    folder.write(folder.text("text", "a"))
    (folder.path / "a.md").unlink()
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    monkeypatch.setattr(Path, "iterdir", lambda path: iter([path / "a.md"]))
    assert not folder.remove("a")
    assert folder.find("a") is None
    assert folder.kept() == []
    assert folder.write(folder.text("text", "a"))


def test_files_that_were_never_finished_are_deleted_after_a_day(folder: OwnFolder):
    folder.write(folder.text("text", "a"))
    old, young = folder.path / ".1-a.partial", folder.path / ".1-b.partial"
    for path in (old, young):
        path.touch()
    os.utime(old, (0, 0))
    folder.write(folder.text("text", "b"))
    assert (old.exists(), young.exists()) == (False, True)


def test_a_text_without_an_id_has_one_of_its_content(folder: OwnFolder):
    first, same, other = (folder.text(text) for text in ("one", "one", "two"))
    assert first == same
    assert first.id != other.id


def test_an_equal_document_is_not_written_again(folder: OwnFolder):
    document = folder.text("text", "a")
    assert folder.write(document)
    before = folder.find("a")
    assert not folder.write(document)
    assert folder.find("a.md") == before
    assert [one.id for one in folder.kept()] == ["a.md"]
    assert folder.remove("a")
    assert not folder.remove("a")
    assert folder.kept() == []


def test_a_file_of_a_kind_that_is_not_read_is_refused(folder: OwnFolder):
    with pytest.raises(UsageError, match="its kind is not read"):
        folder.file("program.exe", b"")
    with pytest.raises(UsageError, match="names a file of another kind"):
        folder.text("text", "a.pdf")
    assert folder.file("Annual report (2024).PDF", b"x").id == "Annual report (2024).PDF"
