"""Words of a text as a lexical search compares them, in any script, with no model and no dictionary."""

import re
from functools import lru_cache

_SYLLABIC = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Han and kana: written without spaces between words."""
_WORD = re.compile(rf"[{_SYLLABIC}]+|[^\W_{_SYLLABIC}]+")
_SYLLABLE = re.compile(f"[{_SYLLABIC}]")
SHORTEST_STEM = 4


def words(text: str) -> list[str]:
    """Lower-case words without their commonest English endings; of Chinese and Japanese every two characters next to
    each other, which do nearly as well as words (Nie, Gao, Zhang and Zhou 2000, "On the use of words and n-grams for
    Chinese information retrieval")."""
    runs = _WORD.findall(text.lower())
    if text.isascii() or not _SYLLABLE.search(text):
        return list(map(stem, runs))
    return [word for run in runs for word in _parts(run)]


def is_syllabic(word: str) -> bool:
    return _SYLLABLE.match(word) is not None


@lru_cache(100_000)
def stem(word: str) -> str:
    """The word without a plural's or a participle's ending, where enough is left of it: the S-stemmer of Harman
    (1991, "How effective is suffixing?"), and -ed and -ing."""
    if word.endswith("ies") and len(word) > SHORTEST_STEM:
        return f"{word[:-3]}y"
    if word.endswith("ss"):
        return word
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)]
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


def _parts(run: str) -> list[str]:
    if not is_syllabic(run):
        return [stem(run)]
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]
