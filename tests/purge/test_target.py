"""An unknown name is refused, with the most similar names, before anything is changed."""

from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.purge.target import PurgeTarget, rows_of
from tests.projects import ProjectFolder, new_project

TEXTS = {
    "notes/sales.md": "# Sales\n\nMira Vale sold the Harrow Light to the Brack Institute.",
    "harrow-mill.txt": "Harrow Mill\n\nAnselm Torr built Harrow Mill at Quill Point.",
    "people.csv": (
        "id,text\n41,Idra Senn founded the Brack Institute.\n42,Governor Pell opened the Tollen"
        " Tower.\n"
    ),
    "#5 [draft].txt": "The draft\n\nIdra Senn wrote a draft.",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """Create a project that was loaded by two runs, with a file that only the first one read."""
    folder = new_project(tmp_path_factory.mktemp("target") / "mill", postgres_url, TEXTS)
    folder.write("former.txt", "The former\n\nMira Vale left.")
    with folder.open() as project:
        project.run("fast")
        folder.delete("former.txt")
        project.run("fast")
    return folder


def state(folder: ProjectFolder) -> dict[Path, int]:
    """Return the content of every file except locks."""
    files = [
        path
        for path in folder.root.rglob("*")
        if path.is_file() and path.name not in ("lock", "holder")
    ]
    return {path: path.stat().st_mtime_ns for path in files}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("harow-mill.txt", "did you mean harrow-mill.txt"),
        ("sales.md", "did you mean notes/sales.md"),
        ("notes/sale.md", "did you mean notes/sales.md"),
        ("people.csv#43", "did you mean people.csv"),
        ("formerly.txt", "did you mean former.txt"),
        ("harrow*", "it fits harrow-mill.txt; patterns are not taken"),
        ("**/*.xyz", "patterns are not taken"),
        ("notes", "is a folder"),
        ("../settings.yaml", "is not below"),
        ("", "is not below"),
    ],
)
def test_a_name_that_is_nowhere_is_a_usage_error(folder: ProjectFolder, given: str, said: str):
    before = state(folder)
    done = folder.invoke("purge", "--document", given, "--yes")
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert state(folder) == before


def test_an_unknown_name_without_similar_ones_gets_no_suggestion(folder: ProjectFolder):
    with folder.open() as project, pytest.raises(UsageError) as error:
        project.purge("0123456789")
    assert "did you mean" not in str(error.value)
    assert "nothing was touched" in str(error.value)


def test_a_record_has_to_be_out_of_its_file_first(folder: ProjectFolder):
    with (
        folder.open() as project,
        pytest.raises(UsageError, match=r"still in people\.csv; take record 42 out"),
    ):
        project.purge("people.csv#42")


@pytest.mark.parametrize(
    "given", ["harrow-mill.txt", "data/input/harrow-mill.txt", "{root}/data/input/harrow-mill.txt"]
)
def test_the_command_shows_the_survey_before_it_asks(folder: ProjectFolder, given: str):
    with folder.open() as project:
        survey = project.survey(given.format(root=folder.root))
        assert survey.document == "harrow-mill.txt"
        assert survey.size == len(TEXTS["harrow-mill.txt"])
        rows = survey.rows["fast"]
        assert (rows["documents"], rows["text_units"], rows["text_unit_embeddings"]) == (1, 1, 1)
        assert rows["entities"] >= 1
        assert [each.name for each in survey.workspaces] == [project.settings.workspace]
        assert "workspace" in "\n".join(survey.lines())


def test_a_former_document_is_known(folder: ProjectFolder):
    with folder.open() as project:
        survey = project.survey("former.txt")
    assert (survey.size, survey.rows["fast"]["documents"]) == (None, 1)
    assert "no file" in survey.lines()[0]


def test_a_name_with_signs_of_patterns_and_records_is_a_name(folder: ProjectFolder):
    with folder.open() as project:
        assert project.survey("#5 [draft].txt").rows["fast"]["documents"] == 1


@pytest.mark.parametrize("name", ["two\nlines.txt", "red\x1b[31m.txt", "no text \udcff.txt"])
def test_a_file_is_named_as_it_is_on_disk(tmp_path: Path, postgres_url: str, name: str):
    folder = new_project(
        tmp_path / "mill", postgres_url, {"a.txt": "A\n\nA.", name: "Mill\n\nMira Vale is there."}
    )
    with folder.open() as project:
        project.index("fast")
        report = project.purge(name)
        assert (report.file, report.rows["fast"]["documents"], report.document.isprintable()) == (
            True,
            1,
            True,
        )
        assert list(project.table("documents", "fast")["source"]) == ["a.txt"]


def test_a_link_is_purged_and_not_its_target(tmp_path: Path, postgres_url: str):
    folder = new_project(
        tmp_path / "mill",
        postgres_url,
        {"real.txt": "Real\n\nMira Vale is real.", "b.txt": "B\n\nB."},
    )
    (folder.root / "data/input/link.txt").symlink_to("real.txt")
    with folder.open() as project:
        project.run("fast")
        assert project.purge("link.txt").document == "link.txt"
    assert sorted(path.name for path in (folder.root / "data/input").iterdir()) == [
        "b.txt",
        "real.txt",
    ]


def test_a_file_that_was_only_ever_rejected_is_known(tmp_path: Path, postgres_url: str):
    folder = new_project(
        tmp_path / "mill", postgres_url, {"a.txt": "A\n\nMira Vale.", "b.jsonl": "{Zyxomandrel\n"}
    )
    folder.edit_settings(max_reject_ratio=1)
    with folder.open() as project:
        project.index("fast")
        folder.delete("b.jsonl")
        project.index("fast")
        assert project.survey("b.jsonl").size is None


def test_the_command_shows_the_survey_and_counts_at_the_end(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "mill", postgres_url, TEXTS)
    with folder.open() as project:
        project.run("fast")
    done = folder.invoke("purge", "--document", "harrow-mill.txt", "--yes")
    assert done.exit_code == 0
    last = done.stdout.splitlines()[-1]
    assert last.startswith("harrow-mill.txt: deleted: its file, ")
    assert " rows of 1 workspace, " in last
    again = folder.invoke("purge", "--document", "harrow-mill.txt", "--yes")
    assert (again.exit_code, "no file, no document" in again.stderr) == (2, True)


def test_what_a_damaged_table_hides_is_said_and_the_rest_is_counted(
    tmp_path: Path, postgres_url: str
):
    folder = new_project(tmp_path / "mill", postgres_url, TEXTS)
    with folder.open() as project:
        project.index("fast")
        tables = project.snapshots.manifest("fast").tables
        whole = project.survey("harrow-mill.txt").rows["fast"]
        assert whole["documents"] == whole["text_units"] == 1
    paths = {
        name: folder.root / "data/snapshots" / snapshot.files[0].path
        for name, snapshot in tables.items()
    }
    paths["entities"].write_bytes(b"PAR1")
    with folder.open() as project:
        survey = project.survey("harrow-mill.txt")
    assert survey.rows["fast"] == {**whole, "entities": None}
    assert "not known, for a file is damaged: entities" in "\n".join(survey.lines())
    paths["text_units"].write_bytes(paths["text_units"].read_bytes()[:-40])
    with folder.open() as project:
        rows = project.survey("harrow-mill.txt").rows["fast"]
        assert (rows["documents"], rows["text_units"], rows["extractions"]) == (1, None, None)
        assert (
            "deleted: its file, at least 4 rows of tables"
            in project.purge("harrow-mill.txt").lines()[-1]
        )
    [documents] = (folder.root / "data/snapshots/documents").glob("*.parquet")
    documents.write_bytes(b"")
    assert rows_of(project.snapshots, PurgeTarget("people.csv", None)) == {
        "fast": {"documents": None}
    }
