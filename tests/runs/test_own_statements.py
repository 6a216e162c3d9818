"""A statement that no document states is a document of its own."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.project import Project
from pipeline.verbs.filter_documents import FilterParams, filter_documents
from tests.projects import NO_STORE, ProjectFolder, new_project, write_yaml

DOCUMENTS = {
    "a.txt": "Mira Vale built the Harrow Light. Mira Vale lived at Quill.",
    "b.txt": "Anselm Torr met Mira Vale at the Harrow Light. Anselm Torr drew it.",
}
ADDED: dict[str, Any] = {
    "kind": "add_statement", "source": "Mira Vale", "target": "Lone Rock", "type": "SURVEYED",
    "description": "Mira Vale surveyed Lone Rock in 1851.", "by": "ann",
}  # fmt: skip
RENAME = {"kind": "rename", "entity": "Anselm Torr", "to": "A. Torr"}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, DOCUMENTS)


def added_titles(project: Project) -> list[str]:
    documents = project.table("documents", "fast")
    return sorted(documents["title"][documents["title"].str.startswith("correction ")])


def surveyed(project: Project) -> list[list[str]]:
    links = project.table("relationships", "fast")
    is_surveyed = ["SURVEYED" in words for words in links["keywords"]]
    return links[is_surveyed][["source", "target", "description"]].to_numpy().tolist()


def test_a_run_makes_a_document_of_it_that_cites_it_and_an_undo_takes_it_out(folder: ProjectFolder):
    with folder.open() as project:
        project.index("fast")
        before = project.table("documents", "fast")
        added = project.add_correction(ADDED, "fast")
        assert added.notes == ("the next run makes a document of it, by which it is cited",)
        assert [effect.pending for effect in project.corrections("fast")] == [True]
        report = project.index("fast")
        assert report.exit_code == 0
        assert not [note for note in report.notes if "correction" in note]
        id = added.effect.decision.id
        assert added_titles(project) == [f"correction #{id}, by ann"]
        (found,) = surveyed(project)
        assert found == ["Mira Vale", "Lone Rock", ADDED["description"]]
        units = project.table("text_units", "fast")
        statements = project.table("statements", "fast").set_index("type")
        text = units.set_index("id").loc[statements.loc["SURVEYED", "text_unit_id"], "text"]
        assert text == "Mira Vale SURVEYED Lone Rock. Mira Vale surveyed Lone Rock in 1851."
        (effect,) = project.corrections("fast")
        assert (effect.records, effect.pending) == (1, False)

        project.undo_correction(id, "fast")
        project.index("fast")
        assert not surveyed(project)
        assert project.table("documents", "fast")["id"].tolist() == before["id"].tolist()


def test_a_person_has_the_last_word_on_its_type(folder: ProjectFolder):
    write_yaml(
        folder.root / "ontology.yaml",
        {
            "entity_types": ["PERSON", "PLACE"],
            "relationship_types": ["BUILT"],
            "otherwise": {"entity_types": "other"},
        },
    )
    with folder.open() as project:
        added = project.add_correction(ADDED, "fast")
        assert any("no relationship type 'SURVEYED'" in note for note in added.notes)
        project.index("fast")
        assert len(surveyed(project)) == 1


def test_it_is_beside_the_rows_of_tables(folder: ProjectFolder):
    facts = folder.root / "facts.csv"
    facts.write_text("source,type,target\nAnselm Torr,SURVEYED,Quill\n", encoding="utf-8")
    with folder.open() as project:
        project.import_triples(facts)
        project.index("fast")
        project.add_correction(ADDED, "fast")
        project.index("fast")
        assert sorted(ends[:2] for ends in surveyed(project)) == [
            ["Anselm Torr", "Quill"], ["Mira Vale", "Lone Rock"],
        ]  # fmt: skip


def test_corrections_that_are_applied_at_once_leave_it_to_the_next_run(
    tmp_path: Path, postgres_url: str
):
    folder = new_project(tmp_path / "p", postgres_url, DOCUMENTS)
    first = {**ADDED, "target": "Quill"}
    with folder.open() as project:
        project.index("fast")
        project.add_correction(RENAME, "fast")
        project.add_correction(first, "fast")
        with pytest.raises(UsageError, match="1 added statement without"):
            project.apply_corrections("fast")
        project.index("fast")
        project.undo_correction(project.corrections("fast")[-1].decision.id, "fast")
        project.add_correction(ADDED, "fast")
        report = project.apply_corrections("fast")
        assert report.exit_code == 0, report.message
        assert not surveyed(project)
        assert "A. Torr" in set(project.table("entities", "fast")["name"])
        assert any("each becomes a document" in note for note in report.notes), report.notes
        assert [effect.pending for effect in project.corrections("fast")] == [False, True]
        project.index("fast")
        assert len(surveyed(project)) == 1
        project.undo_correction(project.corrections("fast")[-1].decision.id, "fast")
        report = project.apply_corrections("fast")
        assert report.exit_code == 0, report.message
        assert not surveyed(project)
        project.index("fast")
        assert not added_titles(project)


def test_no_condition_chooses_its_document(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "p", postgres_url, DOCUMENTS)
    with folder.open() as project:
        project.add_correction(ADDED, "fast")
        assert project.run("fast").exit_code == 0
        documents = project.table("documents", "fast")
        others = {"team": {"!=": "harbour"}}
        chosen = filter_documents(documents, FilterParams(where=others))
        assert set(chosen["source"]) == set(DOCUMENTS)
        question = "Who surveyed Lone Rock?"
        titled = {"title": {"exists": True}}
        for where, number in ((None, 3), (others, 2), (titled, 2)):
            found = project.query_data(question, mode="naive", where=where)
            texts = [unit["content"] for unit in found["chunks"]]
            assert len(texts) == number
            assert any("SURVEYED" in text for text in texts) == (number == 3)


def test_a_folder_that_holds_no_tables_of_the_project_is_not_read(folder: ProjectFolder):
    (folder.root / "tables").mkdir()
    (folder.root / "tables" / "facts.csv").write_text("source,target\nA,B\n", encoding="utf-8")
    with folder.open() as project:
        project.add_correction(ADDED, "fast")
        project.index("fast")
        assert len(project.table("documents", "fast")) == len(DOCUMENTS) + 1
        assert len(added_titles(project)) == 1


def test_its_document_is_purged_after_an_undo(tmp_path: Path, postgres_url: str):
    folder = new_project(tmp_path / "p", postgres_url, DOCUMENTS)
    with folder.open() as project:
        project.add_correction(ADDED, "fast")
        assert project.run("fast").exit_code == 0
        documents = project.table("documents", "fast")
        (source,) = documents["source"][documents["title"].str.startswith("correction ")]
        with pytest.raises(UsageError, match="still in corrections"):
            project.purge(source)
        project.undo_correction(source.partition("#")[2], "fast")
        assert project.run("fast").exit_code == 0
        assert project.purge(source).exit_code == 0
        assert not surveyed(project)


def test_a_quote_without_a_document_is_refused(folder: ProjectFolder):
    with folder.open() as project, pytest.raises((UsageError, ValueError)):
        project.add_correction({**ADDED, "quote": "Quill"}, "fast")
