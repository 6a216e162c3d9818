"""The prompt names the types of ontology.yaml once its owner adopts them, and not before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.models.parse.graph_format import GRAPH_JSON_FORMAT
from pipeline.ontology.vocabulary import FILE, parse_vocabulary
from tests.projects import NO_STORE, ProjectFolder, new_project, write_yaml
from tests.servers.openai_server import OpenAIServer, openai_server
from tests.states import models, set_args

ONTOLOGY: dict[str, Any] = {
    "entity_types": [{"name": "PERSON", "description": "A human"}, "LIGHTHOUSE"],
    "relationship_types": [{"name": "BUILT", "synonyms": ["founding"]}],
    "patterns": [["PERSON", "BUILT", "LIGHTHOUSE"]],
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server() as server:
        yield server


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory, endpoint: OpenAIServer) -> ProjectFolder:
    """A project that a model was paid for, with an ontology that came later."""
    root = tmp_path_factory.mktemp("vocabulary") / "p"
    folder = new_project(root, NO_STORE, models=models(endpoint))
    with folder.open() as project:
        project.index("index")
    write_yaml(root / "ontology.yaml", ONTOLOGY)
    return folder


def asked(folder: ProjectFolder, endpoint: OpenAIServer) -> list[dict[str, Any]]:
    """Return the bodies of what a run asks for extraction."""
    endpoint.forget()
    with folder.open() as project:
        report = project.index("index")
    assert report.exit_code == 0, report
    bodies = [one.body for one in endpoint.requests if one.kind == "chat"]
    return [body for body in bodies if "knowledge graph" in str(body["messages"])]


def test_an_ontology_alone_asks_nothing(
    paid: ProjectFolder, endpoint: OpenAIServer, tmp_path: Path
):
    assert not asked(paid.copy(tmp_path / "p"), endpoint)


def test_adopt_tells_the_price_and_writes_nothing_unless_it_is_meant(
    paid: ProjectFolder, tmp_path: Path
):
    folder = paid.copy(tmp_path / "p")
    planned = folder.invoke("ontology", "adopt", "index", "--plan", "--json").json
    steps = {step["step"]: step for step in planned["steps"]}
    assert steps["extract_graph"]["reason"] == "params"
    assert planned["estimate"]["calls"][0] > 0
    said = folder.invoke_refused("ontology", "adopt", "index")
    assert "add --yes" in said
    assert not (folder.root / FILE).exists()


def test_adopt_wants_a_workflow_that_asks_and_names_the_others_that_would(
    paid: ProjectFolder, tmp_path: Path
):
    folder = paid.copy(tmp_path / "p")
    said = folder.invoke_refused("ontology", "adopt", "fast", "--yes")
    assert "'fast' asks no model with these types; name a workflow that does" in said
    assert "index" in said
    assert not (folder.root / FILE).exists()
    other = folder.invoke("ontology", "adopt", "communities", "--plan")
    assert "'graphmill ontology adopt index --plan' says its price" in other.stderr


def test_an_adopted_vocabulary_is_in_every_prompt_and_in_no_later_bill(
    paid: ProjectFolder, endpoint: OpenAIServer, tmp_path: Path
):
    folder = paid.copy(tmp_path / "p")
    assert folder.invoke("ontology", "adopt", "index", "--yes").exit_code == 0
    bodies = asked(folder, endpoint)
    assert len(bodies) == 3
    instructions = {body["messages"][0]["content"] for body in bodies}
    assert len(instructions) == 1
    (text,) = instructions
    assert "- PERSON: A human\n- LIGHTHOUSE\n" in text
    assert "- BUILT\n" in text
    assert text.endswith("- PERSON BUILT LIGHTHOUSE")
    assert "Types to look for: PERSON, LIGHTHOUSE." in bodies[0]["messages"][1]["content"]
    assert not asked(folder, endpoint)
    # A synonym is no part of the prompt; a type is, once it is adopted.
    more = {**ONTOLOGY, "entity_types": [*ONTOLOGY["entity_types"], "INSTITUTE"]}
    write_yaml(folder.root / "ontology.yaml", more)
    assert not asked(folder, endpoint)
    assert folder.invoke("ontology", "adopt", "index", "--yes").exit_code == 0
    assert folder.invoke("ontology", "adopt", "index", "--yes").stderr.endswith(
        "nothing to adopt\n"
    )
    # Without the file the prompt is the one from before, and its replies are known.
    (folder.root / FILE).unlink()
    assert not asked(folder, endpoint)


def test_in_json_no_other_type_can_be_written(
    paid: ProjectFolder, endpoint: OpenAIServer, tmp_path: Path
):
    folder = paid.copy(tmp_path / "p")
    set_args(folder, extract_graph={"format": "json"})
    assert folder.invoke("ontology", "adopt", "index", "--yes").exit_code == 0
    form = asked(folder, endpoint)[0]["response_format"]["json_schema"]["schema"]["properties"]
    assert form["entities"]["items"]["properties"]["type"]["enum"] == ["PERSON", "LIGHTHOUSE"]
    keywords = form["relationships"]["items"]["properties"]["keywords"]
    assert keywords["items"]["enum"] == ["BUILT"]
    assert "enum" not in str(GRAPH_JSON_FORMAT)


def test_without_an_ontology_there_is_nothing_to_adopt(tmp_path: Path):
    said = new_project(tmp_path / "p", NO_STORE).invoke_refused("ontology", "adopt")
    assert "no ontology.yaml" in said


def test_a_mistake_in_the_vocabulary_names_its_file_and_line(tmp_path: Path):
    folder = new_project(tmp_path / "p", NO_STORE)
    (folder.root / FILE).write_text("entity_types:\n  - {nam: PERSON}\n", encoding="utf-8")
    said = folder.invoke_refused("plan", "index")
    assert (
        "prompts/vocabulary.yaml:2: entity_types[0].nam: unknown key; did you mean 'name'" in said
    )


def test_a_vocabulary_without_types_is_none():
    assert parse_vocabulary("# nothing\n", FILE) is None
