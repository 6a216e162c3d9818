"""The names that a question may hold."""

from collections.abc import Iterator

from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.text import match_key
from pipeline.words import is_syllabic

LONGEST, MOST = 12, 2000
"""Words (of Chinese and Japanese: characters) of a name, and names looked for in a question."""
_AROUND = ",;:!?()[]{}。，、；：！？（）《》"


def possible_names(question: str) -> list[str]:
    """Match keys of all runs of up to LONGEST words, longest first, then by place; no lone stop word."""
    parts = [part for word in match_key(question).split() for part in _parts(word)]
    stop = stop_words(guess_language(match_key(question).split()))
    runs = (run for size in range(min(LONGEST, len(parts)), 0, -1) for run in _runs(parts, size))
    return list(dict.fromkeys(run for run in runs if run and run not in stop))[:MOST]


def longest_names(question: str, names: list[str]) -> list[str]:
    """Of names that the question holds those that stand in no longer one of them."""
    left = match_key(question)
    kept = []
    for name in sorted(names, key=lambda name: (-len(name), name)):
        if name in left:
            kept.append(name)
            left = left.replace(name, "\n")
    return kept


def _parts(word: str) -> list[str]:
    """A word; one of Chinese or Japanese character by character."""
    return list(word) if any(map(is_syllabic, word)) else [word]


def _runs(parts: list[str], size: int) -> Iterator[str]:
    for start in range(len(parts) - size + 1):
        run = parts[start : start + size]
        joined = "".join(run) if all(map(is_syllabic, run)) else " ".join(run)
        yield joined
        yield joined.strip(_AROUND)
