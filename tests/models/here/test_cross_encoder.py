"""Reranking on this machine by a model made here, with random weights and the real architecture."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from pipeline.errors import ModelError, SettingsError
from pipeline.models.base import Reranker
from pipeline.models.here.transformers import CrossEncoderReranker
from pipeline.runs.adapters import reranker
from pipeline.settings.schema import Settings

INSTALLED = find_spec("sentence_transformers") is not None
needs_extra = pytest.mark.skipif(not INSTALLED, reason="the extra 'transformers' is not installed")
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] who counted the ships keeper rye bread".split()


def cross_encoder(folder: Path, labels: int = 1) -> Path:
    transformers = import_module("transformers")
    import_module("torch").manual_seed(7)
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8,
        num_labels=labels,
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.skipif(INSTALLED, reason="the extra 'transformers' is installed")
def test_without_the_extra_it_says_how_to_get_it():
    settings = Settings.model_validate(
        {"models": {"rerank": {"default": {"provider": "local", "model": "x"}}}}
    )
    with pytest.raises(SettingsError, match=r"models\.rerank\.default: .*\.\[transformers\]"):
        reranker(settings)


@needs_extra
def test_a_local_reranker_ranks_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    folder = cross_encoder(tmp_path / "model")
    settings = {"provider": "local", "model": str(folder), "max_characters": 12}
    model = reranker(Settings.model_validate({"models": {"rerank": {"default": settings}}}))
    assert isinstance(model, CrossEncoderReranker)
    assert isinstance(model, Reranker)
    model.preflight()
    documents = ["the keeper counted", "rye bread", "ships", "the keeper c"]
    scores = model.rerank("who counted", documents)
    assert scores[0] == pytest.approx(scores[3], abs=1e-6)  # read no further than max_characters
    assert len(set(scores[:3])) == 3
    again = model.rerank("who counted", documents[::-1])
    assert again == pytest.approx(scores[::-1], abs=1e-6)
    assert model.rerank("who", []) == []


@needs_extra
def test_the_identity_of_a_local_reranker_depends_on_its_files_alone(tmp_path: Path):
    folder = cross_encoder(tmp_path / "here")
    before = CrossEncoderReranker(str(folder)).identity
    assert CrossEncoderReranker(str(folder.rename(tmp_path / "there"))).identity == before


@needs_extra
def test_folders_that_are_no_reranker(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"no config\.json"):
        CrossEncoderReranker(str(tmp_path))
    with pytest.raises(ModelError, match="no score for each document"):
        CrossEncoderReranker(str(cross_encoder(tmp_path / "three", labels=3))).rerank(
            "who", ["ships", "rye"]
        )
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    with pytest.raises(SettingsError, match="cannot be loaded"):
        CrossEncoderReranker(str(broken)).rerank("who", ["ships"])
