"""Facts near a question, and paths of two facts.

A question of several hops is near no single fact. The second fact is near what remains of the
question's vector after the first fact's vector is subtracted. The score of a pair is that of
PropRAG's beam search (Wang and Han 2025, "PropRAG") with paths of length two.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Link, Relationship

FACTS, START_FACTS = 20, 5
"""FACTS: facts that are looked at. START_FACTS: facts that the walk starts from; more are noise."""
NEIGHBOURS, LINKS = 100, 500
"""NEIGHBOURS: most neighbours of an entity that is stepped over. LINKS: relationships read."""
PATHS = 5
TAKEN_OFF = 0.5
"""Factor of the first fact's vector that is subtracted from the question's vector."""
Pair = tuple[str, str]


@dataclass(frozen=True)
class GraphFacts:
    """The facts near a question.

    ``nearest``: the facts, nearest first. ``links``: the relationships that share an entity with
    them. ``scores``: relationship id -> score, at most 1.
    """

    nearest: Sequence[Relationship]
    links: Sequence[Link]
    scores: Mapping[str, float]


def find_facts(
    hits: Mapping[str, float], more_entities: Sequence[str], graph: GraphReads
) -> GraphFacts:
    """Return the relationships of ``hits`` and the links of their ends and of ``more_entities``.

    ``hits`` maps relationship ids to their similarity to the question, best first.
    """
    nearest = graph.relationships(list(hits))
    sources = [fact.source_entity_id for fact in nearest]
    targets = [fact.target_entity_id for fact in nearest]
    ends = list(dict.fromkeys([*sources, *targets, *more_entities]))
    links = graph.links(ends, NEIGHBOURS, LINKS)
    best = max(hits.values(), default=0.0)
    scores: dict[str, float] = {}
    if best > 0:
        for fact in nearest[:START_FACTS]:
            scores[fact.id] = max(hits[fact.id], 0.0) / best
    return GraphFacts(nearest, links, scores)


def find_best_paths(
    question: np.ndarray, facts: GraphFacts, vectors: VectorReads, graph: GraphReads
) -> tuple[list[Relationship], dict[str, float]]:
    """Return the relationships of the PATHS best pairs, and a score of at most 1 for each id.

    ``question`` is the question's vector.
    """
    ids = list(dict.fromkeys(fact.id for fact in chain(facts.nearest, facts.links)))
    embeddings = vectors.embeddings("relationships", ids)
    fact_vectors = {id: _unit_vector(vector) for id, vector in embeddings.items()}
    ranked_pairs = _rank_pairs(_unit_vector(question), facts, fact_vectors)
    best_pairs = ranked_pairs[:PATHS]
    best_score = max((score for score, _ in best_pairs), default=0.0)
    scores: dict[str, float] = {}
    for score, pair in best_pairs:
        relative_score = score / best_score if best_score > 0 else 0.0
        for id in pair:
            scores[id] = max(scores.get(id, 0.0), relative_score)
    return graph.relationships(list(scores)), scores


def _rank_pairs(
    question: np.ndarray, facts: GraphFacts, fact_vectors: Mapping[str, np.ndarray]
) -> list[tuple[float, Pair]]:
    """Return the scored pairs of a near fact and one that shares an entity with it, best first.

    The vectors of the question and of the facts have length 1.
    """
    links_at: dict[str, list[str]] = defaultdict(list)
    for link in facts.links:
        # A dictionary, so that a relationship of an entity to itself counts once.
        ends = dict.fromkeys((link.source_entity_id, link.target_entity_id))
        for end in ends:
            links_at[end].append(link.id)
    scores: dict[Pair, float] = {}
    for fact in facts.nearest:
        fact_vector = fact_vectors.get(fact.id)
        if fact_vector is None:
            continue
        # A relationship with the same two ends is at both of them.
        at_source, at_target = links_at[fact.source_entity_id], links_at[fact.target_entity_id]
        neighbours = dict.fromkeys([*at_source, *at_target])
        similarity = float(question @ fact_vector)
        remainder = _unit_vector(question - TAKEN_OFF * fact_vector)
        for neighbour in neighbours:
            if neighbour in fact_vectors and neighbour != fact.id:
                similarity_to_rest = float(remainder @ fact_vectors[neighbour])
                scores[fact.id, neighbour] = similarity + similarity_to_rest
    best_first = sorted(scores, key=lambda pair: (-scores[pair], pair))
    return [(scores[pair], pair) for pair in best_first]


def _unit_vector(vector: np.ndarray) -> np.ndarray:
    """Return the vector with length 1; a zero vector as it is."""
    length = np.linalg.norm(vector)
    return vector / length if length else vector
