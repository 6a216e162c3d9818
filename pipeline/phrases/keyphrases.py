"""Find key phrases: runs of content words, scored as RAKE does.

RAKE is described by Rose, Engel, Cramer and Cowley 2010, "Automatic keyword extraction from
individual documents", section 1.2.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline.phrases.names import Name

MAX_WORDS = 3
"""The most words of a key phrase."""
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+|[^\w\s]")
_MIN_LETTERS = 3
"""The fewest letters of a word of a key phrase."""
_PARTICIPLE = re.compile(r"\w\w[^e]ed$")


class Phrase(NamedTuple):
    """A key phrase at ``start:end`` of a sentence.

    ``noun`` is true if it may stand for a concept; otherwise it only describes a relationship.
    """

    start: int
    end: int
    text: str
    noun: bool


def candidate_phrases(sentence: str, names: list[Name], stop: frozenset[str]) -> list[Phrase]:
    """Return the key phrases between the names, which have no stop words and no punctuation.

    They are runs of lower-case words, as long as possible. Of a longer run the last three words are
    taken, since a noun phrase ends with its head.
    """
    found: list[Phrase] = []
    for start, end in _gaps(names, len(sentence)):
        run: list[re.Match[str]] = []
        for token in _TOKEN.finditer(sentence, start, end):
            word = token[0]
            is_long_enough = len(word) >= _MIN_LETTERS
            if is_long_enough and word[0].islower() and word.lower() not in stop:
                run.append(token)
            else:
                found.extend(_split_run(run))
                run = []
        found.extend(_split_run(run))
    return found


def rake_scores(phrases: Iterable[str]) -> dict[str, float]:
    """Map each phrase to its score: the sum of degree / frequency over its words.

    ``phrases`` holds every occurrence. The frequency of a word is its number of occurrences; its
    degree is the number of words in all phrases with it.
    """
    counts = Counter(phrases)
    frequency: Counter[str] = Counter()
    degree: Counter[str] = Counter()
    for phrase, count in counts.items():
        words = phrase.split()
        for word in words:
            frequency[word] += count
            degree[word] += count * len(words)
    score_of_word = {word: degree[word] / frequency[word] for word in frequency}
    scores: dict[str, float] = {}
    for phrase in counts:
        scores[phrase] = sum(score_of_word[word] for word in phrase.split())
    return scores


def _split_run(run: list[re.Match[str]]) -> Iterator[Phrase]:
    """Yield the noun phrase of a run and each participle behind it: "film" and "directed"."""
    end = len(run)
    while end > 1 and _PARTICIPLE.search(run[end - 1][0]):
        end -= 1
    noun_phrase = run[:end][-MAX_WORDS:]
    participles = run[end:]
    if noun_phrase:
        yield _phrase(noun_phrase)
    for participle in participles:
        yield _phrase([participle])


def _phrase(words: list[re.Match[str]]) -> Phrase:
    text = " ".join(word[0] for word in words)
    return Phrase(
        start=words[0].start(),
        end=words[-1].end(),
        text=text.lower(),
        noun=len(words) > 1,
    )


def _gaps(names: list[Name], length: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of a sentence of ``length`` characters that no name covers."""
    start = 0
    for name in sorted(names):
        if name.start > start:
            yield start, name.start
        start = max(start, name.end)
    yield start, length
