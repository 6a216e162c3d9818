"""A run that would lose many documents at once stops before anything is lost."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from pipeline.engine.documents.deletions import DocumentChanges, check_deletions, document_changes
from pipeline.engine.run_options import RunOptions
from pipeline.errors import DataError, DeletionError
from pipeline.project import Project
from tests.projects import ProjectFolder, new_project

LOAD_ONLY = "name: load\nsteps:\n  - verb: load_documents\n"


def identities(*names: str) -> pd.DataFrame:
    """Return documents by id, with another content after a colon: "a" or "a:text"."""
    parts = [name.partition(":") for name in names]
    return pd.DataFrame(
        [(id, f"{id}.txt", content or id) for id, _, content in parts],
        columns=["id", "source", "content_hash"],
    )


def test_documents_are_new_edited_or_gone():
    found = document_changes(
        identities("a", "b", "c", "d"), identities("a", "b:edited", "e", "x:d")
    )
    assert found == DocumentChanges(
        new=("e.txt", "x.txt"), edited=("b.txt",), gone=("c.txt", "d.txt")
    )
    assert found.counts == {"new": 2, "edited": 1, "gone": 2}
    assert document_changes(identities(), identities("a")).new == ("a.txt",)
    assert document_changes(identities("a"), identities()).gone == ("a.txt",)


@pytest.mark.parametrize(
    ("before", "after", "max_ratio"),
    [
        ("a b c d", "a b c", 0.25),
        ("a b c d", "a b c", 0.3),
        ("a b c d", "a:1 b:2 c:3 d:4 e", 0),
        ("a b", "c:a d:b", 0),
        ("a b", "c:a", 0.5),
        ("a b", "", 1),
        ("", "a", 0),
    ],
    ids=[
        "as many as may",
        "fewer",
        "edited",
        "renamed",
        "renamed and gone",
        "any",
        "the first run",
    ],
)
def test_deletions_up_to_the_limit_and_renames_pass(before: str, after: str, max_ratio: float):
    check_deletions(identities(*before.split()), identities(*after.split()), max_ratio)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "a b c",
            "a c",
            (
                r"input: 1 of 3 documents are gone \(b\.txt\), more than max_delete_ratio 0\.3; is"
                r" the folder"
            ),
        ),
        (
            "e d c b a",
            "f",
            (
                r"5 of 5 documents are gone \(a\.txt, b\.txt, c\.txt, \.\.\.\), .* --allow-deletes"
                r" if this"
            ),
        ),
        ("a b", "c:a", r"1 of 2 documents are gone \(b\.txt\)"),
    ],
)
def test_too_many_deletions_stop_a_run(before: str, after: str, message: str):
    with pytest.raises(DeletionError, match=message) as caught:
        check_deletions(identities(*before.split()), identities(*after.split()), 0.3)
    assert caught.value.exit_code == 1


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    """Return a project with four loaded documents and no store."""
    texts = {f"{name}.txt": f"The mill of {name}." for name in "abcd"}
    folder = new_project(
        tmp_path / "mill", "embedded", texts, workflow="load", max_delete_ratio=0.3
    )
    (folder.root / "workflows" / "load.yaml").write_text(LOAD_ONLY)
    with folder.open() as project:
        project.index()
    return folder


def sources(project: Project) -> list[str]:
    return sorted(project.table("documents")["source"])


def test_a_refused_run_changes_nothing_however_often(folder: ProjectFolder):
    folder.delete("a.txt")
    folder.delete("b.txt")
    for _ in range(2):
        with folder.open() as project:
            with pytest.raises(
                DeletionError, match=r"2 of 4 documents are gone \(a\.txt, b\.txt\)"
            ):
                project.index()
            report = project.status()
            assert report
            assert (report["outcome"], report["exit_code"]) == ("failed", 1)
            assert sources(project) == ["a.txt", "b.txt", "c.txt", "d.txt"]
    with folder.open() as project:
        assert project.index(options=RunOptions(allow_deletes=True)).exit_code == 0
        assert sources(project) == ["c.txt", "d.txt"]
        assert project.index().exit_code == 0


def test_few_deletions_renames_and_edits_pass(folder: ProjectFolder):
    folder.delete("a.txt")
    folder.delete("b.txt")
    folder.write("new/b.txt", "The mill of b.")
    folder.write("c.txt", "Another mill.")
    with folder.open() as project:
        project.index()
        assert sources(project) == ["c.txt", "d.txt", "new/b.txt"]


def test_an_empty_folder_is_refused_whatever_is_allowed(folder: ProjectFolder):
    for name in "abcd":
        folder.delete(f"{name}.txt")
    with folder.open() as project, pytest.raises(DataError, match="no documents"):
        project.index(options=RunOptions(allow_deletes=True))


@pytest.mark.parametrize(
    "steps", [[], [{"verb": "select_documents", "args": {"metadata": []}}]], ids=["", "steps"]
)
def test_a_first_run_is_compared_with_the_newest_run_of_another_workflow(
    folder: ProjectFolder, steps: list[object]
):
    folder.edit_settings(input={"steps": steps})
    for name in ("second", "third"):
        (folder.root / "workflows" / f"{name}.yaml").write_text(
            LOAD_ONLY.replace("name: load", f"name: {name}")
        )
    with folder.open() as project:
        project.index("load")
        project.index("second")
        folder.write("e.txt", "The mill of e.")
        project.index("load")
        assert project.index("third").documents == {"new": 0, "edited": 0, "gone": 0, "all": 5}


def test_another_folder_has_nothing_to_do_with_the_workflow_before(folder: ProjectFolder):
    """Neither are the documents of the one gone from the other, nor are they kept where a file is
    not read whole."""
    folder.write("t.jsonl", '{"id": "1", "text": "One."}\n{"id": "2", "text": "Two."}\n')
    elsewhere = folder.root / "data" / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "t.jsonl").write_text('{"id": "3", "text": "Three."}\n{"id": "4", "te')
    step = f"  - verb: load_documents\n    args: {{path: '{elsewhere}'}}\n"
    (folder.root / "workflows" / "other.yaml").write_text(f"name: other\nsteps:\n{step}")
    (folder.root / "workflows" / "third.yaml").write_text(
        LOAD_ONLY.replace("name: load", "name: third")
    )
    with folder.open() as project:
        project.index("load")
        assert project.index("other").documents == {"new": 1, "edited": 0, "gone": 0, "all": 1}
        assert project.index("third").documents == {"new": 0, "edited": 0, "gone": 0, "all": 6}
        assert {step.action for step in project.index("load").steps} == {"reused"}


def test_a_night_before_a_clock_was_set_back_is_purged_too(folder: ProjectFolder):
    manifests = folder.root / "data" / "snapshots" / "manifests" / "load"
    [first] = manifests.glob("*.json")
    first.rename(manifests / "20990101T000000.000000-abcdef.json")
    folder.write("e.txt", "The mill of e.")
    with folder.open() as project:
        project.index()
        project.purge("a.txt")
        tables = (folder.root / "data" / "snapshots" / "documents").glob("*.parquet")
        assert all("a.txt" not in set(pd.read_parquet(path)["source"]) for path in tables)
        assert len(project.snapshots.history("load")) == 1


def documents_of(folder: ProjectFolder) -> list[Path]:
    return list((folder.root / "data" / "snapshots" / "documents").glob("*.parquet"))


@pytest.mark.parametrize("content", [None, b"", b"damaged"], ids=["gone", "empty", "damaged"])
def test_without_the_former_snapshot_the_numbers_are_compared(
    folder: ProjectFolder, content: bytes | None
):
    for path in documents_of(folder):
        path.unlink() if content is None else path.write_bytes(content)
    with folder.open() as project:
        assert project.index().exit_code == 0
    for path in documents_of(folder):
        path.unlink() if content is None else path.write_bytes(content)
    for name in "abc":
        folder.delete(f"{name}.txt")
    with (
        folder.open() as project,
        pytest.raises(DeletionError, match="3 of 4 documents are gone, more than"),
    ):
        project.index()


@pytest.mark.parametrize("broken", ["live", "all"])
@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"workflow": "load"}', None], ids=["empty", "list", "short", "gone"]
)
def test_a_broken_manifest_leaves_the_guard_on(
    folder: ProjectFolder, broken: str, content: bytes | None
):
    snapshots = folder.root / "data" / "snapshots"
    paths = [
        *snapshots.glob("manifest-*.json"),
        *(snapshots.glob("manifests/*/*.json") if broken == "all" else []),
    ]
    for path in paths:
        path.unlink() if content is None and broken == "live" else path.write_bytes(content or b"")
    for name in "abc":
        folder.delete(f"{name}.txt")
    with folder.open() as project, pytest.raises(DeletionError, match="3 of 4 documents are gone"):
        project.index()
    for name in "abc":
        folder.write(f"{name}.txt", f"text {name}")
    with folder.open() as project:
        assert project.index().exit_code == 0
        assert len(project.table("documents")) == 4


def test_a_first_run_is_compared_with_nothing(tmp_path: Path, folder: ProjectFolder):
    shutil.rmtree(folder.root / "data" / "snapshots")
    folder.delete("a.txt")
    with folder.open() as project:
        assert project.index().exit_code == 0


def test_the_settings_allow_many_deletions(folder: ProjectFolder):
    folder.delete("a.txt")
    folder.delete("b.txt")
    with folder.open("max_delete_ratio=0.5") as project:
        assert project.index().exit_code == 0


def test_documents_that_a_filter_leaves_out_count_as_gone(folder: ProjectFolder):
    folder.edit_settings(
        input={"steps": [{"verb": "filter_documents", "args": {"where": {"source": "a.txt"}}}]}
    )
    with folder.open() as project, pytest.raises(DeletionError, match="3 of 4"):
        project.index()


def test_the_command_has_the_option_that_the_message_names(folder: ProjectFolder):
    folder.delete("a.txt")
    folder.delete("b.txt")
    refused = folder.invoke("index")
    assert refused.exit_code == 1
    assert "--allow-deletes" in refused.stderr
    assert folder.invoke("index", "--allow-deletes").exit_code == 0
