"""Only what is gone is deleted: what is there and cannot be read keeps the documents of the last run."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from pipeline.errors import DataError, UsageError
from pipeline.registry import REGISTRY
from tests.projects import ProjectFolder, new_project

WORKFLOW = "name: short\nsteps:\n  - verb: load_documents\n  - verb: chunk_documents\n"
ROWS = [f'{number},Case {number},"Text of case {number}, heard in May."' for number in range(1, 41)]
CSV = "\n".join(["id,title,text", *ROWS]) + "\n"
JSON = '[{"id": "a", "text": "One."}, {"id": "b", "text": "Two."}, {"id": "c", "text": "Three."}]'


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    documents = {"cases.csv": CSV, "list.json": JSON, "letter.txt": "A letter.", "share/far.txt": "From afar."}
    folder = new_project(tmp_path / "mill", "embedded", documents, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    night(folder)
    return folder


def night(folder: ProjectFolder) -> tuple[dict[str, str], pd.DataFrame, int]:
    """Source -> text of the documents, the rejects, and the exit code."""
    with folder.open() as project:
        code = project.index().exit_code
        documents, rejects = project.table("documents"), project.table("rejects")
        return dict(zip(documents["source"], documents["text"], strict=True)), rejects, code


def kept(rejects: pd.DataFrame) -> list[str]:
    return rejects.loc[rejects["reason"] == "kept_unread", "row_id"].tolist()


def test_a_badly_quoted_cell_loses_its_row_only_and_that_is_kept(folder: ProjectFolder):
    bad = '30,Case 30,"The judge said "no" to it"'
    folder.write("cases.csv", CSV.replace(ROWS[29], bad).replace(ROWS[34], '35,Case 35,"Heard anew."'))
    documents, rejects, code = night(folder)
    assert len(documents) == 45
    assert documents["cases.csv#30"] == "Text of case 30, heard in May."
    assert documents["cases.csv#35"] == "Heard anew."
    assert (kept(rejects), code) == (["cases.csv#30"], 0)
    assert "cases.csv:31" in rejects["row_id"].tolist()
    assert kept(night(folder)[1]) == ["cases.csv#30"]
    folder.write("cases.csv", "\n".join(["id,title,text", *ROWS[:29], *ROWS[30:]]) + "\n")
    documents, rejects, _ = night(folder)
    assert (len(documents), len(rejects)) == (44, 0)


def test_a_truncated_array_gives_what_stands_before_the_break(folder: ProjectFolder):
    folder.write("list.json", JSON.replace("One.", "Uno.")[: JSON.index('"c"')])
    documents, rejects, _ = night(folder)
    assert [documents[f"list.json#{key}"] for key in "abc"] == ["Uno.", "Two.", "Three."]
    assert kept(rejects) == ["list.json#c"]


def test_an_emptied_file_keeps_its_document_and_a_deleted_one_does_not(folder: ProjectFolder):
    folder.write("letter.txt", "")
    documents, rejects, _ = night(folder)
    assert (documents["letter.txt"], kept(rejects)) == ("A letter.", ["letter.txt"])
    (folder.root / "data" / "input" / "letter.txt").unlink()
    documents, rejects, _ = night(folder)
    assert "letter.txt" not in documents
    assert rejects.empty


def failing(of: str, real: Callable[..., object]) -> Callable[..., object]:
    def fail(path: os.PathLike[str] | str = ".") -> object:
        if os.fspath(path).endswith(of):
            raise OSError(errno.EIO, os.strerror(errno.EIO), os.fspath(path))
        return real(path)

    return fail


def test_a_folder_whose_listing_fails_deletes_nothing(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", failing("share", os.scandir))
        documents, rejects, _ = night(folder)
        assert documents["share/far.txt"] == "From afar."
        assert dict(zip(rejects["row_id"], rejects["reason"], strict=True)) == {
            "share": "io_error",
            "share/far.txt": "kept_unread",
        }
    documents, rejects, _ = night(folder)
    assert documents["share/far.txt"] == "From afar."
    assert rejects.empty


def test_too_much_that_could_be_read_before_is_exit_code_3_every_night(folder: ProjectFolder):
    folder.write("cases.csv", "id,title,body\n1,a,b\n")
    assert [night(folder)[2] for _ in range(2)] == [3, 3]


def test_what_is_no_input_counts_for_nothing(folder: ProjectFolder):
    for name in ("a.png", "b.png", "c.zip", "~$letter.docx", "old.txt~", "nothing.txt", "d.exe", "e.exe"):
        (folder.root / "data" / "input" / name).write_bytes(b"" if name == "nothing.txt" else b"\x89")
    (folder.root / "data" / "input" / "cases.csv").unlink()
    with folder.open("max_delete_ratio=1") as project:
        report = project.index()
        assert set(project.table("rejects")["kind"]) == {"skipped"}
    assert (report.exit_code, report.totals["rejects"]) == (0, 0)
    assert report.totals["not_read"] == {"exe": 2, "lock_file": 2, "png": 2, "empty": 1, "zip": 1}


def test_what_was_written_to_while_it_was_read_is_read_again(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch):
    """Also where it is put back before anybody looks again."""
    letter = folder.root / "data" / "input" / "letter.txt"
    letter.write_text("A second letter.")
    verb = REGISTRY.verbs["load_documents"]
    readings = []

    def read(params: object) -> object:
        readings.append(1)
        if len(readings) == 1:
            letter.write_text("Half of a let")
        result = verb.function(params=params)
        letter.write_text("A second letter.") if len(readings) == 1 else None
        return result

    monkeypatch.setitem(REGISTRY.verbs, "load_documents", replace(verb, function=read))
    assert night(folder)[0]["letter.txt"] == "A second letter."
    assert len(readings) == 2


def test_a_plan_of_an_empty_input_says_so(tmp_path: Path):
    folder = new_project(tmp_path / "empty", "embedded", {}, workflow="fast")
    with folder.open() as project, pytest.raises(DataError, match=r"no documents \(no files\)"):
        project.forecast()


def test_another_workflows_record_is_not_reused_where_it_lacks_what_would_be_kept(folder: ProjectFolder):
    (folder.root / "workflows" / "other.yaml").write_text(WORKFLOW.replace("short", "other"))
    folder.write("letter.txt", "")
    with folder.open() as project:
        project.index("other")
        assert "letter.txt" not in project.table("documents", "other")["source"].tolist()
    assert night(folder)[0]["letter.txt"] == "A letter."


def test_a_kept_document_that_is_purged_does_not_come_back(folder: ProjectFolder):
    folder.write("letter.txt", "")
    folder.write("list.json", JSON[: JSON.index('"c"')])
    assert kept(night(folder)[1]) == ["letter.txt", "list.json#c"]
    with folder.open() as project:
        project.purge("letter.txt")
    documents, rejects, _ = night(folder)
    assert "letter.txt" not in documents
    assert kept(rejects) == ["list.json#c"]


def test_a_record_is_not_purged_while_its_file_may_have_it(folder: ProjectFolder):
    """In a row that cannot be read it would be certified as gone, and come back once the row is mended."""
    folder.write("cases.csv", CSV.replace(ROWS[29], '30,Case 30,"The judge said "no" to it"'))
    before = night(folder)[0]
    with folder.open() as project, pytest.raises(UsageError, match=r"cases\.csv was not read whole, and may have it"):
        project.purge("cases.csv#30")
    assert night(folder)[0] == before
    folder.write("cases.csv", CSV.replace(ROWS[29] + "\n", ""))
    with folder.open() as project:
        assert project.purge("cases.csv#30").exit_code == 0
    assert "cases.csv#30" not in night(folder)[0]
