"""Key phrases: runs of content words, scored as RAKE does (Rose, Engel, Cramer and Cowley 2010,
"Automatic keyword extraction from individual documents", section 1.2)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline.phrases.names import Name

MAX_WORDS = 3
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+|[^\w\s]")
_MIN_LETTERS = 3
_PARTICIPLE = re.compile(r"\w\w[^e]ed$")


class Phrase(NamedTuple):
    """``noun``: it may stand for a concept, not only describe a link."""

    start: int
    end: int
    text: str
    noun: bool


def candidate_phrases(sentence: str, names: list[Name], stop: frozenset[str]) -> list[Phrase]:
    """Maximal runs of lower-case words without stop words, punctuation and names; of longer ones
    the last three words, since a noun phrase ends with its head."""
    found: list[Phrase] = []
    for start, end in _gaps(names, len(sentence)):
        run: list[re.Match[str]] = []
        for token in _TOKEN.finditer(sentence, start, end):
            word = token[0]
            if len(word) >= _MIN_LETTERS and word[0].islower() and word.lower() not in stop:
                run.append(token)
            else:
                found.extend(_phrases(run))
                run = []
        found.extend(_phrases(run))
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
    return {
        phrase: sum(degree[word] / frequency[word] for word in phrase.split()) for phrase in counts
    }


def _phrases(run: list[re.Match[str]]) -> Iterator[Phrase]:
    """The run as a noun phrase and the participles after it: "film" and "directed"."""
    end = len(run)
    while end > 1 and _PARTICIPLE.search(run[end - 1][0]):
        end -= 1
    for words in filter(None, [run[:end][-MAX_WORDS:], *([word] for word in run[end:])]):
        text = " ".join(word[0] for word in words).lower()
        yield Phrase(words[0].start(), words[-1].end(), text, len(words) > 1)


def _gaps(names: list[Name], length: int) -> Iterator[tuple[int, int]]:
    start = 0
    for name in sorted(names):
        if name.start > start:
            yield start, name.start
        start = max(start, name.end)
    yield start, length
