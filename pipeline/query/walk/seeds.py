"""Steps from a passage over a name in it to the passages that are about what the name names.

Names and passages are enough: no relationship needs to be extracted. A step counts by how many of the question's words
are in the sentence that holds the name, so that of all names in a passage the one is followed that the question asks
for; and by whether the passage at its end is about the name or just holds it. LinearRAG
(Zhuang et al. 2025) walks sentences, entities and passages in the same way.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.query.pagerank import Edge
from pipeline.sentences import sentence_spans
from pipeline.text import match_key
from pipeline.words import words

OPENING = 300
"""Characters of a passage that tell what it is about."""
FIRST, NEAR = 4, 60
"""Characters after which a passage that is about a name has named it, and one that may be."""
ABOUT, PERHAPS, ASIDE = 1.0, 0.3, 0.1
ANY_NAME = 0.3
"""What a name counts in whose sentences no word of the question is."""
_QUALIFIER = re.compile(r"\s*[(（][^()（）]*[)）]$")


@dataclass(frozen=True)
class Mentioned:
    """An entity, and the passages that mention it."""

    id: str
    name: str
    passages: Sequence[str]


@dataclass(frozen=True)
class Steps:
    """``reached``: passage -> the score of the best step to it, 1 at most where the scores of passages are. ``edges``:
    what was stepped over. ``mentioned``: the entities."""

    reached: Mapping[str, float]
    edges: Sequence[Edge]
    mentioned: Sequence[Mentioned]


def mention_steps(
    texts: Mapping[str, str],
    scores: Mapping[str, float],
    mentioned: Sequence[Mentioned],
    asked: Collection[str],
    openings: Mapping[str, tuple[str, str]],
    weights: Mapping[str, float],
) -> Steps:
    """Steps from the passages of ``texts``, whose scores are known, to those whose title and opening are.

    ``asked``: entities that the question names: where they are is known, nothing is stepped over them. ``weights``: the
    question's words.
    """
    sentences = {passage: read_sentences(text) for passage, text in texts.items()}
    reached: dict[str, float] = {}
    edges = []
    for entity in mentioned:
        about = {id: aboutness(entity.name, *openings[id]) for id in entity.passages if id in openings}
        links = {id: ANY_NAME + overlap(sentences[id], entity, weights) for id in entity.passages if id in sentences}
        edges += [Edge(entity.id, id, links.get(id, 0.0) + about.get(id, 0.0)) for id in {**about, **links}]
        if entity.id in asked:
            continue
        for passage, link in links.items():
            for target, share in about.items():
                if target != passage:
                    reached[target] = max(reached.get(target, 0.0), scores[passage] * link * share)
    return Steps(reached, edges, mentioned)


@dataclass(frozen=True)
class SentenceWords:
    """A sentence's match key, and its words."""

    key: str
    words: frozenset[str]


def read_sentences(text: str) -> list[SentenceWords]:
    """What ``overlap`` compares a text by."""
    sentences = (text[start:end] for start, end in sentence_spans(text))
    return [SentenceWords(match_key(sentence), frozenset(words(sentence))) for sentence in sentences]


def overlap(sentences: Sequence[SentenceWords], entity: Mentioned, weights: Mapping[str, float]) -> float:
    """The share of the question's words, by weight, in the best of the sentences that hold the name; the words of the
    name itself left out."""
    total = sum(weights.values()) or 1.0
    name, own = _key(entity.name), frozenset(words(entity.name))
    asked = {word: weight for word, weight in weights.items() if word not in own}
    return max(
        (
            sum(weight for word, weight in asked.items() if word in sentence.words) / total
            for sentence in sentences
            if holds(sentence.key, name)
        ),
        default=0.0,
    )


def holds(text: str, name: str) -> bool:
    """Whether the name is in the text, and not as a part of a word; both are match keys."""
    return _find(text, name) >= 0


def aboutness(name: str, title: str, opening: str) -> float:
    """How far a passage that mentions a name is about it: as its title, and by where in its opening the name is."""
    key = _key(name)
    if key in (_key(title), _key(_QUALIFIER.sub("", title))):
        return ABOUT
    place = _find(_key(opening), key)
    if place < 0:
        return ASIDE
    return ABOUT if place <= FIRST else PERHAPS if place < NEAR else ASIDE


_key = lru_cache(10_000)(match_key)
"""A passage is looked at once for each name in it."""


def _find(text: str, name: str) -> int:
    """Where a name begins in a text; -1 where it is only a part of words."""
    place = text.find(name)
    while place >= 0 and _goes_on(text, place, place + len(name)):
        place = text.find(name, place + 1)
    return place


def _goes_on(text: str, start: int, end: int) -> bool:
    return any(_is_inside(text[edge - 1 : edge + 1]) for edge in (start, end) if 0 < edge < len(text))


def _is_inside(pair: str) -> bool:
    """Whether a word goes on between two characters: in Chinese and Japanese nobody can tell, so not."""
    return pair.isalnum() and not _WIDE.search(pair)


_WIDE = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
