"""Files of the input folder join an imported index; a file takes the place of a document."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.errors import DeletionError, SettingsError, UsageError
from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.states import is_extraction, models, table_hashes
from tests.verbs.graphrag_folders import remove_replies, unpack
from tests.verbs.lightrag_folders import INDEX

LAMP = "Ada Holm built the Skarrow Lamp in 1871. Otto Brun kept it for thirty years."
"""The text of lamp.txt in the index."""
NEW = {"new.txt": "Mira Vale met Ada Holm in Tessing."}
FAST: Any = {"lightrag": {"files": "fast"}}
TABLES = ("documents", "text_units", "extractions", "entities", "relationships", "mentions")


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A project with an imported index and an empty input folder, that no test changes."""
    folder = new_project(tmp_path_factory.mktemp("imported") / "p", NO_STORE, {}, **FAST)
    with folder.open() as project:
        project.import_lightrag(INDEX)
    return folder


@pytest.fixture
def folder(imported: ProjectFolder, tmp_path: Path) -> ProjectFolder:
    return imported.copy(tmp_path / "p")


def records_of(project: Project, source: str) -> pd.DataFrame:
    documents = project.table("documents", "lightrag").set_index("source")["id"]
    units = project.table("text_units", "lightrag")
    own = units.loc[units["document_id"] == documents[source], "id"]
    records = project.table("extractions", "lightrag")
    return records[records["text_unit_id"].isin(own)]


def test_a_project_without_files_has_no_further_steps(folder: ProjectFolder):
    with folder.open() as project:
        verbs = [step.verb.name for step in project.workflow("lightrag").steps]
    assert "load_documents" not in verbs


def test_a_new_file_joins_the_graph(folder: ProjectFolder):
    folder.write("new.txt", NEW["new.txt"])
    with folder.open() as project:
        project.index("lightrag")
        entities = project.table("entities", "lightrag").set_index("name")["text_unit_ids"]
        assert len(entities["Ada Holm"]) == 3
        assert len(project.table("documents", "lightrag")) == 5
        again = project.index("lightrag")
        assert {step.action for step in again.steps} == {"reused"}


def test_an_edited_file_takes_the_place_of_its_document(folder: ProjectFolder):
    folder.write("lamp.txt", "Otto Brun sold the Harrow Light.")
    with folder.open() as project:
        project.index("lightrag")
        names = set(project.table("entities", "lightrag")["name"])
        assert "Harrow Light" in names
        assert "Skarrow Lamp" not in names
        assert len(project.table("documents", "lightrag")) == 4


def test_a_file_that_begins_as_its_document_has_records_of_its_own_alone(folder: ProjectFolder):
    with folder.open() as project:
        before = records_of(project, "lamp.txt")
    # The first passage has the text, and so the id, of the imported one.
    folder.edit_settings(**FAST)
    path = folder.root / "workflows" / "fast.yaml"
    path.write_text(path.read_text("utf-8").replace("size: 1200", "size: 20"), "utf-8")
    folder.write("lamp.txt", f"{LAMP}\n\n{'Mira Vale met Otto Brun in Tessing. ' * 5}")
    with folder.open() as project:
        project.index("lightrag")
        after = records_of(project, "lamp.txt")
    assert set(before["description"]).isdisjoint(set(after["description"]) - {""})


def test_a_file_with_the_text_of_its_document_keeps_the_paid_replies(folder: ProjectFolder):
    with folder.open() as project:
        before = records_of(project, "lamp.txt")
    folder.write("lamp.txt", f"\n{LAMP}\n")
    with folder.open() as project:
        project.index("lightrag")
        # The verb that unites records may write an empty text where there was none.
        columns = [name for name in before.columns if name != "attributes"]
        after = records_of(project, "lamp.txt")
        pd.testing.assert_frame_equal(after[columns], before[columns])
        units = project.table("text_units", "lightrag").set_index("text")
        documents = project.table("documents", "lightrag").set_index("id")
    place: Any = units.loc[LAMP]
    text: Any = documents.loc[place["document_id"], "text"]
    assert text[place["start"] : place["end"]] == LAMP


def test_a_history_of_files_ends_as_a_full_build(folder: ProjectFolder, tmp_path: Path):
    any_deletion = RunOptions(allow_deletes=True)
    with folder.open() as project:
        folder.write("new.txt", NEW["new.txt"])
        project.index("lightrag")
        folder.write("lamp.txt", "Otto Brun sold the Harrow Light.")
        folder.write("other.txt", "Mira Vale left Skarrow for Tessing.")
        project.index("lightrag")
    with folder.open() as project:
        folder.delete("new.txt")
        folder.write("lamp.txt", LAMP)
        project.index("lightrag", options=any_deletion)
    full = new_project(tmp_path / "full", NO_STORE, {}, **FAST)
    for path in (folder.root / "data" / "input").iterdir():
        full.write(path.name, path.read_text("utf-8"))
    with folder.open() as project, full.open() as fresh:
        fresh.import_lightrag(INDEX)
        for name in TABLES:
            after, expected = (one.table(name, "lightrag") for one in (project, fresh))
            pd.testing.assert_frame_equal(after, expected)


def test_files_that_are_all_gone_end_the_run(folder: ProjectFolder):
    folder.edit_settings(max_delete_ratio=0.3)
    folder.write("new.txt", NEW["new.txt"])
    with folder.open() as project:
        project.index("lightrag")
    folder.delete("new.txt")
    with folder.open() as project:
        # One of five documents is less than the ratio, but it is all that the folder had.
        with pytest.raises(DeletionError, match="1 of 1 documents are gone"):
            project.index("lightrag")
        project.index("lightrag", options=RunOptions(allow_deletes=True))
    with folder.open() as project:
        assert len(project.table("documents", "lightrag")) == 4
        verbs = [step.verb.name for step in project.workflow("lightrag").steps]
    assert "load_documents" not in verbs


def test_a_plan_prices_what_the_index_lacks_and_an_import_asks_nothing(
    tmp_path: Path, openai: OpenAIServer
):
    files = {**NEW, "lamp.txt": LAMP}
    folder = new_project(tmp_path / "p", NO_STORE, files, models=models(openai))
    with folder.open() as project:
        report = project.import_lightrag(INDEX)
        assert "has files that a chat model must read" in report.notes[0]
        assert not any(map(is_extraction, openai.requests))
        calls = {one.planned.step.id: one.estimate.calls for one in project.forecast("lightrag")}
        assert calls["extract_graph"] == (1, 1)
        project.index("lightrag")
        assert sum(map(is_extraction, openai.requests)) == 1
        openai.forget()
        project.import_lightrag(INDEX)
        assert not openai.requests
        assert len(project.table("documents", "lightrag")) == 5
        folder.write("more.txt", "Ida Vale came back.")
        with pytest.raises(UsageError, match="an import asks none; the index is in its place"):
            project.import_lightrag(INDEX)


def test_rows_of_tables_join_an_index_too(folder: ProjectFolder):
    tables = folder.root / "tables"
    tables.mkdir()
    (tables / "tables.yaml").touch()
    rows = "source,type,target\nMira Vale,MEMBER_OF,Brack Institute\n"
    (tables / "members.csv").write_text(rows, "utf-8")
    folder.write("new.txt", NEW["new.txt"])
    with folder.open() as project:
        project.index("lightrag")
        types = project.table("statements", "lightrag")["type"]
        assert list(types).count("MEMBER_OF") == 1
        assert len(project.table("own_text_units", "lightrag")) == 1


def test_a_view_of_some_documents_has_imported_and_own_ones(folder: ProjectFolder):
    view = {"where": {"source": ["lamp.txt", "new.txt"]}}
    folder.edit_settings(serve={"views": {"some": view}})
    folder.write("new.txt", NEW["new.txt"])
    with folder.open() as project:
        project.index("lightrag")
        tables = project.snapshots.manifest("lightrag").tables
        (entities,) = [name for name in tables if "some" in name and name.startswith("entities")]
        names = set(project.table(entities, "lightrag")["name"])
    assert {"Skarrow Lamp", "Mira Vale"} <= names
    assert "Tide Book" not in names


def test_another_workflow_must_cut_documents(folder: ProjectFolder):
    folder.edit_settings(lightrag={"files": "graphrag"})
    folder.write("new.txt", NEW["new.txt"])
    with folder.open() as project, pytest.raises(SettingsError, match=r"lightrag\.files"):
        project.index("lightrag")


@pytest.fixture(scope="module")
def of_graphrag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of GraphRAG whose cache has no replies about bell.txt."""
    theirs = unpack(tmp_path_factory.mktemp("theirs") / "graphrag")
    remove_replies(theirs, (theirs / "input" / "bell.txt").read_text("utf-8"))
    return theirs


def test_files_join_an_index_of_graphrag_with_its_cache(
    of_graphrag: Path, tmp_path: Path, openai: OpenAIServer
):
    texts = {path.name: path.read_text("utf-8") for path in (of_graphrag / "input").iterdir()}
    folder = new_project(tmp_path / "p", NO_STORE, texts, models=models(openai))
    with folder.open() as project:
        report = project.import_graphrag(of_graphrag)
        assert report.workflow == "graphrag_cache"
        assert "has files that a chat model must read" in " ".join(report.notes)
        assert f"set it to {of_graphrag}" in " ".join(report.notes)
        assert not any(map(is_extraction, openai.requests))
    folder.edit_settings(graphrag={"path": str(of_graphrag)})
    with folder.open() as project:
        estimates = project.forecast("graphrag_cache")
        calls = {one.planned.step.id: one.estimate.calls for one in estimates}
        # The index has replies about all documents but this one.
        assert calls["extract_graph"] == (1, 1)
        project.index("graphrag_cache")
        assert sum(map(is_extraction, openai.requests)) == 1
        assert len(project.table("documents", "graphrag_cache")) == 6
        again = project.import_graphrag(of_graphrag)
        assert {step.action for step in again.steps} == {"reused"}


def test_a_history_of_files_beside_graphrag_ends_as_a_full_build(of_graphrag: Path, tmp_path: Path):
    settings: Any = {"graphrag": {"path": str(of_graphrag), "files": "fast"}}
    any_deletion = RunOptions(allow_deletes=True)
    nights: list[dict[str, str | None]] = [
        {"new.txt": NEW["new.txt"], "harbour.txt": "Otto Brun sold the Harrow Light."},
        {"harbour.txt": None, "new.txt": "Mira Vale left Tessing Town."},
        {"new.txt": None, "book.txt": "Ida Vale sold the Tide Book.", "lamp.txt": LAMP},
    ]
    folder, files = new_project(tmp_path / "p", NO_STORE, {}, **settings), dict[str, str]()
    with folder.open() as project:
        project.import_graphrag(of_graphrag)
        before = len(project.table("community_reports", "graphrag_cache"))
    for night in nights:
        for name, text in night.items():
            if text is None:
                folder.delete(name)
                del files[name]
            else:
                folder.write(name, text)
                files[name] = text
        with folder.open() as project:
            project.index("graphrag_cache", options=any_deletion)
    full = new_project(tmp_path / "full", NO_STORE, files, **settings)
    with folder.open() as project, full.open() as fresh:
        fresh.index("graphrag_cache")
        assert table_hashes(project, "graphrag_cache") == table_hashes(fresh, "graphrag_cache")
        claims = project.table("covariates", "graphrag_cache")
        units = project.table("text_units", "graphrag_cache")
        assert set(claims["text_unit_id"]) <= set(units["id"])
        # A report stays as long as its community has the same members.
        assert 0 < len(project.table("community_reports", "graphrag_cache")) <= before


def test_a_project_with_the_tables_alone_goes_on_with_them(of_graphrag: Path, tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, {})
    with folder.open() as project:
        project.import_graphrag(of_graphrag, "graphrag")
        report = project.import_graphrag(of_graphrag)
    assert report.workflow == "graphrag"
    assert "--workflow graphrag_cache takes them" in report.notes[0]


def test_replies_to_another_prompt_are_told(of_graphrag: Path, tmp_path: Path):
    theirs = Path(shutil.copytree(of_graphrag, tmp_path / "theirs"))
    (theirs / "prompts" / "extract_graph.txt").write_text("{input_text}", "utf-8")
    folder = new_project(tmp_path / "p", NO_STORE, {})
    with folder.open() as project:
        report = project.import_graphrag(theirs)
    assert report.workflow == "graphrag"
    assert "not taken: 14 replies" in report.notes[0]


def test_a_view_of_an_index_of_graphrag_has_no_reports_on_all_documents(
    of_graphrag: Path, tmp_path: Path
):
    view = {"where": {"source": ["lamp.txt", "new.txt"]}}
    settings: Any = {"graphrag": {"path": str(of_graphrag), "files": "fast"}}
    folder = new_project(tmp_path / "p", NO_STORE, NEW, serve={"views": {"some": view}}, **settings)
    with folder.open() as project:
        project.index("graphrag_cache")
        tables = set(project.snapshots.manifest("graphrag_cache").tables)
        assert len(project.table("covariates@some", "graphrag_cache")) == 1
    assert "community_reports" in tables
    assert not {"community_reports@some", "report_texts@some", "report_embeddings@some"} & tables
