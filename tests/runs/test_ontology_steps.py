"""A project with ontology.yaml has the steps that enforce it, in each workflow that merges."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project, write_yaml

ONTOLOGY: dict[str, Any] = {
    "entity_types": [
        {"name": "PERSON", "synonyms": ["name"]},
        {"name": "BUILDING", "synonyms": ["organization"]},
    ],
    "relationship_types": [{"name": "FOUNDED", "synonyms": ["founded by"]}],
    "patterns": [["PERSON", "FOUNDED", "BUILDING"]],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A project with an ontology that has run once."""
    folder = new_project(tmp_path_factory.mktemp("ontology") / "p", NO_STORE)
    with folder.open() as project:
        project.index("fast")
    decide(folder, ONTOLOGY)
    with folder.open() as project:
        report = project.index("fast")
        assert report.exit_code == 0, report
    return folder


def decide(folder: ProjectFolder, ontology: object) -> None:
    write_yaml(folder.root / "ontology.yaml", ontology)


def actions(project: Project) -> dict[str, str]:
    return {entry.step.id: entry.action for entry in project.plan("fast")}


def test_without_the_file_the_workflow_is_that_of_its_own_file(tmp_path: Path):
    with new_project(tmp_path / "p", NO_STORE).open() as project:
        steps = [step.id for step in project.workflow("fast").steps]
    assert "conform_extractions" not in steps
    assert "check_patterns" not in steps


def test_the_steps_are_around_the_merge_in_every_workflow(folder: ProjectFolder):
    with folder.open() as project:
        for name in ("fast", "index", "communities", "claims"):
            steps = [step.id for step in project.workflow(name).steps]
            merge = steps.index("merge_graphs")
            assert steps[merge - 1 : merge + 2] == [
                "conform_extractions", "merge_graphs", "check_patterns",
            ]  # fmt: skip
        assert not {"check_patterns"} & {step.id for step in project.workflow("graphrag").steps}


def test_extractions_keep_what_was_said_and_the_graph_has_the_types(folder: ProjectFolder):
    with folder.open() as project:
        said, graph = project.table("extractions", "fast"), project.table("entities", "fast")
        statements, rejects = project.table("statements", "fast"), project.rejects("fast")
    assert "name" in set(said["type"])
    assert set(graph["type"]) == {"PERSON", "BUILDING"}
    assert set(statements["type"]) == {"FOUNDED"}
    decided = rejects[rejects["reason"].isin(["not_in_ontology", "not_in_patterns"])]
    assert len(decided)


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({}, None),
        ({"entity_types": ["PERSON"]}, r"7 of 8 entities are left out, for no text gives them a"),
    ],
)
def test_a_run_says_when_the_ontology_leaves_out_most_entities(
    folder: ProjectFolder, tmp_path: Path, given: dict[str, Any], note: str | None
):
    copied = folder.copy(tmp_path / "copy")
    write_yaml(copied.root / "ontology.yaml", {**ONTOLOGY, "patterns": [], **given})
    with copied.open() as project:
        notes = "\n".join(project.index("fast").notes)
    if note is None:
        assert "left out" not in notes
    else:
        assert re.search(note, notes), notes


def test_a_founder_is_the_source_whatever_the_sentence_says(folder: ProjectFolder):
    """The text says "The Brack Institute was founded by Idra Senn"."""
    with folder.open() as project:
        links = project.table("relationships", "fast")
    founded = links[[words[0] == "FOUNDED" for words in links["keywords"]]]
    assert founded[["source", "target"]].values.tolist() == [["Idra Senn", "Brack Institute"]]


def test_a_type_of_a_correction_is_found_in_any_spelling(folder: ProjectFolder, tmp_path: Path):
    copied = folder.copy(tmp_path / "copy")
    with copied.open() as project:
        (founder, *_) = project.table("relationships", "fast")["source"]
        line = {"kind": "set_type", "entity": founder, "to": "organizations"}
        project.add_correction(line, "fast")
        project.index("fast")
        graph = project.table("entities", "fast").set_index("name")
    assert graph["type"][founder] == "BUILDING"
    assert set(graph["type"]) == {"PERSON", "BUILDING"}


@pytest.mark.parametrize(
    ("line", "notes"),
    [
        (
            {"kind": "set_type", "to": "bilding"},
            ["entity type 'bilding', but BUILDING"],
        ),
        ({"kind": "set_type", "to": "buildings"}, ["type 'buildings' is written 'BUILDING'"]),
    ],
)
def test_a_correction_says_that_the_ontology_lacks_or_respells_its_type(
    folder: ProjectFolder, line: dict[str, str], notes: list[str]
):
    with folder.open() as project:
        line = {**line, "entity": project.table("entities", "fast")["name"][0]}
        given = project.add_correction(line, "fast", dry_run=True).notes
    assert len(given) == len(notes)
    for note, expected in zip(given, notes, strict=True):
        assert expected in note


def test_nothing_runs_again_without_a_change_and_a_description_changes_nothing(
    folder: ProjectFolder, tmp_path: Path
):
    copied = folder.copy(tmp_path / "p")
    person, building = ONTOLOGY["entity_types"]
    described = {**person, "description": "A human being"}
    decide(copied, {**ONTOLOGY, "entity_types": [described, building]})
    with copied.open() as project:
        assert set(actions(project).values()) == {"reuse"}


def test_a_change_that_changes_no_row_runs_its_step_alone(folder: ProjectFolder, tmp_path: Path):
    copied = folder.copy(tmp_path / "p")
    decide(copied, {**ONTOLOGY, "entity_types": [*ONTOLOGY["entity_types"], "SPACESHIP"]})
    with copied.open() as project:
        ran = [step.step for step in project.index("fast").steps if step.action == "ran"]
    assert ran == ["conform_extractions"]


def test_without_the_file_the_graph_is_the_one_from_before(folder: ProjectFolder, tmp_path: Path):
    copied = folder.copy(tmp_path / "p")
    (copied.root / "ontology.yaml").unlink()
    with copied.open() as project:
        report = project.index("fast")
        assert {step.action for step in report.steps} == {"reused"}
        assert "name" in set(project.table("entities", "fast")["type"])


def test_a_workflow_that_names_the_verb_itself_stays_as_it_is(
    folder: ProjectFolder, tmp_path: Path
):
    copied = folder.copy(tmp_path / "p")
    own = {
        "name": "own",
        "steps": [
            {"verb": "load_documents"},
            {"verb": "chunk_documents"},
            {"verb": "extract_graph_fast"},
            {"verb": "conform_extractions", "args": {"entity_types": {"PERSON": ["name"]}}},
        ],
    }
    write_yaml(copied.root / "workflows" / "own.yaml", own)
    with copied.open() as project:
        assert [step.id for step in project.workflow("own").steps][-1] == "conform_extractions"


def test_a_mistake_stops_every_command_before_any_work(folder: ProjectFolder, tmp_path: Path):
    copied = folder.copy(tmp_path / "p")
    decide(copied, {**ONTOLOGY, "patterns": [["PERSON", "FOUNDED", "BUILDIN"]]})
    said = copied.invoke_refused("index", "fast")
    assert "patterns[0][2]: no entity type 'BUILDIN'; did you mean 'BUILDING'?" in said
