from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import AuthError, ModelError
from pipeline.models.base import EmbeddingModel
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.endpoint.embedding import OpenAIEmbedding
from tests.servers.openai_server import OpenAIServer, Reply
from tests.talking import Hearer

FULL = Reply("This model's maximum context length is 8192 tokens.", status=400)


@pytest.fixture
def model(openai: OpenAIServer, tmp_path: Path):
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    made = OpenAIEmbedding(
        "text-embedding-3-small", openai.base_url, "test-key", cache, batch_size=8, max_retries=0
    )
    yield made
    made.endpoint.client.close()
    cache.close()


def test_rows_are_unit_vectors_in_the_order_of_the_texts(
    model: OpenAIEmbedding, openai: OpenAIServer
):
    texts = [f"text {i}" for i in range(30)]
    heard = Hearer()
    vectors = model.embed(texts, heard)
    assert vectors.shape == (30, 64)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.allclose(vectors[7], model.embed(["text 7"])[0])
    assert openai.count("embeddings") == 4 == len(heard.usages)
    assert sorted(heard.done) == [6, 8, 8, 8]
    assert sum(usage.input_tokens for usage in heard.usages) == sum(
        r.prompt_tokens for r in openai.requests[:4]
    )
    assert isinstance(model, EmbeddingModel)


def test_equal_texts_are_sent_once_blank_ones_and_known_ones_never(
    model: OpenAIEmbedding, openai: OpenAIServer
):
    vectors = model.embed(["a", " \n", "a", "", "b"])
    assert [list(request.inputs) for request in openai.requests] == [["a", "b"]]
    assert np.array_equal(vectors[0], vectors[2])
    assert not vectors[[1, 3]].any()
    heard = Hearer()
    model.embed(["b", "c"], heard)
    assert list(openai.requests[-1].inputs) == ["c"]
    assert [(usage.cached, usage.calls) for usage in heard.usages] == [(True, 0), (False, 1)]


def test_no_texts_and_only_blank_texts(model: OpenAIEmbedding, openai: OpenAIServer):
    assert model.embed([]).shape == (0, 0)
    assert replace(model, dimensions=32).embed([]).shape == (0, 32)
    assert replace(model, dimensions=32).embed([""]).shape == (1, 32)
    assert openai.count("embeddings") == 0
    assert model.embed(["", " "]).shape == (2, 64)


def test_dimensions_are_asked_for_and_part_of_the_identity(
    model: OpenAIEmbedding, openai: OpenAIServer
):
    small = replace(model, dimensions=16)
    assert small.embed(["a"]).shape == (1, 16)
    assert model.embed(["a"]).shape == (1, 64)
    assert openai.count("embeddings") == 2
    assert small.identity == {
        "model": "text-embedding-3-small",
        "normalized": True,
        "dimensions": 16,
    }
    openai.script("embeddings", [Reply(raw=b'{"data": [{"index": 0, "embedding": [1, 2]}]}')])
    with pytest.raises(
        ModelError, match=r"models\.embedding\.default: expected 16 dimensions, got \[2\]"
    ):
        small.embed(["b"])


def test_a_short_answer_is_asked_for_once_more(model: OpenAIEmbedding, openai: OpenAIServer):
    openai.script("embeddings", [Reply(missing_vectors=1)])
    assert model.embed(["a", "b"]).any(axis=1).all()
    assert openai.count("embeddings") == 2
    openai.script("embeddings", [Reply(missing_vectors=1)] * 2)
    with pytest.raises(ModelError, match="asked for 2 vectors, got 1"):
        model.embed(["c", "d"])


def test_a_vector_that_is_no_vector(model: OpenAIEmbedding, openai: OpenAIServer):
    openai.script("embeddings", [Reply(raw=b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}')])
    with pytest.raises(ModelError, match="no numbers"):
        model.embed(["a"])


def test_a_text_that_is_too_long_is_the_mean_of_its_halves(
    model: OpenAIEmbedding, openai: OpenAIServer
):
    text = "the harbour of Velm lies in the north of the isle " * 4
    openai.script("embeddings", [FULL, 200, FULL, 200])
    short, long = model.embed(["short", text])
    halves = openai.requests[3].inputs
    assert [list(request.inputs) for request in openai.requests[:3]] == [
        ["short", text],
        ["short"],
        [text],
    ]
    assert "".join(halves) == text
    assert abs(len(halves[0]) - len(halves[1])) < 20
    mean = np.average(model.embed(halves), axis=0, weights=[len(half) for half in halves])
    assert np.allclose(long, mean / np.linalg.norm(mean), atol=1e-6)
    assert np.allclose(short @ short, 1, atol=1e-6)


def test_an_endpoint_that_finds_everything_too_long(model: OpenAIEmbedding, openai: OpenAIServer):
    openai.script("embeddings", [FULL] * 100)
    with pytest.raises(ModelError, match=r"finds \d\d characters too long"):
        model.embed(["harbour " * 22])
    assert openai.count("embeddings") < 5


def test_batches_that_came_are_kept_when_another_fails(
    model: OpenAIEmbedding, openai: OpenAIServer
):
    one_by_one = replace(model, concurrency=1)
    texts = [f"text {i}" for i in range(20)]
    openai.script("embeddings", [200, 500])
    with pytest.raises(ModelError, match=r"HTTP 500.*earlier results are kept"):
        one_by_one.embed(texts)
    openai.forget()
    one_by_one.embed(texts)
    assert [len(request.inputs) for request in openai.requests] == [8, 4]


def test_a_model_that_changed_its_size_under_the_same_name(
    model: OpenAIEmbedding, openai: OpenAIServer
):
    model.embed(["a"])
    openai.dimensions = 32
    with pytest.raises(ModelError, match="vectors of 32 and 64 dimensions for one model"):
        model.embed(["a", "b"])


def test_a_refused_key(model: OpenAIEmbedding):
    stranger = replace(model, api_key="wrong")
    with pytest.raises(
        AuthError, match=r"models\.embedding\.default: the endpoint refused the key"
    ):
        stranger.preflight()
    with pytest.raises(AuthError):
        stranger.embed(["a"])
    model.preflight()


def test_odd_characters_are_sent(model: OpenAIEmbedding, openai: OpenAIServer):
    assert model.embed(["lone \udcff surrogate"]).any()
    assert openai.requests[0].inputs[0] == "lone \ufffd surrogate"


def test_without_an_endpoint_the_message_names_the_keys_of_an_embedding():
    with pytest.raises(
        AuthError,
        match=r"set models\.embedding\.fine\.base_url or models\.embedding\.fine\.api_key",
    ) as told:
        OpenAIEmbedding("e", where="models.embedding.fine").preflight()
    assert "chat" not in str(told.value)
