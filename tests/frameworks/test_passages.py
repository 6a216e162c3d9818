"""Evidence becomes passages with scores and metadata, for a project as over HTTP."""

import sys
from importlib import import_module

import pytest

from pipeline.errors import UsageError
from pipeline.frameworks.http import Client
from pipeline.frameworks.passages import find_passages, passages_of
from pipeline.project import Project
from pipeline.serve.bodies import Evidence

QUESTION = "Who founded the Brack Institute?"


def test_a_project_and_its_server_give_the_same_passages(project: Project, client: Client):
    options = {"mode": "naive", "chunk_top_k": 3}
    passages = find_passages(project, QUESTION, options)
    assert passages == find_passages(client, QUESTION, options)
    assert len(passages) == 3
    best = passages[0]
    assert best.score is not None
    assert 0 < best.score <= 1
    assert best.metadata["source"] == "institute.txt"
    assert best.metadata["title"]
    assert best.metadata["document_id"] == best.document_id


def test_metadata_of_the_document_and_the_score_of_a_reranker_are_kept(project: Project):
    evidence = Evidence.model_validate(project.query_data(QUESTION, mode="naive", chunk_top_k=1))
    [chunk] = evidence.chunks
    given = {"rerank_score": 0.9, "metadata": {"year": 1901, "source": "other"}, "page": 4}
    changed = chunk.model_validate({**chunk.model_dump(), **given})
    [passage] = passages_of(evidence.model_copy(update={"chunks": [changed]}))
    assert passage.score == 0.9
    assert passage.metadata["year"] == 1901
    assert passage.metadata["page"] == 4
    assert passage.metadata["source"] == chunk.source


@pytest.mark.parametrize(
    ("extra", "package"), [("langchain", "langchain_core"), ("llamaindex", "llama_index")]
)
def test_a_missing_framework_is_told_with_its_extra(
    extra: str, package: str, monkeypatch: pytest.MonkeyPatch
):
    for name in list(sys.modules):
        if name.split(".")[0] == package or name == f"pipeline.frameworks.{extra}":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"install the extra '{extra}'"):
        import_module(f"pipeline.frameworks.{extra}")
