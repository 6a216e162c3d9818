import math

import numpy as np

from pipeline.stores.postgres.lexical import bm25_scores, text_statistics, word_weight


def test_a_score_equals_that_of_the_formula():
    weight = word_weight(10, 2)
    assert weight == math.log(1 + 8.5 / 2.5)
    [score] = bm25_scores(["tower tower sea"], {"tower": weight}, length=2)
    assert score == weight * 2 * 1.9 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2))


def test_rare_words_count_more_and_long_texts_less():
    texts = ["sea tower", "sea harbour", "sea harbour and all that is near to it"]
    weights = {"sea": word_weight(3, 3), "harbour": word_weight(3, 2)}
    scores = bm25_scores(texts, weights, 4)
    assert scores.argsort().tolist() == [0, 2, 1]


def test_a_repeated_word_counts_less_and_less():
    scores = bm25_scores(["a", "a a", "a a a"], {"a": 1.0}, 2)
    assert np.all(np.diff(scores) > 0)
    assert scores[2] - scores[1] < scores[1] - scores[0] < scores[0]


def test_a_text_without_the_words_scores_zero():
    assert bm25_scores([], {"a": 1.0}, 0).tolist() == []
    assert bm25_scores(["", "b"], {"a": 1.0}, 0).tolist() == [0, 0]


def test_statistics_are_estimated_from_a_sample():
    statistics = text_statistics(["a b", "a", "a c d", "a b"], texts=400, least_share=0.5)
    assert statistics.texts == 400
    assert statistics.length == 2
    assert dict(statistics.shares) == {"a": 1.0, "b": 0.5}


def test_statistics_of_an_empty_sample_are_zero():
    assert text_statistics([], 0, 0.1).length == 0
