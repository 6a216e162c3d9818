"""Key phrases: runs of content words, scored as RAKE does (Rose, Engel, Cramer and Cowley 2010, "Automatic
keyword extraction from individual documents", section 1.2)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline.phrases.name import Name

MAX_WORDS = 3
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+|[^\w\s]")
_MIN_LETTERS = 3
_NOT_A_NOUN = ("ed", "ly")


class Phrase(NamedTuple):
    """``noun``: it may stand for a concept, not only describe a link."""

    start: int
    text: str
    noun: bool


def candidate_phrases(sentence: str, names: list[Name], stop: frozenset[str]) -> list[Phrase]:
    """Maximal runs of lower-case words without stop words, punctuation and names; the last three of longer
    ones, since a noun phrase ends with its head."""
    found: list[Phrase] = []
    for start, end in _gaps(names, len(sentence)):
        run: list[re.Match[str]] = []
        for token in _TOKEN.finditer(sentence, start, end):
            word = token[0]
            if len(word) >= _MIN_LETTERS and word[0].islower() and word.lower() not in stop:
                run.append(token)
            else:
                found.extend(_phrase(run))
                run = []
        found.extend(_phrase(run))
    return found


def rake_scores(phrases: Iterable[str]) -> dict[str, float]:
    """Each phrase's sum over its words of degree / frequency."""
    counts = Counter(phrases)
    frequency: Counter[str] = Counter()
    degree: Counter[str] = Counter()
    for phrase, count in counts.items():
        words = phrase.split()
        for word in words:
            frequency[word] += count
            degree[word] += count * len(words)
    return {phrase: sum(degree[word] / frequency[word] for word in phrase.split()) for phrase in counts}


def _phrase(run: list[re.Match[str]]) -> Iterator[Phrase]:
    if run:
        head = run[-MAX_WORDS:]
        noun = len(head) > 1 and not head[-1][0].endswith(_NOT_A_NOUN)
        yield Phrase(head[0].start(), " ".join(token[0] for token in head).lower(), noun)


def _gaps(names: list[Name], length: int) -> Iterator[tuple[int, int]]:
    start = 0
    for name in sorted(names):
        if name.start > start:
            yield start, name.start
        start = max(start, name.end)
    yield start, length
