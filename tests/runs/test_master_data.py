"""Master data: aliases in texts link to the entities of rows, which carry their ids everywhere."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project, workspace_of
from tests.servers.neo4j_server import Neo4jAddress
from tests.servers.openai_server import OpenAIServer
from tests.states import is_extraction, models, neo4j_rows

DOCUMENTS = {
    "a.txt": "Mira Vale built the Harrow Light for Tollen Foundry. Mira Vale lived at Quill.",
    "b.txt": "Anselm Torr met Mira Vale. Tollen Foundry paid Anselm Torr.",
}
HEADER = "id,name,type,aliases,description,country\n"
ROW = "C-1,Tollen Works,company,Tollen Foundry;TW,It casts lamps.,NO\n"
ENTRY = "firms.csv:\n  kind: entities\n"


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, DOCUMENTS)


def write(folder: ProjectFolder, rows: str, entry: str = ENTRY) -> None:
    path = folder.root / "tables"
    path.mkdir(exist_ok=True)
    (path / "tables.yaml").write_text(entry, "utf-8")
    (path / "firms.csv").write_text(HEADER + rows, "utf-8")


def entity_of(project: Project, name: str) -> dict[Any, Any]:
    entities = project.table("entities", "fast")
    (found,) = entities[entities["name"] == name].to_dict("records")
    return found


def values_of(project: Project, name: str, property: str = "external_id") -> set[str]:
    values = project.table("attributes", "fast")
    is_meant = values["entity_id"] == entity_of(project, name)["id"]
    return set(values["value"][is_meant & (values["name"] == property)])


def names(project: Project, table: str = "entities") -> set[str]:
    return set(project.table(table, "fast")["name"])


def sources(project: Project, name: str) -> set[str]:
    """Return the sources of the documents that mention an entity."""
    units = project.table("text_units", "fast").set_index("id")
    documents = project.table("documents", "fast").set_index("id")["source"]
    ids = units.loc[list(entity_of(project, name)["text_unit_ids"]), "document_id"]
    return {documents[id] for id in ids}


def reasons(project: Project) -> list[str]:
    return sorted(project.table("rejects", "fast")["reason"])


@pytest.fixture(scope="module")
def loaded(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, neo4j_address: Neo4jAddress
) -> Iterator[Project]:
    """A project with master data and without an ontology, in both stores."""
    stores = {
        "postgres": {"url": postgres_url}, "graph": "neo4j", "neo4j": asdict(neo4j_address),
    }  # fmt: skip
    root = tmp_path_factory.mktemp("master") / "p"
    folder = new_project(root, NO_STORE, DOCUMENTS)
    folder.edit_settings(stores=stores, workspace=workspace_of(root))
    write(folder, ROW)
    with folder.open() as project:
        assert project.run("fast").exit_code == 0
        yield project


def test_mentions_of_an_alias_link_to_the_entity_of_the_row(loaded: Project):
    assert not names(loaded) & {"Tollen Foundry", "TW"}
    assert sources(loaded, "Tollen Works") == {"a.txt", "b.txt", "tables/firms.csv#C-1"}
    assert "It casts lamps." in entity_of(loaded, "Tollen Works")["description"]


def test_the_id_is_a_value_with_the_row_as_its_source(loaded: Project):
    values = loaded.table("attributes", "fast").set_index("name")
    assert dict(values["value"]) == {"external_id": "C-1", "country": "NO"}
    documents = loaded.table("documents", "fast").set_index("id")
    source = documents.loc[values.loc["external_id", "document_id"]]
    assert source["title"] == "table firms.csv, row #2"
    assert source["text"].startswith("Tollen Works (company). Also called Tollen Foundry, TW.")


def test_exports_and_neo4j_carry_the_id(
    loaded: Project, neo4j_address: Neo4jAddress, tmp_path: Path
):
    nodes = neo4j_rows(neo4j_address, loaded.settings.workspace)
    (node,) = [row for rows in nodes.values() for row in rows if "prop_external_id" in row]
    assert "C-1" in node
    carrying = {"csv": "external_id", "graphml": "prop_external_id"}
    for kind, name in {**carrying, "neo4j-admin": "prop_external_id"}.items():
        exported = loaded.export(kind, tmp_path / kind, "fast")
        texts = [path.read_text("utf-8") for path in exported.folder.iterdir() if path.is_file()]
        assert any(name in text for text in texts), kind
        assert any("C-1" in text for text in texts), kind


def test_a_question_shows_the_id_and_may_ask_for_it(loaded: Project):
    data = loaded.query_data("What does Tollen Works cast?", mode="local")
    assert "C-1" in json.dumps(data)
    where = {"entity.external_id": "C-1"}
    chosen = loaded.query_data("Who casts lamps?", mode="naive", where=where)
    assert "row #2" in json.dumps(chosen)
    assert "Anselm Torr" not in json.dumps(chosen)


def test_two_rows_and_two_ids_of_one_entity_are_both_kept(folder: ProjectFolder):
    write(folder, ROW + "C-2,TOLLEN WORKS,company,,,\n")
    with folder.open() as project:
        project.index("fast")
        (name,) = names(project) & {"Tollen Works", "TOLLEN WORKS"}
        assert values_of(project, name) == {"C-1", "C-2"}
        properties = project.table("entity_properties", "fast").set_index("id")["properties"]
        cell = json.loads(str(properties[entity_of(project, name)["id"]]))
        assert cell["external_id"] == ["C-1", "C-2"]


FAULTY = (
    (",Brask,company,,,\n", "incomplete"),
    ("n/a,Brask,company,,,\n", "incomplete"),
    ("C-2,,company,,,\n", "incomplete"),
    ("C-1,Brask,company,,,\n", "duplicate_id"),
    ("C-2,Brask,company,=A1,,\n", "parse"),
    ("C-2,Brask,company,Tollen Works,,\n", "ambiguous_alias"),
)


def test_rows_that_cannot_be_used_are_rejects_with_file_and_line(folder: ProjectFolder):
    write(folder, ROW + "".join(row for row, _ in FAULTY))
    with folder.open() as project:
        project.index("fast")
        rejects = project.table("rejects", "fast")
        found = dict(zip(rejects["row_id"], rejects["reason"], strict=True))
        expected = {}
        for line, (_, reason) in enumerate(FAULTY, start=3):
            expected[f"tables/firms.csv:{line}"] = reason
        assert found == expected
        assert {"Tollen Works", "Brask"} <= names(project)


def test_a_row_that_changes_or_goes_changes_what_mentions_link_to(folder: ProjectFolder):
    write(folder, ROW + "C-2,Brask,company,,,\n")
    with folder.open() as project:
        project.index("fast")
        write(folder, "C-1,Tollen Works,company,,,\nC-2,Brask,company,Tollen Foundry,,\n")
        project.index("fast")
        assert sources(project, "Tollen Works") == {"tables/firms.csv#C-1"}
        assert sources(project, "Brask") == {"a.txt", "b.txt", "tables/firms.csv#C-2"}
        write(folder, "C-1,Tollen Works,company,,,\n")
        project.index("fast")
        assert "Tollen Foundry" in names(project)
        assert "Brask" not in names(project)


def test_corrections_of_people_win_and_a_try_of_one_knows_the_aliases(folder: ProjectFolder):
    write(folder, ROW)
    rename = {"kind": "rename", "entity": "Tollen Foundry", "to": "Foundry of Tollen"}
    with folder.open() as project:
        project.index("fast")
        described = {"kind": "set_type", "entity": "Tollen Works", "to": "MILL"}
        tried = project.add_correction(described, "fast", dry_run=True).effect
        assert tried.text_units == 3
        said = project.what_was_said("Tollen Works", workflow="fast").said
        assert {one.name for one in said} == {"Tollen Foundry", "Tollen Works"}
        project.add_correction(rename, "fast")
        value = {"kind": "set_property", "entity": "Tollen Works", "property": "external_id"}
        project.add_correction({**value, "value": "C-9"}, "fast")
        project.index("fast")
        assert "Foundry of Tollen" in names(project)
        assert values_of(project, "Tollen Works") == {"C-9"}


def test_an_ontology_without_properties_lets_the_id_in_alone(folder: ProjectFolder):
    write(folder, ROW, f"{ENTRY}  id_property: register_number\n")
    ontology = "entity_types: [COMPANY]\notherwise: other\n"
    (folder.root / "ontology.yaml").write_text(ontology, "utf-8")
    with folder.open() as project:
        project.index("fast")
        assert values_of(project, "Tollen Works", "register_number") == {"C-1"}
        assert len(project.table("attributes", "fast")) == 1
        assert "unknown_property" in reasons(project)


def test_a_view_without_the_row_does_not_follow_its_aliases(tmp_path: Path):
    views = {
        "texts": {"where": {"table": {"exists": False}}},
        "rows": {"where": {"table": "firms.csv"}},
    }
    folder = new_project(tmp_path / "p", NO_STORE, DOCUMENTS, serve={"views": views})
    write(folder, ROW)
    with folder.open() as project:
        project.index("fast")
        assert "Tollen Foundry" in names(project, "entities@texts")
        assert "Tollen Works" not in names(project, "entities@texts")
        assert project.table("attributes@texts", "fast").empty
        assert names(project, "entities@rows") == {"Tollen Works"}


def test_linking_asks_no_model_and_the_plan_says_so(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", NO_STORE, DOCUMENTS, models=models(openai))
    with folder.open() as project:
        project.index("index")
        openai.forget()
        write(folder, ROW)
        calls = {one.planned.step.id: one.estimate.calls for one in project.forecast()}
        assert calls["extract_graph"] == (0, 0)
        project.index("index")
        assert not any(map(is_extraction, openai.requests))
        chats = [request for request in openai.requests if request.kind == "chat"]
        assert len(chats) <= calls["summarize_descriptions"][1]
        assert "Tollen Foundry" not in set(project.table("entities", "index")["name"])


def test_the_command_imports_master_data(folder: ProjectFolder, tmp_path: Path):
    path = tmp_path / "companies.csv"
    path.write_text("Number,name,aliases\nC-1,Tollen Works,Tollen Foundry\n", "utf-8")
    arguments = ("import", "triples", str(path), "--column", "id=Number")
    assert folder.invoke(*arguments, "--column", "aliases=also").exit_code == 2
    done = folder.invoke(*arguments, "--entities", "--json")
    assert done.json["entities"] == 1
    written = (folder.root / "tables" / "tables.yaml").read_text("utf-8")
    assert "kind: entities" in written
    with folder.open() as project:
        project.index("fast")
        assert values_of(project, "Tollen Works") == {"C-1"}
