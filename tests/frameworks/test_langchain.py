"""The retriever for LangChain, with the real package (.ci/frameworks)."""

import asyncio
import os
from importlib.util import find_spec

import pytest

from pipeline.frameworks.http import Client
from pipeline.project import Project

if find_spec("langchain_core") is None:
    if os.environ.get("GRAPHMILL_REQUIRE_FRAMEWORKS") == "1":
        pytest.fail("no langchain-core in this environment", pytrace=False)
    pytest.skip("langchain-core is not installed (.ci/frameworks)", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")
QUESTION = "Who founded the Brack Institute?"


def test_documents_have_scores_metadata_and_the_order_of_the_evidence(
    project: Project, client: Client
):
    from pipeline.frameworks.langchain import GraphmillRetriever

    chunks = project.query_data(QUESTION, mode="naive", chunk_top_k=3)["chunks"]
    for source in (project, client):
        retriever = GraphmillRetriever(source, mode="naive", chunk_top_k=3)
        documents = retriever.invoke(QUESTION)
        assert [one.id for one in documents] == [one["id"] for one in chunks]
        assert [one.page_content for one in documents] == [one["content"] for one in chunks]
        scores = [one.metadata["score"] for one in documents]
        assert scores == [one["score"] for one in chunks]
        assert asyncio.run(retriever.ainvoke(QUESTION)) == documents


def test_filters_are_given_to_the_retriever_or_to_one_question(project: Project):
    from pipeline.frameworks.langchain import GraphmillRetriever

    retriever = GraphmillRetriever(project, mode="naive", chunk_top_k=3, name="own", tags=["t"])
    assert (retriever.name, retriever.tags) == ("own", ["t"])
    source = retriever.invoke(QUESTION)[-1].metadata["source"]
    narrowed = retriever.invoke(QUESTION, where={"source": source})
    assert {one.metadata["source"] for one in narrowed} == {source}
    filtered = GraphmillRetriever(project, mode="naive", where={"source": source})
    assert {one.metadata["source"] for one in filtered.invoke(QUESTION)} == {source}


def test_a_retriever_can_be_made_anew_of_its_fields(project: Project):
    from pipeline.frameworks.langchain import GraphmillRetriever

    retriever = GraphmillRetriever(project, mode="naive", chunk_top_k=3)
    again = GraphmillRetriever(source=retriever.source, options=retriever.options)
    assert again.options == retriever.options
    assert again.invoke(QUESTION) == retriever.invoke(QUESTION)


def test_a_retriever_is_a_step_of_a_chain(client: Client):
    from langchain_core.runnables import RunnableLambda

    from pipeline.frameworks.langchain import GraphmillRetriever

    titles = RunnableLambda(lambda documents: [one.metadata["title"] for one in documents])
    chain = GraphmillRetriever(client, mode="naive", chunk_top_k=2) | titles
    assert len(chain.invoke(QUESTION)) == 2
