"""A project's own tables: each row is a fact with a source, that changes and goes with its row."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.errors import DeletionError
from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.states import is_extraction, models

DOCUMENTS = {
    "a.txt": "Mira Vale built the Harrow Light. Mira Vale lived at Quill.",
    "b.txt": "Anselm Torr met Idra Senn at the Harrow Light.",
}
HEADER = "source,type,target,description,country,id\n"
ROWS = (
    "Mira Vale,MEMBER_OF,Brack Institute,She paid her dues.,DE,m1\n"
    "Brack Institute,OWNS,Harrow Light,,NO,m2\n"
)
FULL = RunOptions(allow_deletes=True)


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, DOCUMENTS)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A project after a run with a table of two rows, that no test changes."""
    folder = new_project(tmp_path_factory.mktemp("first") / "p", NO_STORE, DOCUMENTS)
    write(folder, HEADER + ROWS)
    with folder.open() as project:
        assert project.index("fast").exit_code == 0
    return folder


@pytest.fixture
def with_rows(first_run: ProjectFolder, tmp_path: Path) -> ProjectFolder:
    return first_run.copy(tmp_path / "p")


def write(folder: ProjectFolder, text: str, name: str = "firms.csv") -> Path:
    path = folder.root / "tables" / name
    path.parent.mkdir(exist_ok=True)
    (path.parent / "tables.yaml").touch()
    path.write_text(text, encoding="utf-8")
    return path


def stated(project: Project, type: str) -> pd.DataFrame:
    statements = project.table("statements", "fast")
    return statements[statements["type"] == type]


def tables_of(project: Project, workflow: str = "fast") -> dict[str, str]:
    return {name: one.sha256 for name, one in project.snapshots.manifest(workflow).tables.items()}


def rows_of_table(project: Project) -> pd.DataFrame:
    documents = project.table("documents", "fast")
    return documents[documents["source"].str.startswith("tables/")]


def test_a_project_without_tables_has_no_further_steps(folder: ProjectFolder):
    (folder.root / "tables").mkdir()
    # A folder of this name may hold other files: those of join_documents, say.
    (folder.root / "tables" / "owners.csv").write_text(HEADER + ROWS, "utf-8")
    with folder.open() as project:
        verbs = [step.verb.name for step in project.workflow("fast").steps]
    assert "read_table" not in verbs


def test_a_row_is_merged_with_what_texts_say_and_cited(with_rows: ProjectFolder):
    with with_rows.open() as project:
        (fact,) = stated(project, "MEMBER_OF").to_dict("records")
        units = project.table("text_units", "fast").set_index("id")
        cited = units.loc[fact["text_unit_id"]]
        expected = "Mira Vale member of Brack Institute. She paid her dues. country: DE."
        assert cited["text"] == expected
        document = project.table("documents", "fast").set_index("id").loc[cited["document_id"]]
        assert document["title"] == "table firms.csv, row #2"
        assert document["source"] == "tables/firms.csv#m1"
        entities = project.table("entities", "fast").set_index("name")
        units_of_mira: Any = entities.loc["Mira Vale", "text_unit_ids"]
        of_mira = units.loc[list(units_of_mira)]["document_id"]
        assert of_mira.nunique() == 2
        records = project.table("extractions", "fast")
        records = records[records["text_unit_id"] == fact["text_unit_id"]]
        assert set(records["attributes"]) == {"", '{"country": "DE"}'}


def test_a_row_that_moves_costs_no_vector_and_is_not_edited(with_rows: ProjectFolder):
    with with_rows.open() as project:
        units = set(project.table("text_units", "fast")["id"])
        vectors = set(project.table("text_unit_embeddings", "fast")["id"])
        write(with_rows, HEADER + "New Firm,OWNS,Quill,,,m0\n" + ROWS)
        report = project.index("fast")
        assert report.documents == {"new": 1, "edited": 0, "gone": 0, "all": 5}
        assert units < set(project.table("text_units", "fast")["id"])
        assert vectors < set(project.table("text_unit_embeddings", "fast")["id"])
        titles = rows_of_table(project).set_index("source")["title"]
        assert titles["tables/firms.csv#m1"] == "table firms.csv, row #3"


def test_an_edited_and_a_deleted_row_equal_a_full_build(with_rows: ProjectFolder, tmp_path: Path):
    with with_rows.open() as project:
        write(with_rows, HEADER + ROWS.splitlines()[0].replace("OF,Brack", "OF,Tollen") + "\n")
        assert project.index("fast").documents == {"new": 0, "edited": 1, "gone": 1, "all": 3}
        incremental = tables_of(project)
        assert stated(project, "OWNS").empty
    fresh = ProjectFolder(tmp_path / "fresh")
    with_rows.copy(fresh.root)
    with fresh.open("snapshots=data/other") as project:
        project.index("fast")
        assert tables_of(project) == incremental


def test_a_table_that_is_removed_takes_its_facts_with_it(folder: ProjectFolder):
    with folder.open() as project:
        project.index("fast")
        before = tables_of(project)
        path = write(folder, HEADER + ROWS)
        project.index("fast")
        assert len(stated(project, "OWNS"))
        path.unlink()
        project.index("fast")
        assert tables_of(project) == before


NO_ROWS = (
    b"",
    HEADER.encode(),
    b"\x00\x01\xff" * 999,
    b"a,b\n1,2\n",
    HEADER.encode() + b"Mira Vale,=A1,Brack Institute,,,m1\n",
)


@pytest.mark.parametrize("content", NO_ROWS)
def test_a_table_that_is_empty_or_damaged_keeps_what_it_said(
    with_rows: ProjectFolder, content: bytes
):
    path = with_rows.root / "tables" / "firms.csv"
    with with_rows.open() as project:
        before = set(rows_of_table(project)["id"])
        path.write_bytes(content)
        project.index("fast")
        assert set(rows_of_table(project)["id"]) == before
        rejects = project.table("rejects", "fast")
        assert list(rejects["reason"]).count("kept_unread") == 2
        path.write_text(HEADER + ROWS.splitlines()[0] + "\n", "utf-8")
        project.index("fast")
        assert set(rows_of_table(project)["source"]) == {"tables/firms.csv#m1"}


def test_a_first_table_without_a_row_does_not_stop_the_documents(folder: ProjectFolder):
    write(folder, "")
    write(folder, "no table", "readme.txt")
    with folder.open() as project:
        project.index("fast")
        reasons = project.table("rejects", "fast")["reason"]
        assert sorted(reasons) == ["empty", "unsupported"]
        assert len(project.table("documents", "fast")) == 2


def test_a_table_that_loses_most_of_its_rows_stops_the_run(tmp_path: Path):
    texts = {f"{number}.txt": f"Text {number} of Mira Vale." for number in range(100)}
    folder = new_project(tmp_path / "p", NO_STORE, texts, max_delete_ratio=0.5)
    lines = [f"Firm {number},OWNS,Thing {number},,,f{number}\n" for number in range(30)]
    write(folder, HEADER + "".join(lines))
    with folder.open() as project:
        project.index("fast")
        write(folder, HEADER + "".join(lines[:10]))
        with pytest.raises(DeletionError, match=r"tables/firms.csv: 20 of its 30 rows are gone"):
            project.index("fast")
        broken = [line.replace("OWNS", "=A1") for line in lines[1:]]
        write(folder, HEADER + lines[0] + "".join(broken))
        with pytest.raises(DeletionError, match="29 of its 30 rows are gone"):
            project.index("fast")
        write(folder, HEADER + "".join(lines[:20]))
        project.index("fast")
        write(folder, HEADER + lines[0])
        project.index("fast", options=FULL)
        assert len(rows_of_table(project)) == 1


def test_columns_of_other_names_are_read_and_an_edit_of_them_is_noticed(folder: ProjectFolder):
    write(folder, "Firm,Thing\nAcme,Rocket\n")
    place = write(folder, "firms.csv:\n  columns: {source: Firm, target: Thing}\n", "tables.yaml")
    with folder.open() as project:
        project.index("fast")
        assert set(rows_of_table(project)["text"]) == {"Acme – Rocket."}
        ids = set(rows_of_table(project)["id"])
        place.write_text(place.read_text("utf-8") + "  values: {type: MAKES}\n", "utf-8")
        project.index("fast")
        assert set(rows_of_table(project)["text"]) == {"Acme MAKES Rocket."}
        assert set(rows_of_table(project)["id"]) == ids


def test_the_ontology_holds_for_rows_as_for_texts(folder: ProjectFolder):
    write(folder, HEADER + ROWS)
    ontology = "relationship_types:\n  - {name: MEMBER_OF}\n"
    (folder.root / "ontology.yaml").write_text(ontology, "utf-8")
    with folder.open() as project:
        project.index("fast")
        assert len(stated(project, "MEMBER_OF")) == 1
        assert stated(project, "OWNS").empty
        rejects = project.table("rejects", "fast")
        said = rejects.loc[rejects["reason"] == "not_in_ontology", "message"]
        assert any("OWNS" in message for message in said)


def test_a_correction_of_a_row_holds(with_rows: ProjectFolder):
    rename = {"kind": "rename", "entity": "Brack Institute", "to": "Brack School"}
    with with_rows.open() as project:
        assert (project.add_correction(rename, "fast").effect.records or 0) > 0
        project.index("fast")
        names = set(project.table("entities", "fast")["name"])
        assert "Brack School" in names
        assert "Brack Institute" not in names


def test_no_model_is_asked_about_a_row_and_what_is_known_is_not_asked_again(
    tmp_path: Path, openai: OpenAIServer
):
    folder = new_project(tmp_path / "p", NO_STORE, DOCUMENTS, models=models(openai))
    with folder.open() as project:
        project.index("index")
        openai.forget()
        write(folder, HEADER + ROWS)
        forecasts = project.forecast()
        calls = {one.planned.step.id: one.estimate.calls for one in forecasts}
        assert calls["extract_graph"] == (0, 0)
        # Two rows, and an entity and a relationship of theirs, are new vectors.
        assert calls["embed_text_units"][1] > 0
        project.index("index")
        assert not any(map(is_extraction, openai.requests))
        assert len(project.table("file_text_units", "index")) == 2
        assert len(project.table("text_units", "index")) == 4


def test_a_view_shows_the_rows_that_its_conditions_choose(tmp_path: Path):
    views = {"german": {"where": {"country": "DE"}}}
    folder = new_project(tmp_path / "p", NO_STORE, DOCUMENTS, serve={"views": views})
    write(folder, HEADER + ROWS)
    with folder.open() as project:
        project.index("fast")
        tables = project.snapshots.manifest("fast").tables
        (documents,) = [name for name in tables if "german" in name and "documents" in name]
        assert set(project.table(documents, "fast")["source"]) == {"tables/firms.csv#m1"}
        (statements,) = [name for name in tables if "german" in name and "statements" in name]
        assert set(project.table(statements, "fast")["type"]) == {"MEMBER_OF"}


def test_a_row_that_was_taken_out_is_purged_by_its_source(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "p", postgres_url, DOCUMENTS)
    write(folder, HEADER + ROWS)
    with folder.open() as project:
        project.run("fast")
    write(folder, HEADER + ROWS.splitlines()[1] + "\n")
    done = folder.invoke("purge", "--document", "tables/firms.csv#m1", "--yes")
    assert done.exit_code == 0, done
    with folder.open() as project:
        assert set(rows_of_table(project)["source"]) == {"tables/firms.csv#m2"}
        assert stated(project, "MEMBER_OF").empty
        assert len(project.snapshots.history("fast")) == 1


def test_the_command_refuses_what_is_no_table_and_writes_nothing(folder: ProjectFolder):
    path = folder.root / "firms.csv"
    path.write_text("Firm,Thing\nAcme,Rocket\n", "utf-8")
    hidden = folder.root / ".firms.csv"
    hidden.write_text("source,target\nAcme,Rocket\n", "utf-8")
    refused = ([str(path)], ["gone.csv"], [str(path), "--column", "sorce=Firm"], [str(hidden)])
    for arguments in refused:
        done = folder.invoke("import", "triples", *arguments)
        assert done.exit_code == 2, done
    assert not (folder.root / "tables").exists()
    columns = ["--column", "source=Firm", "--column", "target=Thing"]
    done = folder.invoke("import", "triples", str(path), *columns, "--json")
    assert done.json["relationships"] == 1
    # A newer version of the table takes the place of the first; its columns are known.
    path.write_text("Firm,Thing\nAcme,Rocket\nAcme,Anvil\n", "utf-8")
    assert folder.invoke("import", "triples", str(path), "--json").json["relationships"] == 2
    assert (folder.root / "tables" / "firms.csv").read_bytes() == path.read_bytes()
