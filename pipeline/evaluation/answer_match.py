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
    # An accent may be a character of its own, as in texts of PDF files, and a digit a wide one.
    normal = unicodedata.normalize("NFKC", text).lower()
    letters = [character for character in normal if not _is_punctuation(character)]
    without_articles = _ARTICLE.sub(" ", "".join(letters))
    tokens: list[str] = []
    for word in without_articles.split():
        tokens += _split_syllabic(word)
    return tuple(tokens)


def _is_punctuation(character: str) -> bool:
    """Return whether a character is punctuation or a symbol, the categories P and S of Unicode."""
    category = unicodedata.category(character)
    return category.startswith(("P", "S"))


def _split_syllabic(word: str) -> list[str]:
    """Return the word, or its parts if some of it is written in Han or kana."""
    if word.isascii():
        return [word]
    parts: list[str] = []
    continues_part = False
    for character in word:
        if is_syllabic(character):
            parts.append(character)
            continues_part = False
        elif continues_part:
            parts[-1] += character
        else:
            parts.append(character)
            continues_part = True
    return parts


def exact_match(answer: str, golds: Iterable[str]) -> float:
    """Return 1 if the answer has the same tokens as a gold answer, else 0."""
    return _match_best(answer, golds, _are_equal)


def token_f1(answer: str, golds: Iterable[str]) -> float:
    """Return the harmonic mean of precision and recall of the answer's tokens."""
    return _match_best(answer, golds, _compute_f1)


def contains_gold(answer: str, golds: Iterable[str]) -> float:
    """Return 1 if the tokens of a gold answer stand together somewhere in the answer, else 0."""
    return _match_best(answer, golds, _contains_in_order)


def _match_best(
    answer: str, golds: Iterable[str], compare: Callable[[Tokens, Tokens], float]
) -> float:
    """Return the greatest value of ``compare`` for the answer and a gold answer."""
    said = answer_tokens(answer)
    return max(compare(said, answer_tokens(gold)) for gold in golds)


def _are_equal(said: Tokens, gold: Tokens) -> float:
    return float(said == gold)


def _compute_f1(said: Tokens, gold: Tokens) -> float:
    if not said or not gold:
        # SQuAD compares texts without tokens as a whole.
        return float(said == gold)
    # A token counts as often as it occurs in both.
    common = Counter(said) & Counter(gold)
    n_common = common.total()
    if n_common == 0:
        return 0.0
    precision = n_common / len(said)
    recall = n_common / len(gold)
    return 2 * precision * recall / (precision + recall)


def _contains_in_order(said: Tokens, gold: Tokens) -> float:
    if not gold:
        return float(not said)
    last_start = len(said) - len(gold)
    for start in range(last_start + 1):
        if said[start : start + len(gold)] == gold:
            return 1.0
    return 0.0


def agreement(one: Sequence[bool], other: Sequence[bool]) -> tuple[float | None, float | None]:
    """Return the share of equal judgements of two judges, and Cohen's kappa.

    Both are None without judgements. Kappa is also None if both judges gave the same judgement to
    everything: chance alone then explains all agreement (Cohen 1960).
    """
    if not one:
        return None, None
    n_judged = len(one)
    pairs = zip(one, other, strict=True)
    n_equal = sum(1 for first, second in pairs if first == second)
    observed = n_equal / n_judged
    share_one = one.count(True) / n_judged
    share_other = other.count(True) / n_judged
    both_true_by_chance = share_one * share_other
    both_false_by_chance = (1 - share_one) * (1 - share_other)
    expected = both_true_by_chance + both_false_by_chance
    if expected == 1:
        return observed, None
    kappa = (observed - expected) / (1 - expected)
    return observed, kappa
