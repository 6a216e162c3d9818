"""Graph search: personalised PageRank over passages and entities, without a chat model.

It follows HippoRAG 2 (Gutiérrez et al. 2025, "From RAG to memory", section 3): the walk starts at
facts and passages that match the question, and ranks passages. The walk also starts at passages
that steps over shared names lead to (seeds.py), and at those on paths of two facts (facts.py).
So the second hop of a question weighs as much as the first.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.query.search.evidence import Evidence
from pipeline.query.search.walk.facts import FACTS, GraphFacts, find_best_paths, find_facts
from pipeline.query.search.walk.pagerank import DAMPING, compute_pagerank
from pipeline.query.search.walk.seeds import (
    FEW,
    NAMED,
    OPENING,
    POOL,
    TARGETS,
    WalkSteps,
    find_named_entities,
    find_steps,
    find_sure_first,
    is_all_that_is_asked,
    score_named_passages,
    score_passages,
)
from pipeline.stores.reads import GraphReads, Lexical, VectorReads, VectorSearch
from pipeline.stores.records import EntityMentions, Relationship

SEEDS = 20
"""Number of best passages whose texts are read to find names in them."""
STEPPED, FACT, ENTITY = 1.5, 0.7, 0.5
"""Weights of what the walk starts from; the best passage by words has 1.

STEPPED: the best passage that a step over a name leads to. FACT: a passage that holds a fact near
the question or on a path. ENTITY: an end of that fact, relative to its passage.
"""
QUOTED, QUOTED_FROM = 0.2, 40
"""QUOTED: factor on a fact whose description is a sentence of its passage, as in a graph that was
built without a model; such a fact adds nothing to the passage. QUOTED_FROM: the number of
characters of the description that are compared with the passage.
"""


def graph_search(
    question: str,
    vector: np.ndarray,
    top_k: int,
    chunk_top_k: int,
    vectors: VectorReads,
    graph: GraphReads,
) -> Evidence:
    """Return passages, entities and relationships, ranked by the mass that the walk ends with.

    ``vector`` is the question's. At most ``top_k`` entities and relationships and ``chunk_top_k``
    passages are returned. The number of reads depends neither on these limits nor on the size of
    the graph.
    """
    fact_search = VectorSearch("relationships", vector, FACTS)
    passage_search = VectorSearch("chunks", vector, POOL)
    nearest_facts, nearest_passages = vectors.nearest([fact_search, passage_search])
    named, openings = find_named_entities(question, vectors)
    named_ids = [entity.id for entity in named]
    facts = find_facts(dict(nearest_facts), named_ids, graph)
    path_facts, path_scores = find_best_paths(vector, facts, vectors, graph)
    lexical = vectors.lexical(question, POOL)

    restart = score_passages(lexical.hits, nearest_passages)
    about_names = score_named_passages(question, named, openings)
    _add_mass(restart, about_names)
    start_facts = [fact for fact in facts.nearest if fact.id in facts.scores]
    seeds = _ranked_ids(restart, restart)[:SEEDS]
    passages = [*seeds, *_first_passages(start_facts), *_first_passages(path_facts)]
    texts = _read_texts(passages, vector, vectors)
    seed_texts = {id: texts[id] for id in seeds if id in texts}
    steps = _steps_over_names(seed_texts, restart, named, facts, lexical, vectors)

    _add_mass(restart, steps.reached, STEPPED)
    start_mass = _fact_mass(start_facts, facts.scores, steps.mentioned, texts)
    _add_mass(restart, start_mass, FACT)
    path_mass = _fact_mass(path_facts, path_scores, steps.mentioned, texts)
    _add_mass(restart, path_mass, FACT)
    links = [(link.source_entity_id, link.target_entity_id, 1.0) for link in facts.links]
    edges = [*steps.edges, *links]
    mass = compute_pagerank(edges, restart, DAMPING)
    first = find_sure_first(lexical.hits, nearest_passages)
    asks_for_name = any(is_all_that_is_asked(entity.name, question) for entity in named)
    if asks_for_name and max(about_names.values(), default=0.0) >= NAMED:
        # The first by words may only repeat the name that another passage is about.
        first = []
    return _evidence(mass, first, facts, steps, top_k, chunk_top_k, graph)


def _first_passages(facts: Iterable[Relationship]) -> list[str]:
    return [passage for fact in facts for passage in fact.text_unit_ids[:1]]


def _read_texts(ids: Sequence[str], vector: np.ndarray, vectors: VectorReads) -> dict[str, str]:
    distinct = list(dict.fromkeys(ids))
    passages = vectors.chunks(distinct, vector)
    return {passage.id: passage.content for passage in passages}


def _steps_over_names(
    texts: Mapping[str, str],
    scores: Mapping[str, float],
    named: Sequence[EntityMentions],
    facts: GraphFacts,
    lexical: Lexical,
    vectors: VectorReads,
) -> WalkSteps:
    """Return the steps from the passages ``texts`` over names in them and over ends of facts."""
    ends = set[str]()
    for fact in facts.nearest:
        ends.update((fact.source_entity_id, fact.target_entity_id))
    mentioned, openings = vectors.opened_mentions(list(texts), sorted(ends), FEW, TARGETS, OPENING)
    asked = {entity.id for entity in named}
    words = _content_words(lexical)
    return find_steps(texts, scores, mentioned, asked, openings, words)


def _content_words(lexical: Lexical) -> dict[str, float]:
    """Return the weights of the question's words that are no stop words of its language."""
    language = guess_language(list(lexical.weights))
    stop = stop_words(language)
    return {word: weight for word, weight in lexical.weights.items() if word not in stop}


def _fact_mass(
    facts: Iterable[Relationship],
    scores: Mapping[str, float],
    mentioned: Sequence[EntityMentions],
    texts: Mapping[str, str],
) -> dict[str, float]:
    """Return the restart mass of the passages that hold the facts, and of the facts' ends.

    The result maps a passage or entity id to its mass. An entity's mass is divided by the number
    of passages that mention it.
    """
    n_passages = {entity.id: len(entity.passages) for entity in mentioned}
    mass: dict[str, float] = {}
    for fact in facts:
        score = scores.get(fact.id, 0.0)
        for passage in fact.text_unit_ids[:1]:
            if passage in texts and _quotes(fact.description, texts[passage]):
                score *= QUOTED
        for passage in fact.text_unit_ids[:FEW]:
            mass[passage] = max(mass.get(passage, 0.0), score)
        for end in (fact.source_entity_id, fact.target_entity_id):
            if n_passages.get(end):
                share = ENTITY * score / n_passages[end]
                mass[end] = max(mass.get(end, 0.0), share)
    return mass


def _quotes(description: str, text: str) -> bool:
    """Return whether the text holds the beginning of the description, ignoring white space."""
    flat_text = " ".join(text.split())
    flat_description = " ".join(description.split())
    return flat_description[:QUOTED_FROM] in flat_text


def _evidence(
    mass: Mapping[str, float],
    first: Sequence[str],
    facts: GraphFacts,
    steps: WalkSteps,
    top_k: int,
    chunk_top_k: int,
    graph: GraphReads,
) -> Evidence:
    """Return the evidence ranked by mass; a relationship has the geometric mean of its ends.

    The passages ``first`` come before all others, whatever their mass.
    """
    entities = {entity.id for entity in steps.mentioned}
    weights: dict[str, float] = {}
    for link in chain(facts.nearest, facts.links):
        source, target = link.source_entity_id, link.target_entity_id
        entities.update((source, target))
        weights[link.id] = math.sqrt(mass.get(source, 0.0) * mass.get(target, 0.0))
    # Every node of the walk that is no entity is a passage.
    by_mass = _ranked_ids(mass, mass.keys() - entities)
    passages = list(dict.fromkeys([*first, *by_mass]))[:chunk_top_k]
    best_entities = _ranked_ids(mass, entities)[:top_k]
    best_links = _ranked_ids(weights, weights)[:top_k]
    return Evidence(
        entities=graph.entities(best_entities),
        relationships=graph.relationships(best_links),
        unit_lanes={"graph": dict.fromkeys(passages, 1)},
    )


def _ranked_ids(scores: Mapping[str, float], ids: Iterable[str]) -> list[str]:
    """Return the ids whose score is above 0, best first, ties by id."""
    scored = [id for id in ids if scores.get(id, 0.0) > 0]
    return sorted(scored, key=lambda node: (-scores[node], node))


def _add_mass(mass: dict[str, float], more: Mapping[str, float], weight: float = 1.0) -> None:
    """Add ``more`` times ``weight`` to ``mass``, id by id."""
    for id, amount in more.items():
        mass[id] = mass.get(id, 0.0) + weight * amount
