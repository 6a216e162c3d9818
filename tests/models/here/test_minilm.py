"""MiniLM with its real weights, which are a dependency of the tests."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from pipeline.errors import SettingsError
from pipeline.models.base import EmbeddingModel
from pipeline.models.cache.replies import NO_CACHE, ReplyCache
from pipeline.models.here.minilm import MiniLMEmbedding, _load_model, file_of_package
from pipeline.runs.adapters import embedding_model
from pipeline.settings.schema import Settings

TEXTS = ["The ship sailed at dawn.", "A boat left the harbour early.", "Income tax law of 1913"]
BY_SENTENCE_TRANSFORMERS = [[1.0, 0.5122, 0.0069], [0.5122, 1.0, -0.0484], [0.0069, -0.0484, 1.0]]
"""The cosines of the texts' vectors as sentence-transformers 5 makes them with torch, from the
weights as published."""
FIRST_OF_EACH = [
    [0.0274, 0.0980, 0.0155, 0.1063, 0.0083, -0.0321],
    [0.0141, 0.1272, 0.0102, 0.0880, 0.1085, 0.0283],
    [-0.1173, 0.0489, -0.0126, -0.0500, 0.0318, 0.0332],
]


def test_without_the_extra_it_says_how_to_get_it():
    with pytest.raises(
        SettingsError, match=r"models\.embedding\.x: 'minilm' needs no_such_package; .*\.\[local\]"
    ):
        file_of_package("no_such_package/model.onnx", "models.embedding.x")


def test_another_version_of_a_package_is_no_traceback():
    with pytest.raises(
        SettingsError, match=r"needs onnxruntime/no\.onnx, and this onnxruntime has none; "
    ):
        file_of_package("onnxruntime/no.onnx", "models.embedding.x")


def test_threads_that_embed_at_once_load_the_weights_once():
    _load_model.cache_clear()
    started = Barrier(4)

    def ask(text: str) -> np.ndarray:
        started.wait()
        return MiniLMEmbedding().embed([text])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(ask, [*TEXTS, "Another."]))
    assert _load_model.cache_info().misses == 1


def test_a_lone_surrogate_in_a_text_is_ignored():
    model = MiniLMEmbedding()
    assert np.array_equal(
        model.embed(["The ship\ud800 sailed at dawn.", "\ud800"])[0], model.embed(TEXTS[:1])[0]
    )


def test_its_vectors_are_those_of_sentence_transformers():
    vectors = MiniLMEmbedding().embed(TEXTS)
    assert vectors.dtype == np.float32
    assert np.allclose(vectors @ vectors.T, BY_SENTENCE_TRANSFORMERS, atol=0.01)
    assert np.allclose(vectors[:, :6], FIRST_OF_EACH, atol=0.006)


def test_a_text_has_one_vector_whatever_is_embedded_beside_it():
    model = MiniLMEmbedding()
    assert np.array_equal(model.embed([*TEXTS, "word " * 1000])[1], model.embed(TEXTS[1:2])[0])


def test_a_long_text_is_read_to_its_end():
    model = MiniLMEmbedding()
    ships, taxes = "The ship sailed at dawn. " * 80, "Income tax law of 1913. " * 80
    both, ship, tax, question = model.embed([ships + taxes, ships, taxes, TEXTS[2]])
    assert question @ ship < 0.2 < question @ both < question @ tax
    assert np.isclose(both @ both, 1)


def test_blank_texts_and_none():
    model = MiniLMEmbedding()
    assert not model.embed([" "]).any()
    assert model.embed([]).shape == (0, 384)
    assert isinstance(model, EmbeddingModel)


def test_provider_local_is_minilm_and_its_vectors_are_cached(tmp_path: Path):
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    settings = Settings.model_validate(
        {"models": {"embedding": {"default": {"provider": "local"}}}}
    )
    model = embedding_model(settings, "default", lambda: cache)
    assert isinstance(model, MiniLMEmbedding)
    assert not cache.known_vectors(model.keys(TEXTS))
    vectors = model.embed(TEXTS)
    assert cache.known_vectors(model.keys(TEXTS)) == model.keys(TEXTS)
    assert np.array_equal(model.embed(TEXTS), vectors)
    cache.close()
    named = Settings.model_validate(
        {"models": {"embedding": {"default": {"provider": "local", "model": "minilm"}}}}
    )
    assert embedding_model(named, "default", lambda: NO_CACHE).identity == model.identity
