"""Corrections of properties in a project whose model was never asked for any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.contract.views import in_view
from pipeline.errors import SettingsError, UsageError
from pipeline.project import Project
from pipeline.text.ids import document_id, entity_id
from tests.projects import NO_STORE, ProjectFolder, new_project, workspace_of, write_yaml
from tests.states import postgres_rows, table_hashes

DOCUMENTS = {
    "a.txt": "Mira Vale built the Harrow Light. Mira Vale lived at Quill.",
    "b.txt": "Anselm Torr met Mira Vale at the Harrow Light. Anselm Torr drew it.",
    "c.txt": "The Brack Institute taught Anselm Torr.",
}
PROPERTIES: list[dict[str, Any]] = [
    {"name": "height", "synonyms": ["tallness"], "type": "number", "unit": "m"},
    {"name": "built", "type": "date"},
    {"name": "state", "type": "enum", "values": ["open", "closed"]},
    {"name": "code", "pattern": "[A-Z]{2}"},
]
ONTOLOGY: dict[str, Any] = {
    "entity_types": [{"name": "THING", "properties": PROPERTIES}, "PERSON"],
    "otherwise": {"entity_types": "other"},
}
LIGHT = entity_id("Harrow Light")
THING = {"kind": "set_type", "entity": "Harrow Light", "to": "THING"}
HEIGHT = {
    "kind": "set_property", "entity": "Harrow Light", "property": "height", "value": "1,200 ft",
    "by": "ann",
}  # fmt: skip
CITED = {**HEIGHT, "document": "b.txt"}
WHERE = {"source": {"in": ["a.txt", "c.txt"]}}


def new_lights(root: Path, postgres_url: str = NO_STORE) -> ProjectFolder:
    folder = new_project(root, postgres_url, DOCUMENTS)
    write_yaml(folder.root / "ontology.yaml", ONTOLOGY)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = new_lights(tmp_path / "p")
    with folder.open() as project:
        project.add_correction(THING, "fast")
    return folder


def values(project: Project, table: str = "attributes") -> list[tuple[str, ...]]:
    columns = ["entity_id", "name", "value", "document_id", "correction"]
    rows = project.table(table, "fast")[columns]
    return list(rows.itertuples(index=False, name=None))


def test_a_value_of_a_person_needs_neither_a_model_nor_a_document(folder: ProjectFolder):
    with folder.open() as project:
        tried = project.add_correction(HEIGHT, "fast", dry_run=True)
        assert len(project.corrections("fast")) == 1
        project.index("fast")
        assert values(project) == []
        added = project.add_correction(HEIGHT, "fast").effect.decision
        assert added.id == tried.effect.decision.id
        report = project.index("fast")
        assert report.exit_code == 0
        assert values(project) == [
            (LIGHT, "height", "365.76", "", f"correction {added.id}, by ann")
        ]
        (_, effect) = project.corrections("fast")
        assert (effect.records, effect.text_units) == (2, 2)
        project.undo_correction(added.id, "fast")
        project.index("fast")
        assert values(project) == []


def test_a_value_is_cited_by_the_document_that_its_line_names(folder: ProjectFolder):
    with folder.open() as project:
        added = project.add_correction(CITED, "fast").effect.decision
        project.index("fast")
        source = f"correction {added.id}, by ann"
        assert values(project) == [(LIGHT, "height", "365.76", document_id("b.txt"), source)]
        folder.write("b.txt", "")
        (folder.root / "data/input/b.txt").unlink()
        report = project.index("fast")
        assert values(project) == []
        assert any(f"{added.id} matches nothing" in note for note in report.notes)


def test_a_night_with_corrections_equals_a_full_build(folder: ProjectFolder, tmp_path: Path):
    lines = [THING, HEIGHT, {**HEIGHT, "property": "built", "value": "May 1850"}]
    whole = new_lights(tmp_path / "whole")
    with folder.open() as project, whole.open() as full:
        project.index("fast")
        for line in lines[1:]:
            project.add_correction(line, "fast")
        project.index("fast")
        for line in lines:
            full.add_correction(line, "fast")
        full.index("fast")
        assert len(values(project)) == 2
        assert table_hashes(project, "fast") == table_hashes(full, "fast")


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"value": "12 kg"}, "the unit 'kg' does not convert to 'm'"),
        ({"property": "built", "value": "1850-02-30"}, "no date that exists"),
        ({"property": "state", "value": "burnt"}, "none of open, closed"),
        ({"property": "code", "value": "abc"}, r"not in the pattern \[A-Z\]\{2\}"),
        ({"property": "built", "value": "unknown"}, "there is no value"),
        ({"property": "weight"}, "type THING has no property 'weight'.*built, code, height, state"),
        ({"kind": "delete_property", "property": "weight", "value": ""}, "has no property"),
    ],
)
def test_a_value_that_the_ontology_does_not_have_is_refused_with_the_reason(
    folder: ProjectFolder, change: Mapping[str, str], fact: str
):
    with folder.open() as project:
        with pytest.raises(UsageError, match=fact):
            project.add_correction({**HEIGHT, **change}, "fast")
        assert len(project.corrections("fast")) == 1


def test_the_type_of_the_last_run_decides_which_properties_an_entity_has(folder: ProjectFolder):
    with folder.open() as project:
        project.index("fast")
        types = dict(project.table("entities", "fast")[["name", "type"]].to_numpy().tolist())
        assert types["Mira Vale"] != "THING"
        person = {"kind": "set_type", "entity": "Mira Vale", "to": "PERSON"}
        project.add_correction(person, "fast")
        with pytest.raises(UsageError, match="type PERSON has no property 'height'"):
            project.add_correction({**HEIGHT, "entity": "Mira Vale"}, "fast")


def test_an_entity_outside_the_ontology_gets_a_property_after_its_type(tmp_path: Path):
    folder = new_lights(tmp_path / "p")
    with folder.open() as project:
        project.index("fast")
        types = dict(project.table("entities", "fast")[["name", "type"]].to_numpy().tolist())
        assert types["Harrow Light"] == "OTHER"
        with pytest.raises(UsageError, match=r"type OTHER has no property 'height'.*type THING"):
            project.add_correction(HEIGHT, "fast")
        project.add_correction(THING, "fast")
        project.add_correction(HEIGHT, "fast")
        project.index("fast")
        assert [value for _, _, value, *_ in values(project)] == ["365.76"]


def test_a_synonym_becomes_the_name_of_the_property(folder: ProjectFolder):
    with folder.open() as project:
        added = project.add_correction({**HEIGHT, "property": "Tallness"}, "fast")
        assert added.effect.to_json()["property"] == "height"


def test_properties_without_an_ontology_are_refused(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE, DOCUMENTS)
    with folder.open() as project, pytest.raises(UsageError, match="declares no property"):
        project.add_correction(HEIGHT, "fast")


def test_a_line_whose_ontology_went_is_told_by_each_run(folder: ProjectFolder):
    with folder.open() as project:
        project.add_correction(HEIGHT, "fast")
        (folder.root / "ontology.yaml").unlink()
        notes = project.index("fast").notes
    assert any("1 correction of properties without effect" in note for note in notes)


def test_two_values_of_one_property_contradict_each_other(folder: ProjectFolder):
    with folder.open() as project:
        project.add_correction(HEIGHT, "fast")
        with pytest.raises(SettingsError, match="contradict each other") as refused:
            project.add_correction({**HEIGHT, "value": "12 m"}, "fast")
        assert "1,200 ft" in str(refused.value)
        assert "12 m" in str(refused.value)


def test_a_purge_removes_the_values_that_its_document_is_cited_for(
    tmp_path: Path, postgres_url: str
):
    folder = new_lights(tmp_path / "loaded", postgres_url)
    with folder.open() as project:
        project.add_correction(THING, "fast")
        project.add_correction(CITED, "fast")
        built = {**HEIGHT, "property": "built", "value": "1850"}
        kept = project.add_correction(built, "fast").effect.decision
        project.index("fast")
        project.purge("b.txt")
        assert [one.decision.id for one in project.corrections("fast")][1:] == [kept.id]
        assert [name for _, name, *_ in values(project)] == ["built"]


def test_a_view_has_the_values_that_its_documents_are_cited_for(folder: ProjectFolder):
    folder.edit_settings(serve={"views": {"some": {"where": WHERE}}})
    cited = {**CITED, "property": "built", "value": "1850", "document": "a.txt"}
    with folder.open() as project:
        for line in (HEIGHT, cited, {**CITED, "property": "state", "value": "open"}):
            project.add_correction(line, "fast")
        project.index("fast")
        assert [name for _, name, *_ in values(project)] == ["built", "height", "state"]
        seen = values(project, in_view("attributes", "some"))
    assert [name for _, name, *_ in seen] == ["built"]


def test_values_are_applied_at_once_and_shown_without_a_document(tmp_path: Path, postgres_url: str):
    folder = new_lights(tmp_path / "p", postgres_url)
    with folder.open() as project:
        project.add_correction(THING, "fast")
        project.run("fast")
        project.add_correction(HEIGHT, "fast")
        folder.write("d.txt", "Nothing of this is read.")
        report = project.apply_corrections("fast")
        assert report.exit_code == 0
        loaded = postgres_rows(postgres_url, workspace_of(folder.root))["graphmill_attributes"]
        assert [row["value"] for (row,) in loaded] == ["365.76"]
        assert project.verify().agrees
        applied = table_hashes(project, "fast")
        (folder.root / "data/input/d.txt").unlink()
        project.run("fast")
        assert table_hashes(project, "fast") == applied
