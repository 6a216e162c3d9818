"""Where a walk over passages and entities starts, and its steps over names.

Names and passages are enough: no relationship needs to be extracted. A step counts by how many of
the question's words are in the sentence that holds the name, so that of all names in a passage the
one is followed that the question asks for; by how many of them the passage leaves open, so that an
answer in one passage is not left behind for what its names lead to, and how many of these begin the
passage at its end; and by whether that one is about the name or just holds it. LinearRAG (Zhuang et
al. 2025) walks sentences, entities and passages in the same way.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.query.walk.pagerank import Edge
from pipeline.stores.reads import Hits, Opening, VectorReads
from pipeline.stores.records import EntityMentions
from pipeline.text.ids import entity_id, is_syllabic, match_key, words
from pipeline.text.sentences import sentence_spans

LONGEST, MOST = 12, 2000
"""Words (of Chinese and Japanese: characters) of a name, and names looked for in a question."""
_AROUND = ",;:!?()[]{}。，、；：！？（）《》"
TARGETS, OPENING = 1000, 300
"""Passages that names are followed to, and characters of each that tell what it is about."""
FIRST, NEAR = 4, 60
"""Characters after which a passage that is about a name has named it, and one that may be."""
ABOUT, PERHAPS, ASIDE = 1.0, 0.3, 0.1
ANY_NAME = 0.3
"""What a name counts in whose sentences no word of the question is."""
OPEN, COVERED = 3.0, 0.5
"""A passage that leaves a third of the question's words open, or more, is stepped from in full; and
how far one is that has them all, for it may name what is asked for and not tell it."""
GOES_ON, FILLED = 0.8, 3.0
"""What a step counts to a passage that begins with no word of those left open; and how much each
share of them adds, 1 at most, so that a third of them do."""
_QUALIFIER = re.compile(r"\s*[(（][^()（）]*[)）]$")
_key = lru_cache(10_000)(match_key)
"""A passage is looked at once for each name in it."""
_WIDE = re.compile(
    "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
POOL = 50
"""Passages of either lane."""
FEW = 30
"""Passages that an entity is followed to at most: one in more of them tells nothing."""
SHARPNESS, BY_VECTOR = 8, 0.4
"""The power of similarity, so that only the best few count, and what the best of that lane gets."""
BY_FAR = 1.2
"""How many times the next one's score by words a passage has that is surely the first."""
NAMED, NAMED_BY_ONE_WORD = 1.0, 0.5
"""What a passage about a name in the question gets; 1 is what the best of a lane gets."""


def possible_names(question: str) -> list[str]:
    """Match keys of all runs of up to LONGEST words, longest first, then by place; no lone stop
    word."""
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


@dataclass(frozen=True)
class WalkSteps:
    """``reached``: passage -> the score of the best step to it, 1 at most where the scores of
    passages are. ``edges``: what was stepped over. ``mentioned``: the entities."""

    reached: Mapping[str, float]
    edges: Sequence[Edge]
    mentioned: Sequence[EntityMentions]


def mention_steps(
    texts: Mapping[str, str],
    scores: Mapping[str, float],
    mentioned: Sequence[EntityMentions],
    asked: Collection[str],
    openings: Mapping[str, Opening],
    weights: Mapping[str, float],
) -> WalkSteps:
    """Steps from the passages of ``texts``, whose scores are known, to those whose title and
    opening are. The fewer of the question's words a passage leaves open, the less leads on from it:
    what is asked for may be there. What does counts more the more of them it begins with.

    ``asked``: entities that the question names: where they are is known, nothing is stepped over
    them. ``weights``: the question's words.
    """
    sentences = {passage: read_sentences(text) for passage, text in texts.items()}
    total = sum(weights.values()) or 1.0
    left = {id: left_open(held, weights) for id, held in sentences.items()}
    onward = {
        id: scores[id] * min(1.0, max(COVERED, OPEN * sum(left[id].values()) / total))
        for id in sentences
    }

    @cache
    def begins(passage: str) -> frozenset[str]:
        """Of those that are stepped to: most that mention an entity are not."""
        return frozenset(words(" ".join(openings[passage])))

    reached: dict[str, float] = {}
    edges = []
    for entity in mentioned:
        about = {
            id: aboutness(entity.name, *openings[id]) for id in entity.passages if id in openings
        }
        links = {
            id: ANY_NAME + overlap(sentences[id], entity, weights)
            for id in entity.passages
            if id in sentences
        }
        edges += [
            (entity.id, id, links.get(id, 0.0) + about.get(id, 0.0)) for id in {**about, **links}
        ]
        if entity.id in asked:
            continue
        for passage, link in links.items():
            for target, share in about.items():
                if target != passage:
                    step = onward[passage] * link * share * goes_on(left[passage], begins(target))
                    reached[target] = max(reached.get(target, 0.0), step)
    return WalkSteps(reached, edges, mentioned)


@dataclass(frozen=True)
class SentenceWords:
    """A sentence's match key, and its words."""

    key: str
    words: frozenset[str]


def read_sentences(text: str) -> list[SentenceWords]:
    """What ``overlap`` compares a text by."""
    sentences = (text[start:end] for start, end in sentence_spans(text))
    return [
        SentenceWords(match_key(sentence), frozenset(words(sentence))) for sentence in sentences
    ]


def left_open(sentences: Sequence[SentenceWords], weights: Mapping[str, float]) -> dict[str, float]:
    """The question's words that none of the sentences has, and their weights."""
    held = frozenset().union(*(sentence.words for sentence in sentences))
    return {word: weight for word, weight in weights.items() if word not in held}


def goes_on(left: Mapping[str, float], begins: Collection[str]) -> float:
    """What a step counts from a passage that leaves those words open to one that begins with
    these."""
    total = sum(left.values()) or 1.0
    found = sum(weight for word, weight in left.items() if word in begins) / total
    return GOES_ON + min(1.0, FILLED * found)


def overlap(
    sentences: Sequence[SentenceWords], entity: EntityMentions, weights: Mapping[str, float]
) -> float:
    """The share of the question's words, by weight, in the best of the sentences that hold the
    name; the words of the name itself left out."""
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
    """How far a passage that mentions a name is about it: as its title, and by where in its opening
    the name is."""
    key = _key(name)
    if key in (_key(title), _key(_QUALIFIER.sub("", title))):
        return ABOUT
    place = _find(_key(opening), key)
    if place < 0:
        return ASIDE
    return ABOUT if place <= FIRST else PERHAPS if place < NEAR else ASIDE


def _find(text: str, name: str) -> int:
    """Where a name begins in a text; -1 where it is only a part of words."""
    place = text.find(name)
    while place >= 0 and _goes_on(text, place, place + len(name)):
        place = text.find(name, place + 1)
    return place


def _goes_on(text: str, start: int, end: int) -> bool:
    return any(
        _is_inside(text[edge - 1 : edge + 1]) for edge in (start, end) if 0 < edge < len(text)
    )


def _is_inside(pair: str) -> bool:
    """Whether a word goes on between two characters: in Chinese and Japanese nobody can tell, so
    not."""
    return pair.isalnum() and not _WIDE.search(pair)


def passage_scores(lexical: Hits, nearest: Hits) -> dict[str, float]:
    """Of the best passages by words and by vector the sum of both scores, each as a share of the
    best one. One that only the other lane has found gets what the last of this one has, which is
    the most it can have."""
    by_words = _shares(lexical, 1)
    by_vector = {id: BY_VECTOR * share for id, share in _shares(nearest, SHARPNESS).items()}
    floors = [
        min(shares.values()) if len(shares) == POOL else 0.0 for shares in (by_words, by_vector)
    ]
    found = dict.fromkeys([*by_words, *by_vector])
    return {id: by_words.get(id, floors[0]) + by_vector.get(id, floors[1]) for id in found}


def surely_first(lexical: Hits, nearest: Hits) -> list[str]:
    """The passage that both lanes have first, or that words have first by far, if there is one. Of
    a single one that has any of the words nobody can tell how far it is ahead."""
    if not lexical or not nearest:
        return []
    (first, score), *others = lexical
    by_far = bool(others) and score >= BY_FAR * others[0][1]
    return [first] if by_far or first == nearest[0][0] else []


def named_entities(
    question: str, vectors: VectorReads
) -> tuple[list[EntityMentions], Mapping[str, Opening]]:
    """The entities whose names the question holds, without those whose names are a part of
    another's; and how the passages that mention them begin."""
    ids = {entity_id(name): name for name in possible_names(question)}
    found, openings = vectors.opened_mentions([], list(ids), FEW, TARGETS, OPENING)
    kept = set(longest_names(question, [ids[entity.id] for entity in found]))
    return [entity for entity in found if ids[entity.id] in kept], openings


def named_passages(
    named: Sequence[EntityMentions], openings: Mapping[str, Opening]
) -> dict[str, float]:
    """What each passage that mentions one of the entities gets for being about it."""
    scores: dict[str, float] = {}
    for entity in named:
        most = NAMED if len(match_key(entity.name).split()) > 1 else NAMED_BY_ONE_WORD
        for passage in entity.passages:
            if passage in openings:
                score = most * aboutness(entity.name, *openings[passage])
                scores[passage] = max(score, scores.get(passage, 0.0))
    return scores


def _shares(hits: Hits, power: int) -> dict[str, float]:
    best = max((score for _, score in hits), default=0.0)
    return {id: max(score / best, 0.0) ** power for id, score in hits} if best > 0 else {}
