"""The order of a ``/rerank`` endpoint and that of the search, through a project with PostgreSQL."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.query.search.reranking import FUSED_FIRST, fuse_orders
from tests.projects import ProjectFolder, new_project
from tests.servers.rerank_server import RerankReply, RerankServer, rerank_server

QUESTION = "Which keeper counted the grey ships?"
DOCUMENTS = {
    f"{number:02}.txt": f"Page {number} of the log tells of a keeper at the harbour."
    for number in range(FUSED_FIRST + 4)
}
NOTES = {
    "Skarrow Light.md": "---\naliases: [the Tower]\n---\nIt was painted white in May.\n",
    "Dunlin.md": "# Dunlin\n\nIt was painted white in June.\n",
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    folder = new_project(tmp_path_factory.mktemp("reranked") / "p", postgres_url, DOCUMENTS)
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture
def endpoint() -> Iterator[RerankServer]:
    with rerank_server() as server:
        yield server


def prefer_the_last(count: int) -> RerankReply:
    """Return an answer about ``count`` documents whose order is the opposite of theirs."""
    results = [{"index": place, "relevance_score": place} for place in range(count)]
    return RerankReply(raw=json.dumps({"results": results}))


def shown(loaded: ProjectFolder, endpoint: RerankServer | None, order: str, mode: str) -> list[str]:
    """Return the contents of the text units shown; ``endpoint`` is the reranker if it is given."""
    rerank: list[str] = []
    if endpoint is not None:
        values = {"base_url": endpoint.base_url, "api_key": endpoint.key, "order": order}
        rerank = [f"models.rerank.default.{name}={value}" for name, value in values.items()]
    with loaded.open(*rerank) as project:
        data = project.query_data(QUESTION, mode=mode, chunk_top_k=FUSED_FIRST)
    return [chunk["content"] for chunk in data["chunks"]]


@pytest.mark.parametrize("mode", ["naive", "mix"])
def test_a_fused_endpoint_is_asked_once_for_the_first_twenty_and_both_ranks_count(
    loaded: ProjectFolder, endpoint: RerankServer, mode: str
):
    searched = shown(loaded, None, "", mode)
    endpoint.script.append(prefer_the_last(FUSED_FIRST))
    fused = shown(loaded, endpoint, "fused", mode)
    [request] = endpoint.requests
    assert request.texts == searched
    assert len(searched) == FUSED_FIRST
    places = fuse_orders(range(FUSED_FIRST)[::-1])
    assert fused == [searched[place] for place in places]
    # The first of each order has the greatest sum of reciprocals.
    assert fused[:2] == [searched[0], searched[-1]]


def test_a_fused_endpoint_is_not_asked_in_graph_whose_order_stays(
    loaded: ProjectFolder, endpoint: RerankServer
):
    assert shown(loaded, endpoint, "fused", "graph") == shown(loaded, None, "", "graph")
    assert endpoint.requests == []


def test_an_endpoint_reads_title_and_aliases_before_a_text_that_does_not_name_its_subject(
    tmp_path: Path, postgres_url: str, endpoint: RerankServer
):
    folder = new_project(tmp_path / "p", postgres_url, NOTES)
    with folder.open() as project:
        project.run("fast")
    values = {"base_url": endpoint.base_url, "api_key": endpoint.key, "order": "fused"}
    with folder.open(
        *(f"models.rerank.default.{key}={value}" for key, value in values.items())
    ) as project:
        data = project.query_data("Which tower is white?", mode="naive")
    [request] = endpoint.requests
    assert sorted(request.texts) == [
        "# Dunlin\n\nIt was painted white in June.",
        "Skarrow Light\nthe Tower\n\nIt was painted white in May.",
    ]
    # The header is for search and ranking alone; what is shown is the document's own text.
    assert sorted(chunk["content"] for chunk in data["chunks"]) == [
        "# Dunlin\n\nIt was painted white in June.",
        "It was painted white in May.",
    ]
    assert not any("header" in chunk for chunk in data["chunks"])


def test_an_endpoint_alone_reads_more_text_units_and_its_order_replaces_that_of_the_search(
    loaded: ProjectFolder, endpoint: RerankServer
):
    endpoint.script.append(prefer_the_last(len(DOCUMENTS)))
    ranked = shown(loaded, endpoint, "alone", "naive")
    [request] = endpoint.requests
    assert len(request.texts) == len(DOCUMENTS) > FUSED_FIRST
    assert ranked == request.texts[::-1][:FUSED_FIRST]
