import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import SettingsError
from pipeline.models.base import EmbeddingModel
from pipeline.models.cache.replies import ReplyCache
from pipeline.models.here.transformers import SentenceTransformerEmbedding

INSTALLED = find_spec("sentence_transformers") is not None
needs_extra = pytest.mark.skipif(not INSTALLED, reason="the extra 'transformers' is not installed")


@pytest.mark.skipif(INSTALLED, reason="the extra 'transformers' is installed")
def test_without_the_extra_it_says_how_to_get_it():
    with pytest.raises(SettingsError, match=r"sentence_transformers; .*\.\[transformers\]"):
        SentenceTransformerEmbedding("/srv/models/ours")


def sentence_transformer(folder: Path) -> Path:
    """A model whose weights are chance and whose form is real."""
    transformers, library = import_module("transformers"), import_module("sentence_transformers")
    import_module("torch").manual_seed(7)
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the ship sailed a boat left".split()
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    transformers.BertModel(config).save_pretrained(folder)
    library.SentenceTransformer(str(folder)).save(str(folder))
    return folder


@needs_extra
def test_a_local_model_embeds_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    model = SentenceTransformerEmbedding(str(sentence_transformer(tmp_path / "here")))
    ship, again, blank = model.embed(["the ship sailed", "the ship sailed", " "])
    assert np.allclose([ship @ ship, ship @ again, blank @ blank], [1, 1, 0], atol=1e-6)
    assert model.embed([]).shape == (0, 8)
    assert "HF_HUB_OFFLINE" not in os.environ
    assert isinstance(model, EmbeddingModel)


@needs_extra
def test_a_folder_is_known_by_its_content_and_its_vectors_are_remembered(tmp_path: Path):
    folder = sentence_transformer(tmp_path / "here")
    cache = ReplyCache(f"sqlite:///{tmp_path}/cache.sqlite")
    first = SentenceTransformerEmbedding(str(folder), cache)
    vectors = first.embed(["The ship sailed.", "A boat left.", "The ship sailed."])
    moved = SentenceTransformerEmbedding(str(folder.rename(tmp_path / "there")), cache)
    assert moved.identity == first.identity
    assert np.array_equal(
        moved.embed(["The ship sailed.", "A boat left.", "The ship sailed."]), vectors
    )
    assert "_loaded" not in vars(moved)
    cache.close()


@needs_extra
def test_a_folder_without_a_model(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"no modules\.json"):
        SentenceTransformerEmbedding(str(tmp_path))
