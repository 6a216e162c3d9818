"""The multilingual encoder with its real weights, which are a dependency of the tests."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import SettingsError
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.here import multilingual
from pipeline.models.here.multilingual import CHARACTERS, MultilingualEmbedding
from pipeline.runs.adapters import embedding_model
from pipeline.settings.schema import Settings

TEXTS = [
    "The pump stands in the boiler house.",
    "Die Pumpe steht im Kesselhaus.",
    "水泵安装在锅炉房。",
    "The dog sleeps in the garden.",
]


def test_texts_of_one_meaning_are_near_in_all_languages():
    vectors = MultilingualEmbedding().embed(TEXTS)
    cosines = vectors @ vectors.T
    assert cosines[:3, :3].min() > 0.5
    assert cosines[3, :3].max() < 0.3


def test_a_text_has_one_vector_whatever_is_embedded_beside_it():
    model = MultilingualEmbedding()
    assert np.array_equal(model.embed(TEXTS)[1], model.embed(TEXTS[1:2])[0])


def test_a_long_text_is_read_to_its_end():
    ship, tax = "The ship sailed at dawn. ", "Income tax law of 1913. "
    times = CHARACTERS // len(ship)
    both, start, end = MultilingualEmbedding().embed([ship * times + tax * times, ship, tax])
    assert both @ end > start @ end + 0.2
    assert np.isclose(both @ both, 1)


def test_blank_texts_and_lone_surrogates_have_vectors():
    vectors = MultilingualEmbedding().embed([" ", "The ship\ud800 sailed.", "The ship sailed."])
    assert not vectors[0].any()
    assert np.array_equal(vectors[1], vectors[2])


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(multilingual, "_LIBRARY", "no_such_package")
    with pytest.raises(SettingsError, match=r"models\.embedding\.x: .*\.\[languages\]"):
        MultilingualEmbedding(where="models.embedding.x")


def test_its_name_in_the_settings_chooses_it_and_its_vectors_are_cached(tmp_path: Path):
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    chosen = {"provider": "local", "model": "use-multilingual"}
    settings = Settings.model_validate({"models": {"embedding": {"default": chosen}}})
    model = embedding_model(settings, "default", lambda: cache)
    assert isinstance(model, MultilingualEmbedding)
    model.embed(TEXTS)
    assert cache.known_vectors(model.keys(TEXTS)) == model.keys(TEXTS)
    cache.close()
