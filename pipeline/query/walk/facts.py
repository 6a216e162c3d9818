"""Facts near a question, and paths of two of them.

A question of several hops is near no single fact: the second one is near what is left of it when
the first is taken off. The score of a pair is as in PropRAG's beam search (Wang and Han 2025,
"PropRAG"), of length two.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Link, Relationship

FACTS, START_FACTS = 20, 5
"""Facts to look at, and those that the walk starts from: more are noise."""
NEIGHBOURS, LINKS = 100, 500
"""Neighbours an entity may have to be stepped over, and relationships read."""
PATHS = 5
TAKEN_OFF = 0.5
"""How much of the first fact's vector is taken off the question's."""
Pair = tuple[str, str]


@dataclass(frozen=True)
class GraphFacts:
    """``nearest``: the facts near the question, the nearest first. ``links``: the relationships
    next to them. ``scores``: relationship -> what it counts, 1 at most."""

    nearest: Sequence[Relationship]
    links: Sequence[Link]
    scores: Mapping[str, float]


def find_facts(
    hits: Mapping[str, float], more_entities: Sequence[str], graph: GraphReads
) -> GraphFacts:
    """The facts near the question, by their similarity to it, and the links of their ends and of
    ``more_entities``."""
    nearest = graph.relationships(list(hits))
    ends = chain(
        (fact.source_entity_id for fact in nearest),
        (fact.target_entity_id for fact in nearest),
        more_entities,
    )
    links = graph.links(list(dict.fromkeys(ends)), NEIGHBOURS, LINKS)
    best = max(hits.values(), default=0.0)
    scores = (
        {fact.id: max(hits[fact.id], 0.0) / best for fact in nearest[:START_FACTS]}
        if best > 0
        else {}
    )
    return GraphFacts(nearest, links, scores)


def best_paths(
    question: np.ndarray, facts: GraphFacts, vectors: VectorReads, graph: GraphReads
) -> tuple[list[Relationship], dict[str, float]]:
    """The relationships of the PATHS best pairs, and what each counts, 1 at most."""
    ids = list(dict.fromkeys(fact.id for fact in chain(facts.nearest, facts.links)))
    stored = {id: _unit(vector) for id, vector in vectors.embeddings("relationships", ids).items()}
    ranked = _pairs(_unit(question), facts, stored)[:PATHS]
    best = max((score for score, _ in ranked), default=0.0)
    scores: dict[str, float] = {}
    for score, pair in ranked:
        for id in pair:
            scores[id] = max(scores.get(id, 0.0), score / best if best > 0 else 0.0)
    return graph.relationships(list(scores)), scores


def _pairs(
    question: np.ndarray, facts: GraphFacts, stored: Mapping[str, np.ndarray]
) -> list[tuple[float, Pair]]:
    """The pairs of a near fact and one that shares an entity with it, the best first."""
    at_entity = defaultdict(list)
    for link in facts.links:
        for end in dict.fromkeys((link.source_entity_id, link.target_entity_id)):
            at_entity[end].append(link.id)
    scored: dict[Pair, float] = {}
    for fact in facts.nearest:
        if fact.id not in stored:
            continue
        beside = dict.fromkeys(
            chain(at_entity[fact.source_entity_id], at_entity[fact.target_entity_id])
        )
        left = _unit(question - TAKEN_OFF * stored[fact.id])
        first = float(question @ stored[fact.id])
        scored |= {
            (fact.id, other): first + float(left @ stored[other])
            for other in beside
            if other in stored and other != fact.id
        }
    return sorted(
        ((score, pair) for pair, score in scored.items()), key=lambda entry: (-entry[0], entry[1])
    )


def _unit(vector: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector)
    return vector / length if length else vector
