"""Comparison of an answer with gold answers: exact match and F1 as SQuAD defines them.

Rajpurkar and others (2016), "SQuAD: 100,000+ questions for machine comprehension of text", section
6.1. Of several gold answers the best counts.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pipeline.text.ids import is_syllabic

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
Tokens = tuple[str, ...]


def answer_tokens(text: str) -> Tokens:
    """Return the tokens of a text in lower case, without punctuation and English articles.

    SQuAD removes the punctuation of ASCII; here punctuation and symbols of all scripts are removed.
    Each character of Chinese and Japanese text, which has no spaces between words, is a token.
    """
    kept = [character for character in text.lower() if not _is_punctuation(character)]
    without_articles = _ARTICLE.sub(" ", "".join(kept))
    tokens: list[str] = []
    for word in without_articles.split():
        tokens += _split_syllabic(word)
    return tuple(tokens)


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _split_syllabic(word: str) -> list[str]:
    """Return the word, or its parts if some of it is written in Han or kana."""
    if word.isascii():
        return [word]
    parts: list[str] = []
    is_joined = False
    for character in word:
        if is_syllabic(character):
            parts.append(character)
            is_joined = False
        elif is_joined:
            parts[-1] += character
        else:
            parts.append(character)
            is_joined = True
    return parts


def exact_match(answer: str, golds: Iterable[str]) -> float:
    """Return 1 if the answer has the same tokens as a gold answer, else 0."""
    return _best(answer, golds, lambda said, gold: float(said == gold))


def token_f1(answer: str, golds: Iterable[str]) -> float:
    """Return the harmonic mean of precision and recall of the answer's tokens."""
    return _best(answer, golds, _f1_of_tokens)


def contains_gold(answer: str, golds: Iterable[str]) -> float:
    """Return 1 if the tokens of a gold answer stand together somewhere in the answer, else 0."""
    return _best(answer, golds, lambda said, gold: float(_holds_tokens(said, gold)))


def _best(answer: str, golds: Iterable[str], compare: Callable[[Tokens, Tokens], float]) -> float:
    said = answer_tokens(answer)
    return max(compare(said, answer_tokens(gold)) for gold in golds)


def _f1_of_tokens(said: Tokens, gold: Tokens) -> float:
    if not said or not gold:
        # SQuAD compares texts without tokens as a whole.
        return float(said == gold)
    common = Counter(said) & Counter(gold)
    shared = common.total()
    if not shared:
        return 0.0
    precision = shared / len(said)
    recall = shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def _holds_tokens(said: Tokens, gold: Tokens) -> bool:
    if not gold:
        return not said
    last_start = len(said) - len(gold)
    return any(said[start : start + len(gold)] == gold for start in range(last_start + 1))


def agreement(one: Sequence[bool], other: Sequence[bool]) -> tuple[float | None, float | None]:
    """Return the share of equal judgements of two judges, and Cohen's kappa.

    Both are None without judgements. Kappa is also None if both judges gave the same judgement to
    everything: chance alone then explains all agreement (Cohen 1960).
    """
    if not one:
        return None, None
    pairs = list(zip(one, other, strict=True))
    n_equal = sum(1 for first, second in pairs if first == second)
    observed = n_equal / len(pairs)
    share_one = one.count(True) / len(pairs)
    share_other = other.count(True) / len(pairs)
    expected = share_one * share_other + (1 - share_one) * (1 - share_other)
    if expected == 1:
        return observed, None
    return observed, (observed - expected) / (1 - expected)
