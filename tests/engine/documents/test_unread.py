"""Only documents that are gone are deleted: unreadable ones are kept as the last run had them."""

import errno
import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline.verbs  # noqa: F401  (registers the verbs)
from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import DOCUMENTS, REJECTS
from pipeline.engine.documents.kept_documents import with_kept
from pipeline.engine.run_options import RunOptions
from pipeline.engine.workflow import Step
from pipeline.errors import DataError, UsageError
from pipeline.snapshots.store import Manifest, SnapshotStore, StepRecord
from tests.engine.readings import watched
from tests.projects import ProjectFolder, new_project
from tests.sizes import size
from tests.verbs.graphrag_folders import version_3, write

WORKFLOW = "name: short\nsteps:\n  - verb: load_documents\n  - verb: chunk_documents\n"
ROWS = [f'{number},Case {number},"Text of case {number}, heard in May."' for number in range(1, 41)]
CSV = "\n".join(["id,title,text", *ROWS]) + "\n"
JSON = '[{"id": "a", "text": "One."}, {"id": "b", "text": "Two."}, {"id": "c", "text": "Three."}]'


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    documents = {
        "cases.csv": CSV,
        "list.json": JSON,
        "letter.txt": "A letter.",
        "share/far.txt": "From afar.",
    }
    folder = new_project(tmp_path / "mill", "embedded", documents, workflow="short")
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    night(folder)
    return folder


def night(
    folder: ProjectFolder, options: RunOptions = RunOptions()
) -> tuple[dict[str, str], pd.DataFrame, int]:
    """Return the text of each document by source, the rejects, and the exit code."""
    with folder.open() as project:
        code = project.index(options=options).exit_code
        documents, rejects = project.table("documents"), project.table("rejects")
        return dict(zip(documents["source"], documents["text"], strict=True)), rejects, code


def kept(rejects: pd.DataFrame) -> list[str]:
    return rejects.loc[rejects["reason"] == "kept_unread", "row_id"].tolist()


def test_a_badly_quoted_cell_loses_its_row_only_and_that_is_kept(folder: ProjectFolder):
    bad = '30,Case 30,"The judge said "no" to it"'
    folder.write(
        "cases.csv", CSV.replace(ROWS[29], bad).replace(ROWS[34], '35,Case 35,"Heard anew."')
    )
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


def test_an_unreadable_document_is_kept_by_the_first_run_of_another_workflow(folder: ProjectFolder):
    """Its first run is compared with the newest of the others', whose documents the stores may
    show."""
    for name in ("other", "third"):
        (folder.root / "workflows" / f"{name}.yaml").write_text(WORKFLOW.replace("short", name))
    with folder.open() as project:
        project.index("other")
    folder.write("new.txt", "A new letter.")
    documents = night(folder)[0]
    folder.write("cases.csv", CSV.replace(ROWS[29], '30,Case 30,"The judge said "no" to it"'))
    folder.write("new.txt", "")
    with folder.open() as project:
        assert project.changed_documents("third").empty
        report = project.index("third")
        assert report.documents == {"new": 0, "edited": 0, "gone": 0, "all": len(documents)}
        assert kept(project.table("rejects", "third")) == ["cases.csv#30", "new.txt"]


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


def test_a_folder_whose_listing_fails_deletes_nothing(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
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


def test_files_that_are_no_input_are_no_losses(folder: ProjectFolder):
    for name in (
        "a.png",
        "b.png",
        "c.rar",
        "~$letter.docx",
        "old.txt~",
        "nothing.txt",
        "d.exe",
        "e.exe",
    ):
        (folder.root / "data" / "input" / name).write_bytes(
            b"" if name == "nothing.txt" else b"\x89"
        )
    (folder.root / "data" / "input" / "cases.csv").unlink()
    with folder.open("max_delete_ratio=1") as project:
        report = project.index()
        assert set(project.table("rejects")["kind"]) == {"skipped"}
    assert (report.exit_code, report.totals["rejects"]) == (0, 0)
    assert report.totals["not_read"] == {"exe": 2, "lock_file": 2, "png": 2, "empty": 1, "rar": 1}


def test_a_file_that_is_written_to_while_it_is_read_is_read_again(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    """A file is read again even if its content is restored before the next check."""
    letter = folder.root / "data" / "input" / "letter.txt"
    letter.write_text("A second letter.")
    texts = iter(["Half of a let", "A second letter."])

    def write() -> None:
        if text := next(texts, ""):
            letter.write_text(text)

    readings = watched(monkeypatch, before=write, after=write)
    assert night(folder)[0]["letter.txt"] == "A second letter."
    assert len(readings) == 2


def test_a_plan_of_an_empty_input_says_so(tmp_path: Path):
    folder = new_project(tmp_path / "empty", "embedded", {}, workflow="fast")
    with folder.open() as project, pytest.raises(DataError, match=r"no documents \(no files\)"):
        project.forecast()


def test_another_workflows_record_is_not_reused_where_it_lacks_what_would_be_kept(
    folder: ProjectFolder,
):
    (folder.root / "workflows" / "other.yaml").write_text(WORKFLOW.replace("short", "other"))
    folder.write("late.txt", "")
    with folder.open() as project:
        project.index("other")
        assert "late.txt" not in project.table("documents", "other")["source"].tolist()
    folder.write("late.txt", "A late letter.")
    night(folder)
    folder.write("late.txt", "")
    assert night(folder)[0]["late.txt"] == "A late letter."


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
    """In a row that cannot be read it would be certified as gone, and come back once the row is
    mended."""
    folder.write("cases.csv", CSV.replace(ROWS[29], '30,Case 30,"The judge said "no" to it"'))
    before = night(folder)[0]
    with (
        folder.open() as project,
        pytest.raises(UsageError, match=r"cases\.csv was not read whole, and may have it"),
    ):
        project.purge("cases.csv#30")
    assert night(folder)[0] == before
    folder.write("cases.csv", CSV.replace(ROWS[29] + "\n", ""))
    with folder.open() as project:
        assert project.purge("cases.csv#30").exit_code == 0
    assert "cases.csv#30" not in night(folder)[0]


def test_a_file_that_fails_while_it_is_read_is_kept_and_read_again(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    folder.write("letter.txt", "A second letter.")
    with monkeypatch.context() as patch:
        real = Path.read_bytes
        patch.setattr(Path, "read_bytes", failing("letter.txt", real))
        documents, rejects, _ = night(folder)
    assert documents["letter.txt"] == "A letter."
    assert sorted(rejects["reason"]) == ["io_error", "kept_unread"]
    documents, rejects, _ = night(folder)
    assert (documents["letter.txt"], len(rejects)) == ("A second letter.", 0)


def test_a_step_whose_stamp_is_unknown_is_not_reused(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    real = hashlib.file_digest

    def fail(stream: Any, algorithm: str) -> object:
        if stream.name.endswith("letter.txt"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(stream, algorithm)

    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", fail)
        night(folder)
        folder.write("letter.txt", "A second letter.")
        assert night(folder)[0]["letter.txt"] == "A second letter."
        with folder.open() as project:
            assert project.forecast()[0].planned.reason == "retry"
    with folder.open() as project:
        assert [step.action for step in project.index().steps] == ["ran", "reused"]
        assert {step.action for step in project.index().steps} == {"reused"}


def test_a_mount_that_disappears_deletes_nothing(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
):
    share = folder.root / "data" / "input" / "share"
    mounted = {str(share)}
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in mounted)
    night(folder)
    with folder.open() as project:
        assert project.index().steps[0].action == "reused"
    far = (share / "far.txt").read_bytes()
    (share / "far.txt").unlink()
    mounted.clear()
    for _ in range(2):
        documents, rejects, _ = night(folder)
        assert documents["share/far.txt"] == "From afar."
        assert dict(zip(rejects["row_id"], rejects["reason"], strict=True)) == {
            "share": "unmounted",
            "share/far.txt": "kept_unread",
        }
    with folder.open() as project:
        assert project.changed_documents().empty
        with pytest.raises(UsageError, match="share was not read whole, and may have it still"):
            project.purge("share/far.txt")
    (folder.root / "workflows" / "other.yaml").write_text(WORKFLOW.replace("short", "other"))
    with folder.open() as project:
        assert project.index("other").documents == {"new": 0, "edited": 0, "gone": 0, "all": 45}
    mounted.add(str(share))
    (share / "far.txt").write_bytes(far)
    documents, rejects, _ = night(folder)
    assert (documents["share/far.txt"], len(rejects)) == ("From afar.", 0)
    (share / "far.txt").unlink()
    mounted.clear()
    share.rmdir()
    documents, rejects, _ = night(folder)
    assert ("share/far.txt" in documents, len(rejects)) == (False, 0)


@pytest.mark.parametrize("failed", ["share", "input"])
def test_a_mount_that_disappears_after_a_night_that_could_not_list_it_deletes_nothing(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, failed: str
):
    """It, or the folder that it is in."""
    share = folder.root / "data" / "input" / "share"
    mounted = {str(share)}
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in mounted)
    night(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", failing(failed, os.scandir))
        assert night(folder)[0]["share/far.txt"] == "From afar."
    (share / "far.txt").unlink()
    mounted.clear()
    documents, rejects, _ = night(folder)
    assert documents["share/far.txt"] == "From afar."
    assert rejects["reason"].tolist() == ["unmounted", "kept_unread"]


def test_a_folder_that_was_no_mount_point_and_is_emptied_is_a_deletion(folder: ProjectFolder):
    (folder.root / "data" / "input" / "share" / "far.txt").unlink()
    documents, rejects, _ = night(folder)
    assert ("share/far.txt" in documents, len(rejects)) == (False, 0)


OWN = """
from pathlib import Path

import pandas as pd

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS, REJECTS


class WikiParams(Params):
    path: str


def content(params: WikiParams) -> str:
    return Path(params.path).read_text()


@verb(inputs={}, outputs={"documents": DOCUMENTS, "rejects": REJECTS}, stamp=content)
def load_wiki(params: WikiParams) -> tuple[pd.DataFrame, pd.DataFrame]:
    '''Pages of a list; one that ends in ... was cut off.'''
    pages = [line for line in content(params).splitlines() if not line.endswith("...")]
    cut = [line[:-3] for line in content(params).splitlines() if line.endswith("...")]
    rest = {"metadata": "{}", "content_hash": ""}
    rows = [{"id": page, "title": page, "text": page, "source": f"wiki/{page}", **rest} for page in pages]
    told = {"step": "", "kind": "source", "reason": "in_part", "message": "cut off"}
    rejects = [{**told, "row_id": f"wiki/{page}"} for page in cut]
    return DOCUMENTS.frame(rows), REJECTS.frame(rejects)
"""  # noqa: E501


def test_a_source_of_ones_own_rejects_what_it_has_not_read(tmp_path: Path):
    folder = new_project(tmp_path / "mill", "embedded", {}, workflow="wiki")
    pages = folder.root / "pages.txt"
    (folder.root / "own.py").write_text(OWN)
    folder.edit_settings(verbs=["own.py"])
    (folder.root / "workflows" / "wiki.yaml").write_text(
        f"name: wiki\nsteps:\n  - verb: load_wiki\n    args: {{path: {pages}}}\n  - verb:"
        " chunk_documents\n"
    )
    pages.write_text("Quill\nHarrow\nTollen\n")
    assert len(night(folder)[0]) == 3
    pages.write_text("Quill...\nHarrow\n")
    documents, rejects, _ = night(folder)
    assert sorted(documents) == ["wiki/Harrow", "wiki/Quill"]
    assert kept(rejects) == ["wiki/Quill"]


def test_a_graphrag_folder_that_is_written_to_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its stamp tells by itself whether it was."""
    folder = new_project(tmp_path / "mill", "embedded", {}, workflow="graphrag")
    there = tmp_path / "there"
    write(there, version_3())
    verb = REGISTRY.verbs["read_graphrag"]
    readings = []

    def read(**roles: object) -> object:
        readings.append(1)
        result = verb.function(**roles)
        if len(readings) == 1:
            tables = version_3()
            tables["documents"][0]["title"] = "lamp-2.txt"
            write(there, tables)
        return result

    monkeypatch.setitem(REGISTRY.verbs, "read_graphrag", replace(verb, function=read))
    with folder.open() as project:
        report = project.import_graphrag(there)
        assert project.table("documents", "graphrag")["title"].tolist() == ["lamp-2.txt"]
        assert (len(readings), report.steps[0].action) == (2, "ran")
        assert project.import_graphrag(there).steps[0].action == "reused"


FILES = ("a.csv", "b.csv", "far/c.csv")
SOURCES = st.sets(st.sampled_from([f"{file}#{number}" for file in FILES for number in range(3)]))
NAMES = st.sets(st.sampled_from([*FILES, "far", "."]))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Step, SnapshotStore]:
    with new_project(
        tmp_path_factory.mktemp("mill"), "embedded", {}, workflow="fast"
    ).open() as project:
        return project.workflow("fast").steps[0], project.snapshots


@settings(max_examples=size(10, 40), deadline=None)
@given(before=SOURCES, now=SOURCES, named=NAMES)
def test_keeping_documents_twice_changes_nothing(
    source: tuple[Step, SnapshotStore], before: set[str], now: set[str], named: set[str]
):
    step, snapshots = source

    def table(sources: set[str]) -> pd.DataFrame:
        rest: dict[str, Any] = {**dict.fromkeys(DOCUMENTS.columns, ""), "aliases": ()}
        return DOCUMENTS.frame(
            [{**rest, "id": source, "source": source} for source in sorted(sources)]
        )

    told = [
        {"step": "", "row_id": name, "kind": "source", "reason": "in_part", "message": ""}
        for name in named
    ]
    read = {"documents": table(now), "rejects": REJECTS.frame(told)}

    def after(documents: pd.DataFrame) -> dict[str, pd.DataFrame]:
        last = snapshots.tables.write("documents", DOCUMENTS.encode(documents, "documents"))
        return with_kept(
            step,
            read,
            Manifest("fast", {}, {step.id: StepRecord(step.id, "", {}, {"documents": last})}),
            snapshots,
        )

    once = after(table(before))
    sources = set(once["documents"]["source"])
    assert now <= sources <= now | before
    assert {
        source for source in before - now if source.startswith(tuple(named)) or "." in named
    } == sources - now
    again = after(once["documents"])
    assert set(again["documents"]["source"]) == sources
    pd.testing.assert_frame_equal(again["rejects"], once["rejects"])


def test_a_first_load_goes_ahead_and_what_it_was_loaded_without_keeps_no_later_one(
    tmp_path: Path, postgres_url: str
):
    folder = new_project(
        tmp_path / "mill", postgres_url, {f"{name}.txt": f"Mira Vale met {name}." for name in "abc"}
    )
    place = folder.root / "data" / "input"
    for name in "xyz":
        (place / f"{name}.txt").write_bytes(b"\xff\xfe\x00")
    with folder.open() as project:
        for _ in range(2):
            report = project.run("fast")
            assert (report.exit_code, report.outcome) == (0, "completed_with_rejects")
            assert any("50% of the input could not be read" in note for note in report.notes)
            assert report.load
        for name in "ab":
            (place / f"{name}.txt").write_bytes(b"\xff\xfe\x00")
        report = project.run("fast")
        assert (report.exit_code, dict(report.load)) == (3, {})
        assert project.table("documents", "fast")["source"].tolist() == ["a.txt", "b.txt", "c.txt"]


def test_where_the_last_documents_are_damaged_those_of_the_night_before_are_kept(
    folder: ProjectFolder,
):
    folder.write("second.txt", "A second night.")
    night(folder)
    folder.write("letter.txt", "")
    with folder.open() as project:
        snapshots = project.snapshots
        path = snapshots.root / snapshots.manifest("short").tables["documents"].files[0].path
    path.write_bytes(path.read_bytes()[:-1])
    documents, rejects, _ = night(folder)
    assert (documents["letter.txt"], kept(rejects)) == ("A letter.", ["letter.txt"])
    assert documents["second.txt"] == "A second night."
