"""The retriever for LlamaIndex, with the real package (.ci/frameworks)."""

import asyncio
import os
from importlib.util import find_spec

import pytest

from pipeline.frameworks.http import Client
from pipeline.project import Project

if find_spec("llama_index") is None:
    if os.environ.get("GRAPHMILL_REQUIRE_FRAMEWORKS") == "1":
        pytest.fail("no llama-index-core in this environment", pytrace=False)
    pytest.skip("llama-index-core is not installed (.ci/frameworks)", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")
QUESTION = "Who founded the Brack Institute?"


def test_nodes_have_scores_metadata_and_the_order_of_the_evidence(project: Project, client: Client):
    from pipeline.frameworks.llamaindex import GraphmillRetriever

    chunks = project.query_data(QUESTION, mode="naive", chunk_top_k=3)["chunks"]
    for source in (project, client):
        retriever = GraphmillRetriever(source, mode="naive", chunk_top_k=3)
        nodes = retriever.retrieve(QUESTION)
        assert [one.node_id for one in nodes] == [one["id"] for one in chunks]
        assert [one.text for one in nodes] == [one["content"] for one in chunks]
        assert [one.score for one in nodes] == [one["score"] for one in chunks]
        assert [one.node.ref_doc_id for one in nodes] == [one["document_id"] for one in chunks]
        later = asyncio.run(retriever.aretrieve(QUESTION))
        assert [one.node_id for one in later] == [one.node_id for one in nodes]


def test_a_filter_restricts_the_nodes(project: Project):
    from pipeline.frameworks.llamaindex import GraphmillRetriever

    nodes = GraphmillRetriever(project, mode="naive", chunk_top_k=3).retrieve(QUESTION)
    source = nodes[-1].metadata["source"]
    filtered = GraphmillRetriever(project, mode="naive", where={"source": source})
    assert {one.metadata["source"] for one in filtered.retrieve(QUESTION)} == {source}
