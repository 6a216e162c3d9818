"""Another embedding model, or another workflow, in a workspace that is being read: refused, then
replaced in one go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.engine.run_options import ALL, RunOptions, Selection
from pipeline.errors import UsageError
from pipeline.project import Project
from pipeline.runs.adapters import postgres_store
from pipeline.stores.postgres.schema import VECTOR_TABLES, name_partition
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer
from tests.states import models

RE_EMBED, REPLACE = RunOptions(re_embed=True), RunOptions(replace=True)
REFUSED = "workflow 'index'; to have those of 'fast' instead add --replace"
QUESTION = "Who founded the Brack Institute?"


@pytest.fixture
def project(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> ProjectFolder:
    """Indexed and loaded, by the model that the endpoint serves, every table of vectors with an
    index."""
    stores = {"postgres": {"url": postgres_url, "exact_below": 2}}
    folder = new_project(
        tmp_path / "p", postgres_url, endpoint=openai, stores=stores, models=models(openai)
    )
    with folder.open() as opened:
        assert opened.run("index").outcome == "completed"
    return folder


def with_embedding(openai: OpenAIServer, **changed: Any) -> dict[str, Any]:
    section = models(openai)
    section["embedding"]["default"].update(changed)
    return section


@pytest.fixture(params=["model", "dimensions", "provider"])
def change(
    request: pytest.FixtureRequest, project: ProjectFolder, openai: OpenAIServer
) -> Callable[[], None]:
    """Sets another embedding model."""

    def change() -> None:
        if request.param == "dimensions":
            openai.dimensions = 96
        section = {
            "model": with_embedding(openai, model="text-embedding-3-large"),
            "dimensions": with_embedding(openai, dimensions=96),
            "provider": {**models(openai), "embedding": {"default": {"provider": "builtin"}}},
        }[request.param]
        project.edit_settings(models=section)

    return change


def test_another_model_is_embedded_anew_and_loaded_when_it_is_said(
    project: ProjectFolder, openai: OpenAIServer, change: Callable[[], None]
):
    change()
    openai.forget()
    with project.open() as opened:
        report = opened.index("index")
    assert {step.step for step in report.steps if step.action == "ran"} == {
        "embed_text_units",
        "embed_entities",
        "embed_relationships",
    }
    assert openai.count("chat") == 0
    for command in ("load", "run"):
        refused = project.invoke(command, "index")
        assert (refused.exit_code, "--re-embed" in refused.stderr) == (2, True)
    assert openai.count("chat") == 0
    with project.open() as opened:
        with pytest.raises(UsageError, match="graphmill load index --re-embed"):
            opened.load("index")
        with pytest.raises(UsageError, match=r"none of models\.embedding"):
            opened.query(QUESTION)
        loaded = opened.load("index", options=RE_EMBED).load
        assert loaded
        replaced = [table for table, counts in loaded["postgres"].items() if counts["updated"]]
        assert sorted(replaced) == ["chunks", "entities", "relationships"]
        assert all(loaded["postgres"][table]["unchanged"] == 0 for table in replaced)
        assert loaded["postgres"]["nodes"]["unchanged"] > 0
        assert opened.verify("index").agrees
        assert len(indexes_of(opened)) == len(replaced)
        assert opened.query_data(QUESTION, mode="naive")["chunks"]
        again = opened.load("index").load
    assert again
    assert all(counts["unchanged"] == sum(counts.values()) for counts in again["postgres"].values())


def test_a_run_with_another_model_is_refused_before_anything_is_embedded(
    project: ProjectFolder, openai: OpenAIServer, change: Callable[[], None]
):
    change()
    project.write("later.txt", "The Weir\n\nGovernor Pell built the Dunmore Weir.")
    openai.forget()
    refused = project.invoke("run", "index")
    assert (refused.exit_code, "'graphmill run index --re-embed'" in refused.stderr) == (2, True)
    assert "before it embeds anything" in str(project.report("plan", "index")["notes"])
    with project.open() as opened:
        with pytest.raises(UsageError, match="before it embeds anything"):
            opened.retry("index")
        with pytest.raises(UsageError, match="before it embeds anything"):
            opened.run("communities")
        assert "before it embeds anything" in opened.refusal_of_model(
            opened.workflow("communities"), ALL
        )
    assert (openai.count("embeddings"), openai.count("chat")) == (0, 0)
    with project.open() as opened:
        assert opened.run("index", options=RE_EMBED).outcome == "completed"
        assert opened.verify("index").agrees
        assert opened.refusal_of_model(opened.workflow("index"), ALL) == ""
        assert opened.run("index").outcome == "completed"
    assert "before it embeds anything" not in str(project.report("plan", "index")["notes"])


def test_a_run_that_leaves_the_vectors_as_they_are_is_loaded(
    project: ProjectFolder, openai: OpenAIServer, change: Callable[[], None]
):
    change()
    kept = ("embed_text_units", "embed_entities", "embed_relationships")
    openai.forget()
    assert "before it embeds anything" not in str(
        project.report("plan", "index", *(word for step in kept for word in ("--skip", step)))[
            "notes"
        ]
    )
    with project.open() as opened:
        assert opened.run("index", options=RunOptions(Selection(skip=kept))).outcome == "completed"
    assert openai.count("embeddings") == 0


def test_a_model_is_set_back_without_any_call(project: ProjectFolder, openai: OpenAIServer):
    project.edit_settings(models=with_embedding(openai, model="text-embedding-3-large"))
    assert project.invoke("run", "index").exit_code == UsageError.exit_code
    project.edit_settings(models=models(openai))
    openai.forget()
    with project.open() as opened:
        assert opened.run("index").outcome == "completed"
    assert (openai.count("embeddings"), openai.count("chat")) == (0, 0)


def indexes_of(opened: Project) -> list[str]:
    """Of the workspace's vectors; those of the model before are dropped."""
    store = postgres_store(opened.settings, opened.root)
    partitions = [name_partition(table, store.workspace) for table in VECTOR_TABLES.values()]
    query = text(
        "SELECT indexname FROM pg_indexes WHERE tablename = ANY(:names) AND indexdef LIKE '% USING"
        " hnsw %'"
    )
    with store.connection() as connection:
        found = list(connection.execute(query, {"names": partitions}).scalars())
    store.close()
    return found


def test_another_workflow_is_loaded_when_it_is_said(project: ProjectFolder, openai: OpenAIServer):
    openai.forget()
    with project.open() as opened:
        with pytest.raises(UsageError, match=REFUSED):
            opened.run("fast")
        assert opened.index("fast").outcome == "completed"
        with pytest.raises(UsageError, match=REFUSED):
            opened.load("fast")
        assert opened.live_workflow() == "index"
        assert opened.load("fast", options=REPLACE).outcome == "completed"
        assert opened.live_workflow() == "fast"
        assert opened.verify("fast").agrees
        assert not opened.verify("index").agrees
    assert openai.count("chat") == 0
    assert project.invoke("load", "index").exit_code == UsageError.exit_code
    assert project.invoke("load", "index", "--replace").exit_code == 0
