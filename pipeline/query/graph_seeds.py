"""Where a walk over passages and entities starts: passages near the question, and names that it holds."""

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.query.mention_links import OPENING, Mentioned, aboutness
from pipeline.query.names import longest_names, possible_names
from pipeline.stores.base import Lexical, VectorReads
from pipeline.text import entity_id, match_key

POOL = 50
"""Passages of either lane."""
FEW = 30
"""Passages that an entity is followed to at most: one in more of them tells nothing."""
SHARPNESS, BY_VECTOR = 8, 0.5
"""The power of similarity, so that only the best few count, and what the best of that lane gets."""
NAMED, NAMED_BY_ONE_WORD = 1.0, 0.5
"""What a passage about a name in the question gets; 1 is what the best of a lane gets."""


def passage_scores(lexical: Lexical, vector: np.ndarray, vectors: VectorReads) -> dict[str, float]:
    """Of the best passages by words and by vector the sum of both scores, each as a share of the best one. One that
    only the other lane has found gets what the last of this one has, which is the most it can have."""
    nearest = vectors.nearest("chunks", vector, POOL)
    by_words = _shares(lexical.hits, 1)
    by_vector = {id: BY_VECTOR * share for id, share in _shares(nearest, SHARPNESS).items()}
    floors = [min(shares.values()) if len(shares) == POOL else 0.0 for shares in (by_words, by_vector)]
    found = dict.fromkeys([*by_words, *by_vector])
    return {id: by_words.get(id, floors[0]) + by_vector.get(id, floors[1]) for id in found}


def named_entities(question: str, vectors: VectorReads) -> list[Mentioned]:
    """The entities whose names the question holds, without those whose names are a part of another's."""
    ids = {entity_id(name): name for name in possible_names(question)}
    found = read_mentions([], list(ids), vectors)
    kept = set(longest_names(question, [ids[entity.id] for entity in found]))
    return [entity for entity in found if ids[entity.id] in kept]


def named_passages(named: Sequence[Mentioned], vectors: VectorReads) -> dict[str, float]:
    """What each passage that mentions one of the entities gets for being about it."""
    ids = sorted({passage for entity in named for passage in entity.passages})
    openings = read_openings(ids, vectors)
    scores: dict[str, float] = {}
    for entity in named:
        most = NAMED if len(match_key(entity.name).split()) > 1 else NAMED_BY_ONE_WORD
        for passage in entity.passages:
            if passage in openings:
                score = most * aboutness(entity.name, *openings[passage])
                scores[passage] = max(score, scores.get(passage, 0.0))
    return scores


def read_mentions(passages: Sequence[str], entities: Sequence[str], vectors: VectorReads) -> list[Mentioned]:
    """The entities that the passages mention and those asked for, with the passages of those that have few."""
    rows = vectors.mentions(passages, entities, FEW).itertuples(index=False)
    return [Mentioned(id, name, units) for id, name, units in rows]


def read_openings(ids: Sequence[str], vectors: VectorReads) -> Mapping[str, tuple[str, str]]:
    """id -> title and opening."""
    rows = vectors.openings(ids, OPENING).itertuples(index=False)
    return {id: (title or "", opening or "") for id, title, opening in rows}


def _shares(hits: Sequence[tuple[str, float]], power: int) -> dict[str, float]:
    best = max((score for _, score in hits), default=0.0)
    return {id: max(score / best, 0.0) ** power for id, score in hits} if best > 0 else {}
