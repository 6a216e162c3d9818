"""Okapi BM25 (Robertson and Zaragoza 2009, "The probabilistic relevance framework", section 3.4) over texts at hand."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.words import words

K1, B = 0.9, 0.4
"""Saturation and the weight of length, as in Anserini's runs on passages."""


@dataclass(frozen=True)
class TextStatistics:
    """Of a corpus: how many texts, words in a text on average, and in which share of the texts a frequent word is."""

    texts: int
    length: float
    shares: Mapping[str, float]


def word_weight(texts: int, frequency: float) -> float:
    """The inverse document frequency of a word that so many of the texts have."""
    return math.log(1 + (texts - frequency + 0.5) / (frequency + 0.5))


def bm25_scores(texts: Sequence[str], weights: Mapping[str, float], length: float) -> np.ndarray:
    """Each text's score for words of these weights, in a corpus of texts of so many words on average."""
    scores = np.zeros(len(texts))
    for place, text in enumerate(texts):
        found = words(text)
        counts = Counter(filter(weights.__contains__, found))
        base = K1 * (1 - B + B * len(found) / max(length, 1.0))
        scores[place] = sum(weights[word] * count * (K1 + 1) / (count + base) for word, count in counts.items())
    return scores


def text_statistics(sample: Iterable[str], texts: int, least_share: float) -> TextStatistics:
    """Of a sample of so many texts: words in less than ``least_share`` of it are left out."""
    frequencies: Counter[str] = Counter()
    lengths = []
    for text in sample:
        found = words(text)
        lengths.append(len(found))
        frequencies.update(set(found))
    shares = {word: count / len(lengths) for word, count in sorted(frequencies.items())}
    frequent = {word: share for word, share in shares.items() if share >= least_share}
    return TextStatistics(texts, sum(lengths) / max(len(lengths), 1), frequent)
