"""export and import, from the command: what one writes, the other reads."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipeline.engine.run_options import RunOptions
from pipeline.errors import DeletionError, UsageError
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.states import set_args, table_hashes
from tests.verbs.graphrag_folders import version_3, write
from tests.verbs.lightrag_folders import INDEX, edit_graph

TABLES = ("documents", "text_units", "mentions", "entities", "relationships")


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return write(tmp_path / "their output, 'all'", version_3())


def test_a_build_comes_back_as_it_went_out(folder: ProjectFolder, tmp_path: Path):
    with folder.open() as project:
        project.index("fast")
        exported = project.export("parquet", tmp_path / "out", "fast")
        assert exported.files["entities.parquet"] > 5
        report = project.import_graphrag(tmp_path / "out")
        assert (report.exit_code, report.to_json()["totals"]["rejects"]) == (0, 0)
        for name in TABLES[1:2] + TABLES[3:]:
            pd.testing.assert_frame_equal(
                project.table(name, "graphrag"), project.table(name, "fast")
            )
        # GraphRAG has no place for these columns.
        untold = ["source", "title_from", "date", "date_from", "aliases"]
        documents = [
            project.table("documents", workflow).drop(columns=untold)
            for workflow in ("graphrag", "fast")
        ]
        pd.testing.assert_frame_equal(*documents)
        again = project.import_graphrag(tmp_path / "out")
        assert {step.action for step in again.steps} == {"reused"}


def test_import_load_and_ask(folder: ProjectFolder, theirs: Path, postgres_url: str):
    folder.edit_settings(stores={"postgres": {"url": postgres_url}})
    shown = folder.invoke("import", "graphrag", str(theirs))
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (
        0,
        "Next: graphmill rejects graphrag, which lists all that was not taken,"
        " and graphmill load graphrag",
    ), shown.stderr
    with folder.open() as project:
        project.load("graphrag")
        found = project.query_data("Who built the Lamp?", mode="naive")
    assert "Ada Holm built the Lamp" in str(found)
    assert "lamp.txt" in str(found)


def test_what_is_imported_without_a_folder(folder: ProjectFolder, theirs: Path):
    done = folder.invoke("index", "graphrag", "--json")
    assert done.exit_code == 2
    assert "data/graphrag: no such folder; name one with the tables" in done.stderr
    assert "'graphmill import graphrag DIR' or graphrag.path" in done.stderr
    named = folder.invoke("index", "graphrag", "--set", f"graphrag.path={theirs}", "--json")
    assert named.exit_code == 0, named.stderr
    assert folder.invoke("import", "graphrag", str(theirs), "--json").json["totals"]["calls"] == 0


def test_a_workflow_file_without_the_steps_for_reports_says_so(folder: ProjectFolder, theirs: Path):
    path = folder.root / "workflows" / "graphrag.yaml"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    ends = ["extend_communities", "keep_reports", "compose_report_texts"]
    kept = [line for line in lines if not line.strip().endswith(tuple(ends))]
    path.write_text("".join(kept[:-4]), encoding="utf-8")
    with folder.open() as project:
        report = project.import_graphrag(theirs)
    notes = [note for note in report.notes if note.startswith("not taken: 2 rows of imported_")]
    assert [note.split()[5] for note in notes] == ["imported_communities,", "imported_reports,"]


def test_faults_are_told(folder: ProjectFolder, theirs: Path, tmp_path: Path):
    def told(*arguments: str) -> str:
        done = folder.invoke(*arguments, "--json")
        assert (done.exit_code, done.json["outcome"]) == (2, "failed")
        return done.stderr

    assert "gone: no such folder" in told("import", "graphrag", str(tmp_path / "gone"))
    assert "no step read_graphrag" in told("import", "graphrag", str(theirs), "--workflow", "fast")
    assert "no such workflow" in told("import", "graphrag", str(theirs), "--workflow", "none")
    assert "no kind 'xlsx'" in told("export", "xlsx", str(tmp_path / "out"))
    assert "nothing to export; run 'graphmill index fast' first" in told(
        "export", "csv", str(tmp_path / "out"), "--workflow", "fast"
    )
    (theirs / "entities.parquet").write_bytes(b"damaged")
    done = folder.invoke("import", "graphrag", str(theirs))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "entities.parquet: not readable as Parquet" in done.stderr


def test_another_index_is_not_taken_for_the_next_night(
    folder: ProjectFolder, theirs: Path, tmp_path: Path
):
    folder.edit_settings(max_delete_ratio=0.3)
    tables = version_3()
    tables["documents"][0] |= {"id": "d9", "text": "Another. " + tables["documents"][0]["text"]}
    tables["text_units"] = [row | {"document_id": "d9"} for row in tables["text_units"]]
    other = write(tmp_path / "other", tables)
    with folder.open() as project:
        project.import_graphrag(theirs)
        with pytest.raises(DeletionError, match="1 of 1 documents are gone"):
            project.import_graphrag(other)
    assert folder.invoke("import", "graphrag", str(other), "--allow-deletes").exit_code == 0


@pytest.mark.parametrize("name", ["text_units", "entities", "relationships"])
def test_a_table_of_graphrag_that_is_empty_meanwhile_takes_nothing_out(
    name: str, folder: ProjectFolder, theirs: Path
):
    folder.edit_settings(max_delete_ratio=0.3)
    with folder.open() as project:
        project.import_graphrag(theirs)
        before = table_hashes(project, "graphrag")
        path = theirs / f"{name}.parquet"
        pq.write_table(pq.read_table(path).slice(0, 0), path)
        with pytest.raises(DeletionError, match=r"\.parquet: .* rows .* wait until GraphRAG"):
            project.import_graphrag(theirs)
        assert table_hashes(project, "graphrag") == before


@pytest.mark.parametrize("name", ["communities", "community_reports", "covariates"])
def test_an_import_while_graphrag_writes_takes_nothing_out(
    name: str, folder: ProjectFolder, theirs: Path
):
    folder.edit_settings(max_delete_ratio=0.3)
    with folder.open() as project:
        project.import_graphrag(theirs)
        before = table_hashes(project, "graphrag")
        (theirs / f"{name}.parquet").unlink()
        for _ in range(2):
            with pytest.raises(DeletionError, match=rf"{name}\.parquet: .*wait until GraphRAG"):
                project.import_graphrag(theirs)
        assert table_hashes(project, "graphrag") == before
        project.import_graphrag(theirs, options=RunOptions(allow_deletes=True))
        assert table_hashes(project, "graphrag") != before


def test_reports_on_new_communities_take_no_keep_within(folder: ProjectFolder):
    set_args(folder, "graphrag_reports", keep_reports={"keep_within": 0.2})
    told = folder.invoke("index", "graphrag_reports")
    assert (told.exit_code, "keep_within" in told.stderr) == (2, True), told.stderr


@pytest.mark.parametrize("kind", ["graphml", "csv", "neo4j-admin", "parquet"])
def test_export(kind: str, folder: ProjectFolder, theirs: Path, tmp_path: Path):
    folder.invoke("import", "graphrag", str(theirs))
    refused = folder.invoke("export", kind, str(tmp_path / "shown"))
    assert (refused.exit_code, "--workflow graphrag" in refused.stderr) == (2, True), refused.stderr
    folder.edit_settings(workflow="graphrag")
    shown = folder.invoke("export", kind, str(tmp_path / "shown"))
    assert shown.exit_code == 0, shown.stderr
    told = folder.invoke(
        "export", kind, str(tmp_path / "told"), "--workflow", "graphrag", "--json"
    ).json
    assert set(told["files"]) == {path.name for path in Path(told["folder"]).iterdir()}
    assert all(name in shown.stdout for name in told["files"])
    assert (
        ("neo4j-admin database import full" in shown.stdout)
        == (kind == "neo4j-admin")
        == bool(told["command"])
    )
    assert folder.invoke("export", kind, str(tmp_path / "told")).exit_code == 2
    assert folder.invoke("export", kind, str(tmp_path / "told"), "--force").exit_code == 0


def test_the_api_refuses_as_the_command_does(folder: ProjectFolder, tmp_path: Path):
    with folder.open() as project, pytest.raises(UsageError, match="nothing to export"):
        project.export("csv", tmp_path / "out")


def test_a_second_import_of_lightrag_changes_nothing(folder: ProjectFolder):
    first = folder.invoke("import", "lightrag", str(INDEX), "--json")
    assert (first.exit_code, first.json["totals"]["calls"]) == (0, 0), first.stderr
    with folder.open() as project:
        names = set(project.table("entities", "lightrag")["name"])
        assert {"Skarrow Lamp", "林秋雁", "Tide Book", "Otto Brun"} <= names
        assert len({name for name in names if name.casefold() == "ada holm"}) == 1
        again = project.import_lightrag(INDEX)
        assert {step.action for step in again.steps} == {"reused"}


def test_an_import_of_lightrag_tells_what_it_leaves_out(folder: ProjectFolder):
    shown = folder.invoke("import", "lightrag", str(INDEX))
    assert shown.exit_code == 0, shown.stderr
    assert "Vectors of LightRAG are not taken" in shown.stdout
    rejects = folder.invoke("rejects", "lightrag").stdout
    assert "Hand-made Bell" in rejects


def test_edits_in_lightrag_become_corrections_once(folder: ProjectFolder, tmp_path: Path):
    theirs = Path(shutil.copytree(INDEX, tmp_path / "rag_storage"))
    edit_graph(theirs)
    file = folder.root / "corrections.jsonl"
    with folder.open() as project:
        report = project.import_lightrag(theirs)
        assert any("7 corrections of edits in LightRAG" in note for note in report.notes)
        assert any("(Lonely Rock, 林秋雁); see rejects" in note for note in report.notes)
        written = file.read_text("utf-8")
        entities = project.table("entities", "lightrag").set_index("name")
        assert entities.loc["Tessing", "description"] == "A town, as a person says."
        assert entities.loc["周明", "type"] == "KEEPER"
        assert entities.loc["Hand-made Bell", "description"] == "Made by hand."
        assert {"Book of Tides"} <= set(entities.index)
        assert "Tide Book" not in entities.index
        project.import_lightrag(theirs)
        assert file.read_text("utf-8") == written
        undone = next(line for line in project.corrections() if line.decision.kind == "set_type")
        project.undo_correction(undone.decision.id)
        project.import_lightrag(theirs)
        assert "set_type" not in file.read_text("utf-8")
        # An index without the edits takes back the lines that an import has written.
        project.import_lightrag(INDEX)
        kinds = [json.loads(line)["kind"] for line in file.read_text("utf-8").splitlines()]
        assert kinds == ["describe_entity"]


def test_an_edit_that_contradicts_a_correction_is_told(folder: ProjectFolder):
    own = {"kind": "describe_entity", "entity": "Tessing", "description": "A city."}
    with folder.open() as project:
        project.add_correction(own)
        report = project.import_lightrag(INDEX)
        assert any("is not added: they contradict each other" in note for note in report.notes)
        entities = project.table("entities", "lightrag").set_index("name")
        assert entities.loc["Tessing", "description"] == "A city."


def test_a_changed_index_of_lightrag_gives_what_a_full_build_gives(
    folder: ProjectFolder, tmp_path: Path
):
    theirs = Path(shutil.copytree(INDEX, tmp_path / "rag_storage"))
    status = theirs / "kv_store_doc_status.json"
    with folder.open() as project:
        project.import_lightrag(theirs)
        rows = json.loads(status.read_text(encoding="utf-8"))
        gone = next(id for id, row in rows.items() if row["file_path"] == "harbour.txt")
        rows[gone]["status"] = "failed"
        status.write_text(json.dumps(rows), encoding="utf-8")
        project.import_lightrag(theirs, options=RunOptions(allow_deletes=True))
    other = new_project(tmp_path / "full", NO_STORE)
    with folder.open() as project, other.open() as full:
        full.import_lightrag(theirs)
        for name in TABLES:
            tables = (one.table(name, "lightrag") for one in (project, full))
            pd.testing.assert_frame_equal(*tables)
        assert "Tessing" not in set(project.table("entities", "lightrag")["name"])


def test_faults_of_lightrag_are_told(folder: ProjectFolder, tmp_path: Path):
    done = folder.invoke("import", "lightrag", str(tmp_path), "--json")
    assert (done.exit_code, done.json["outcome"]) == (2, "failed")
    assert "no kv_store_full_docs.json" in done.stderr
    other = folder.invoke("import", "lightrag", str(INDEX), "--workflow", "fast", "--json")
    assert "no step read_lightrag" in other.stderr
