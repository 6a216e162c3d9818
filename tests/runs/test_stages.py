"""A workflow that cannot be loaded is refused before any step runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.errors import UsageError
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.states import models

READING_TEXT_UNITS = frozenset(
    {"extract_graph_with_headers", "add_links", "merge_graphs", "compose_headers"}
)


def write_workflow(folder: ProjectFolder, name: str, keep: int, *more: dict[str, Any]) -> None:
    """Write a workflow of the first steps of ``index`` and these."""
    content = yaml.safe_load((folder.root / "workflows" / "index.yaml").read_text(encoding="utf-8"))
    steps = [*content["steps"][:keep], *more]
    (folder.root / "workflows" / f"{name}.yaml").write_text(
        yaml.safe_dump({"name": name, "steps": steps})
    )


@pytest.fixture
def folder(tmp_path: Path, openai: OpenAIServer) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, DOCUMENTS, models=models(openai))


def refused(folder: ProjectFolder, workflow: str) -> str:
    with folder.open() as project, pytest.raises(UsageError) as caught:
        project.run(workflow)
    with folder.open() as project:
        assert project.snapshots.manifest(workflow).steps == {}
        report = project.status()
        assert report
        assert (report["outcome"], report["exit_code"], report["steps"]) == ("failed", 2, [])
        assert report["message"] == str(caught.value)
        assert len(project.usage()) == 0
    return str(caught.value)


def test_a_workflow_without_embeddings_is_refused_before_its_first_call(
    folder: ProjectFolder, openai: OpenAIServer
):
    write_workflow(folder, "mine", 10)
    message = refused(folder, "mine")
    assert "writes no text_unit_embeddings, entity_embeddings, relationship_embeddings" in message
    assert "graphmill index mine" in message
    assert openai.requests == []


def test_a_table_without_a_column_that_the_stores_need_is_refused(
    folder: ProjectFolder, openai: OpenAIServer
):
    chunked: dict[str, Any] = {"verb": "chunk_documents", "outputs": {"text_units": "parts"}}
    write_workflow(folder, "mine", 14)
    path = folder.root / "workflows" / "mine.yaml"
    content = yaml.safe_load(path.read_text())
    content["steps"][1] = chunked
    for step in content["steps"][2:]:
        step.setdefault("inputs", {})
        if step["verb"] in READING_TEXT_UNITS:
            step["inputs"]["text_units"] = "parts"
        if step.get("id") == "embed_text_units":
            step["inputs"]["texts"] = "parts"
    content["steps"].append(
        {
            "verb": "drop",
            "inputs": {"table": "parts"},
            "outputs": {"result": "text_units"},
            "args": {"columns": ["n_tokens"]},
        }
    )
    path.write_text(yaml.safe_dump(content))
    assert "table 'text_units' has no n_tokens" in refused(folder, "mine")
    assert openai.requests == []


def test_vectors_without_a_model_are_refused(folder: ProjectFolder, openai: OpenAIServer):
    write_workflow(folder, "mine", 14)
    path = folder.root / "workflows" / "mine.yaml"
    content = yaml.safe_load(path.read_text())
    for step in content["steps"]:
        if step.get("id") == "embed_text_units":
            step["outputs"] = {"embeddings": "vectors"}
    content["steps"].append(
        {
            "verb": "snapshot",
            "inputs": {"table": "vectors"},
            "outputs": {"result": "text_unit_embeddings"},
        }
    )
    path.write_text(yaml.safe_dump(content))
    assert "step 'snapshot' writes text_unit_embeddings without an embedding model" in refused(
        folder, "mine"
    )
    assert openai.requests == []


def test_a_workflow_that_cannot_be_loaded_is_indexed_and_its_rejects_are_retried(
    folder: ProjectFolder,
):
    write_workflow(folder, "mine", 7)
    with folder.open() as project:
        assert project.index("mine").outcome == "completed"
        assert project.retry("mine").outcome == "completed"


def test_the_plan_says_that_a_workflow_cannot_be_loaded(folder: ProjectFolder):
    write_workflow(folder, "mine", 7)
    with folder.open() as project:
        assert "writes no text_unit_embeddings" in project.why_not_loadable("mine")
        assert project.why_not_loadable("index") == ""
    assert "note: load: the workflow writes no" in folder.invoke("plan", "mine").stdout
    assert folder.invoke("plan", "mine", "--json").json["notes"]
    assert "note: load:" not in folder.invoke("plan", "index").stdout
