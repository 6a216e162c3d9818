"""A key with `where` whose answers a reranker orders is answered as by a project without the hidden
documents, and the reranker is never sent their texts."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from tests.projects import ProjectFolder, new_project
from tests.serve.serving import serving
from tests.servers.rerank_server import RerankServer, rerank_server
from tests.whole.test_views import CANARY, NAMES, first_rows, put

KEY = "k" * 20
CANDIDATES = 4
QUESTIONS = [f"What has {name} to do with {CANARY} Trust?" for name in NAMES]


@pytest.fixture(scope="module")
def reranker() -> Iterator[RerankServer]:
    with rerank_server() as server:
        yield server


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> list[ProjectFolder]:
    """A project with hidden documents, and one that has only the others; both are loaded."""
    root = tmp_path_factory.mktemp("fused")
    keys = {"reader": {"key": KEY, "where": {"secret": False}, "modes": ["naive"]}}
    made = []
    for name, only_open in (("all", False), ("open", True)):
        folder = new_project(
            root / name, postgres_url, {}, workflow="fast", serve={"keys": keys}, max_reject_ratio=1
        )
        put(folder, first_rows(3), only_open)
        with folder.open() as project:
            project.run()
        made.append(folder)
    return made


def find(folder: ProjectFolder, reranker: RerankServer, order: str) -> list[list[dict[str, Any]]]:
    """Return the passages that the key gets for each question."""
    settings = {"base_url": reranker.base_url, "api_key": reranker.key, "order": order}
    folder.edit_settings(models={"rerank": {"default": settings}})
    with ExitStack() as stack:
        project = stack.enter_context(folder.open())
        url = stack.enter_context(serving(project)).url
        client = stack.enter_context(
            httpx2.Client(base_url=url, headers={"x-api-key": KEY}, timeout=60)
        )
        answers = []
        for question in QUESTIONS:
            asked = {"query": question, "mode": "naive", "chunk_top_k": CANDIDATES}
            answer = client.post("/query/data", json=asked)
            assert answer.status_code == 200, answer.text
            answers.append(answer.json()["chunks"])
    return answers


@pytest.mark.parametrize("order", ["fused", "alone"])
def test_the_order_and_the_scores_are_those_without_the_hidden_documents(
    folders: list[ProjectFolder], reranker: RerankServer, order: str
):
    reranker.requests.clear()
    with_hidden, without = (find(folder, reranker, order) for folder in folders)
    assert with_hidden == without
    assert all(len(passages) == CANDIDATES for passages in with_hidden)
    assert any("rerank_score" in passage for passage in with_hidden[0])
    sent = [text for request in reranker.requests for text in request.texts]
    assert sent
    assert not [text for text in sent if CANARY in text]


def test_the_hidden_documents_would_change_the_order_for_a_key_that_sees_them(
    folders: list[ProjectFolder], reranker: RerankServer
):
    """Without this, the test above could not fail."""
    settings = {"base_url": reranker.base_url, "api_key": reranker.key, "order": "fused"}
    folders[0].edit_settings(models={"rerank": {"default": settings}})
    with folders[0].open() as project:
        found = project.query_data(QUESTIONS[0], mode="naive", chunk_top_k=CANDIDATES)
    assert any(CANARY in passage["content"] for passage in found["chunks"])
