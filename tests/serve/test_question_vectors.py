"""A key with its own terms learns from no vector in the cache whether somebody has embedded a text:
a call that is saved costs nothing, and takes no time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projects import new_project
from tests.serve.serving import Serving, serving
from tests.serve.test_keys import ask
from tests.servers.openai_server import OpenAIServer

KEYS = "serve.keys={one: {key: k1, where: {source: harbour.txt}}, two: {key: k2}, three: {key: k3}}"
NEVER_ASKED = "Who painted the harbour?"


@pytest.fixture
def embedded(tmp_path: Path, postgres_url: str, openai: OpenAIServer) -> Iterator[Serving]:
    """A project whose embedding model is one of an endpoint, with a price."""
    folder = new_project(tmp_path / "p", postgres_url)
    said = {
        "provider": "openai",
        "base_url": openai.base_url,
        "api_key": openai.key,
        "model": "of-the-endpoint",
        "price": "{input: 1000}",
    }
    settings = [f"models.embedding.default.{name}={value}" for name, value in said.items()]
    with folder.open(*settings, KEYS) as project:
        project.run("fast")
        with serving(project) as served:
            yield served


def calls_for(openai: OpenAIServer, served: Serving, key: str, question: str) -> int:
    """Ask the question, and return how many calls of the embedding model it took."""
    before = openai.count("embeddings")
    found = ask(served, key, "/query/data", query=question, mode="naive").json()
    calls = openai.count("embeddings") - before
    assert bool(found["cost"]) == bool(calls)
    return calls


def test_a_text_of_a_hidden_document_is_embedded_as_any_other_text(
    embedded: Serving, openai: OpenAIServer
):
    of_documents = [
        text for one in openai.requests if one.kind == "embeddings" for text in one.inputs
    ]
    hidden = [text for text in of_documents if "Observatory" in text and text.strip()]
    assert hidden
    for text in (NEVER_ASKED, *hidden):
        assert calls_for(openai, embedded, "k1", text) == 1


def test_a_question_of_another_key_is_embedded_anew_and_ones_own_is_not(
    embedded: Serving, openai: OpenAIServer
):
    assert calls_for(openai, embedded, "k2", NEVER_ASKED) == 1
    assert calls_for(openai, embedded, "k3", NEVER_ASKED) == 1
    assert calls_for(openai, embedded, "k2", NEVER_ASKED) == 0
