"""Passages that a graph search starts from, and its steps over names from passage to passage.

Names and passages are enough: no relationship needs to be extracted. A step leads from a passage
over a name in it to another passage that mentions the name. Its score grows with:

- the question's words in the sentence that holds the name, so that the walk follows the name that
  the question asks about;
- the question's words that the first passage does not contain, because a passage that contains
  all of them may already answer the question;
- the share of these missing words in the opening of the second passage;
- how far the second passage is about the name, rather than just mentioning it.

LinearRAG (Zhuang et al. 2025) walks sentences, entities and passages in the same way.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.query.search.walk.pagerank import Edge
from pipeline.stores.reads import Hits, Opening, VectorReads
from pipeline.stores.records import EntityMentions
from pipeline.text.ids import entity_id, is_syllabic, match_key, words
from pipeline.text.sentences import find_sentences

LONGEST, MOST = 12, 2000
"""LONGEST: most words of a name (characters in Chinese and Japanese). MOST: most candidate names of
a question."""
_AROUND = ",;:!?()[]{}。，、；：！？（）《》"
TARGETS, OPENING = 1000, 300
"""TARGETS: most passages that steps lead to. OPENING: characters of each that show its topic."""
FIRST, NEAR = 4, 60
"""Positions, in characters, of a name in a passage's opening.

Up to FIRST the passage is about the name; below NEAR it may be.
"""
ABOUT, PERHAPS, ASIDE = 1.0, 0.3, 0.1
"""Scores of a passage that is about a name, may be about it, or only mentions it."""
ANY_NAME = 0.3
"""Base score of a name whose sentences contain no word of the question."""
OPEN, COVERED = 3.0, 0.5
"""Weights of a step by the share of the question's words that its first passage lacks.

From a share of 1 / OPEN the step has its full weight. COVERED is the least weight, for a passage
that has all the words: it may name what is asked for without explaining it.
"""
GOES_ON, FILLED = 0.8, 3.0
"""Factors of a step by the missing words that its second passage begins with.

GOES_ON: the factor without any such word. FILLED: gain per share of them; the gain is at most 1.
"""
_QUALIFIER = re.compile(r"\s*[(（][^()（）]*[)）]$")
# The cache pays because a passage is compared once for each name in it.
_key = lru_cache(10_000)(match_key)
# Thai, Lao, Khmer, Japanese, Chinese and Korean scripts, whose words are not separated by spaces.
_WIDE = re.compile(
    "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
POOL = 50
"""Passages found by words, and as many by vector."""
FEW = 30
"""Most passages of an entity that is followed; one in more passages carries no information."""
SHARPNESS, BY_VECTOR = 8, 0.4
"""SHARPNESS: exponent of the cosine similarity, so that only the best few count. BY_VECTOR: score
of the best passage by vector; the best by words has 1."""
BY_FAR = 1.2
"""Least ratio of the first to the second score by words for a first place that is certain."""
NAMED, NAMED_BY_ONE_WORD = 1.0, 0.5
"""Scores of a passage about a name of the question; the best passage by words has 1.

NAMED: of a name of several words, or of one that is all that the question asks. A note whose title
is this name may not have it in its text, while others repeat it. NAMED_BY_ONE_WORD: of any other
name of one word.
"""


def list_possible_names(question: str) -> list[str]:
    """Return match keys of all runs of up to LONGEST words, longest first, then by place.

    Single stop words are left out. At most MOST keys are returned.
    """
    question_words = match_key(question).split()
    units: list[str] = []
    for word in question_words:
        # Chinese and Japanese have no spaces: each character may begin or end a name.
        units += list(word) if any(map(is_syllabic, word)) else [word]
    stop = stop_words(guess_language(question_words))
    names: dict[str, None] = {}
    longest = min(LONGEST, len(units))
    for size in range(longest, 0, -1):
        for run in _runs(units, size):
            if run and run not in stop:
                names[run] = None
    return list(names)[:MOST]


def keep_longest_names(question: str, names: list[str]) -> list[str]:
    """Return the names that occur in the question outside any longer name of the list."""
    remaining = match_key(question)
    kept: list[str] = []
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    for name in longest_first:
        if name in remaining:
            kept.append(name)
            # No name holds a line feed, so none is found across the place of a longer one.
            remaining = remaining.replace(name, "\n")
    return kept


def _runs(units: list[str], size: int) -> Iterator[str]:
    """Yield each run of ``size`` units, as it is and without punctuation at its ends."""
    for start in range(len(units) - size + 1):
        run = units[start : start + size]
        joined = "".join(run) if all(map(is_syllabic, run)) else " ".join(run)
        yield joined
        yield joined.strip(_AROUND)


@dataclass(frozen=True)
class WalkSteps:
    """The steps over names from the best passages.

    ``reached``: passage id -> score of the best step to it, at most 1 if the scores of passages
    are. ``edges``: links between entities and passages, for the walk. ``mentioned``: the entities.
    """

    reached: Mapping[str, float]
    edges: Sequence[Edge]
    mentioned: Sequence[EntityMentions]


def find_steps(
    texts: Mapping[str, str],
    scores: Mapping[str, float],
    mentioned: Sequence[EntityMentions],
    asked: Collection[str],
    openings: Mapping[str, Opening],
    weights: Mapping[str, float],
) -> WalkSteps:
    """Return the steps from the passages ``texts`` to the passages ``openings``.

    ``texts`` maps passage ids to their content and ``scores`` to their scores; ``openings`` maps
    passage ids to title and first characters. ``weights`` maps the question's words to their
    weights. No step leads over the entities ``asked``, which the question names: their passages
    are known without it.
    """
    sentences = {passage: read_sentences(text) for passage, text in texts.items()}
    # Without any word the sum is 0, which nothing can be divided by.
    total = sum(weights.values()) or 1.0
    missing: dict[str, dict[str, float]] = {}
    score_onward: dict[str, float] = {}
    for passage, read in sentences.items():
        missing[passage] = find_missing_words(read, weights)
        weight_of_step = OPEN * sum(missing[passage].values()) / total
        limited = min(1.0, max(COVERED, weight_of_step))
        score_onward[passage] = scores[passage] * limited

    # Words of an opening are found only when a step leads to it: most openings are never used.
    @cache
    def opening_words(passage: str) -> frozenset[str]:
        return frozenset(words(" ".join(openings[passage])))

    reached: dict[str, float] = {}
    edges: list[Edge] = []
    for entity in mentioned:
        aboutness: dict[str, float] = {}
        overlap: dict[str, float] = {}
        for id in entity.passages:
            if id in openings:
                aboutness[id] = rate_aboutness(entity.name, *openings[id])
            if id in sentences:
                overlap[id] = ANY_NAME + rate_overlap(sentences[id], entity, weights)
        for id in {**aboutness, **overlap}:
            weight = overlap.get(id, 0.0) + aboutness.get(id, 0.0)
            edges.append((entity.id, id, weight))
        if entity.id in asked:
            continue
        for start, overlap_of_start in overlap.items():
            for target, aboutness_of_target in aboutness.items():
                if target != start:
                    factor = weigh_opening(missing[start], opening_words(target))
                    step = score_onward[start] * overlap_of_start * aboutness_of_target * factor
                    reached[target] = max(reached.get(target, 0.0), step)
    return WalkSteps(reached, edges, mentioned)


@dataclass(frozen=True)
class SentenceWords:
    """A sentence's match key, and its words."""

    key: str
    words: frozenset[str]


def read_sentences(text: str) -> list[SentenceWords]:
    """Return the match key and the words of each sentence of the text."""
    read: list[SentenceWords] = []
    for start, end in find_sentences(text):
        sentence = text[start:end]
        read.append(SentenceWords(match_key(sentence), frozenset(words(sentence))))
    return read


def find_missing_words(
    sentences: Sequence[SentenceWords], weights: Mapping[str, float]
) -> dict[str, float]:
    """Return the question's words, with their weights, that are in none of the sentences."""
    present: set[str] = set()
    for sentence in sentences:
        present |= sentence.words
    return {word: weight for word, weight in weights.items() if word not in present}


def weigh_opening(missing: Mapping[str, float], opening: Collection[str]) -> float:
    """Return the factor of a step: its first passage lacks words that ``opening`` may contain.

    ``missing`` maps these words to their weights; ``opening`` holds the words that the second
    passage begins with.
    """
    total = sum(missing.values()) or 1.0
    in_opening = sum(weight for word, weight in missing.items() if word in opening)
    gain = FILLED * (in_opening / total)
    return GOES_ON + min(1.0, gain)


def rate_overlap(
    sentences: Sequence[SentenceWords], entity: EntityMentions, weights: Mapping[str, float]
) -> float:
    """Return the largest share of the question's words in a sentence that holds the name.

    The share is by weight and does not count the words of the name itself; 0 without a sentence.
    """
    total = sum(weights.values()) or 1.0
    name = _key(entity.name)
    name_words = frozenset(words(entity.name))
    asked = {word: weight for word, weight in weights.items() if word not in name_words}
    best = 0.0
    for sentence in sentences:
        if contains_name(sentence.key, name):
            shared = sum(weight for word, weight in asked.items() if word in sentence.words)
            best = max(best, shared / total)
    return best


def contains_name(text: str, name: str) -> bool:
    """Return whether the text has the name as whole words; both are match keys."""
    return _find_whole_words(text, name) >= 0


def rate_aboutness(name: str, title: str, opening: str) -> float:
    """Return a score from 0 to 1: how far a passage that mentions a name is about it.

    It is ABOUT if the title is the name, with or without a qualifier in parentheses. Otherwise the
    position of the name in the passage's opening decides.
    """
    key = _key(name)
    without_qualifier = _QUALIFIER.sub("", title)
    if key in (_key(title), _key(without_qualifier)):
        return ABOUT
    place = _find_whole_words(_key(opening), key)
    if place < 0 or place >= NEAR:
        return ASIDE
    return ABOUT if place <= FIRST else PERHAPS


def _find_whole_words(text: str, name: str) -> int:
    """Return where the name begins in the text as whole words; -1 if it does not occur so."""
    place = text.find(name)
    while place >= 0 and _cuts_a_word(text, place, place + len(name)):
        place = text.find(name, place + 1)
    return place


def _cuts_a_word(text: str, start: int, end: int) -> bool:
    """Return whether a word of the text continues across ``start`` or ``end``.

    Scripts without spaces do not show where a word ends, so there the result is False.
    """
    for edge in (start, end):
        if not 0 < edge < len(text):
            continue
        characters_around = text[edge - 1 : edge + 1]
        if characters_around.isalnum() and not _WIDE.search(characters_around):
            return True
    return False


def score_passages(lexical: Hits, nearest: Hits) -> dict[str, float]:
    """Return passage id -> score by words plus score by vector, each relative to its best hit.

    A passage found in one of the two lists only gets the last score of the other list if that is
    full, because its own can be no higher; otherwise 0.
    """
    by_words = _relative_scores(lexical, 1)
    by_vector: dict[str, float] = {}
    for id, share in _relative_scores(nearest, SHARPNESS).items():
        by_vector[id] = BY_VECTOR * share
    least_by_words = min(by_words.values()) if len(by_words) == POOL else 0.0
    least_by_vector = min(by_vector.values()) if len(by_vector) == POOL else 0.0
    scores: dict[str, float] = {}
    for id in (*by_words, *by_vector):
        scores[id] = by_words.get(id, least_by_words) + by_vector.get(id, least_by_vector)
    return scores


def find_sure_first(lexical: Hits, nearest: Hits) -> list[str]:
    """Return the passage that is certainly the best, or an empty list.

    It is first by words, and either first by vector too or well ahead of the second by words. A
    single hit by words has no second to be compared with.
    """
    if not lexical or not nearest:
        return []
    first, score = lexical[0]
    first_by_vector, _ = nearest[0]
    if first == first_by_vector:
        return [first]
    if len(lexical) < 2:
        return []
    _, second_score = lexical[1]
    is_far_ahead = score >= BY_FAR * second_score
    return [first] if is_far_ahead else []


def find_named_entities(
    question: str, vectors: VectorReads
) -> tuple[list[EntityMentions], Mapping[str, Opening]]:
    """Return the entities that the question names, and the openings of passages about them.

    An entity whose name occurs only within a longer name is left out. The openings map passage ids
    to title and first characters.
    """
    name_of = {entity_id(name): name for name in list_possible_names(question)}
    found, openings = vectors.opened_mentions([], list(name_of), FEW, TARGETS, OPENING)
    names_found = [name_of[entity.id] for entity in found]
    longest_names = set(keep_longest_names(question, names_found))
    named = [entity for entity in found if name_of[entity.id] in longest_names]
    return named, openings


def score_named_passages(
    question: str, named: Sequence[EntityMentions], openings: Mapping[str, Opening]
) -> dict[str, float]:
    """Return passage id -> score for being about one of the named entities."""
    scores: dict[str, float] = {}
    for entity in named:
        n_words = len(match_key(entity.name).split())
        is_telling = n_words > 1 or is_all_that_is_asked(entity.name, question)
        most = NAMED if is_telling else NAMED_BY_ONE_WORD
        for passage in entity.passages:
            if passage in openings:
                score = most * rate_aboutness(entity.name, *openings[passage])
                scores[passage] = max(score, scores.get(passage, 0.0))
    return scores


def is_all_that_is_asked(name: str, question: str) -> bool:
    """Return whether the question has no words but those of the name and stop words."""
    spoken = match_key(question).split()
    stop = stop_words(guess_language(spoken))
    telling = [word for word in spoken if word.strip(_AROUND) not in stop]
    return set(words(" ".join(telling))) <= set(words(name))


def _relative_scores(hits: Hits, power: int) -> dict[str, float]:
    """Return each score as a share of the best one, to ``power``; empty if none is above 0."""
    best = max((score for _, score in hits), default=0.0)
    if best <= 0:
        return {}
    return {id: max(score / best, 0.0) ** power for id, score in hits}
