"""Reranking by MiniLM with its real weights, which are a dependency of the tests."""

from collections.abc import Sequence

import numpy as np
import pytest

from pipeline.models.base import Reranker
from pipeline.models.here import minilm_rerank
from pipeline.models.here.minilm import encode_texts
from pipeline.models.here.minilm_rerank import MiniLMReranker
from pipeline.runs.adapters import reranker
from pipeline.settings.schema import RerankSettings, Settings

QUESTION = "Who counted the ships?"
DOCUMENTS = ["A recipe for rye bread.", "The lighthouse keeper counted the ships.", "Income tax"]


def test_settings_name_minilm_as_a_reranker_with_or_without_its_name():
    for model in ("", "minilm"):
        rerank = {"default": {"provider": "local", "model": model, "max_characters": 50}}
        made = reranker(Settings.model_validate({"models": {"rerank": rerank}}))
        assert isinstance(made, MiniLMReranker)
        assert isinstance(made, Reranker)
        assert made.max_characters == 50


def test_the_order_of_minilm_is_fused_unless_settings_say_otherwise_and_that_of_others_is_not():
    assert RerankSettings(provider="local").fuses_ranks
    assert not RerankSettings(provider="local", order="alone").fuses_ranks
    assert not RerankSettings(provider="local", model="/srv/model").fuses_ranks
    assert not RerankSettings(base_url="http://localhost").fuses_ranks
    assert RerankSettings(base_url="http://localhost", order="fused").fuses_ranks


def test_the_scores_are_cosines_and_the_passage_that_answers_has_the_highest():
    scores = MiniLMReranker().rerank(QUESTION, DOCUMENTS)
    assert int(np.argmax(scores)) == 1
    vectors = encode_texts([QUESTION, *DOCUMENTS], "here")
    assert scores == pytest.approx((vectors[1:] @ vectors[0]).tolist(), abs=1e-6)
    assert MiniLMReranker().rerank(QUESTION, []) == []


def test_a_passage_is_read_no_further_than_max_characters_and_a_lone_surrogate_is_ignored():
    model = MiniLMReranker(max_characters=10)
    first, second, third = model.rerank(
        QUESTION, ["The keeper", "The keeper ate", "The\ud800 keeper"]
    )
    assert first == second
    assert third != first  # one more character is cut off
    assert MiniLMReranker().rerank("\ud800Who?", ["a\ud800b"]) == MiniLMReranker().rerank(
        "Who?", ["ab"]
    )


def test_only_vectors_that_are_not_remembered_are_computed(monkeypatch: pytest.MonkeyPatch):
    computed: list[str] = []

    def encode(texts: Sequence[str], where: str) -> np.ndarray:
        computed.extend(texts)
        return np.eye(5, dtype=np.float32)[: len(texts)]

    monkeypatch.setattr(minilm_rerank, "encode_texts", encode)
    monkeypatch.setattr(minilm_rerank, "MOST_REMEMBERED", 3)
    model = MiniLMReranker()
    model.rerank("q", ["a", "b", "a"])
    assert computed == ["q", "a", "b"]
    model.rerank("q", ["b", "c"])
    assert computed == ["q", "a", "b", "c"]
    # There is room for three: "a" was used longest ago.
    model.rerank("q", ["b", "a"])
    assert computed == ["q", "a", "b", "c", "a"]
    # A row of a larger array would keep all of it in memory.
    assert all(vector.base is None for vector in model.remembered.vectors.values())


def test_a_text_whose_header_changed_is_embedded_anew():
    text = "It was painted white."
    model = MiniLMReranker()
    for header in ("Skarrow Light", "Rye bread", "Skarrow Light"):
        document = f"{header}\n\n{text}"
        assert model.rerank(QUESTION, [document]) == MiniLMReranker().rerank(QUESTION, [document])
