"""Graph search: personalised PageRank over passages and entities, from the question alone, without
a chat model.

After HippoRAG 2 (Gutiérrez et al. 2025, "From RAG to memory", section 3): facts and passages are
where the walk starts, and it ranks passages. What steps over names (seeds.py) and paths of two
facts (facts.py) lead to is started from as well, so that the second hop weighs as much as the
first.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.query.search.evidence import Evidence
from pipeline.query.walk.facts import FACTS, GraphFacts, best_paths, find_facts
from pipeline.query.walk.pagerank import DAMPING, personalised_pagerank
from pipeline.query.walk.seeds import (
    FEW,
    OPENING,
    POOL,
    TARGETS,
    WalkSteps,
    mention_steps,
    named_entities,
    named_passages,
    passage_scores,
    surely_first,
)
from pipeline.stores.reads import GraphReads, Lexical, VectorReads, VectorSearch
from pipeline.stores.records import EntityMentions, Relationship

SEEDS = 20
"""Passages that names are looked for in."""
STEPPED, FACT, ENTITY = 1.5, 0.7, 0.5
"""What the best passage gets for being stepped to, one for holding a fact that is near or on a
path, and an end of that fact; 1 is what the best by words gets."""
QUOTED, QUOTED_FROM = 0.2, 40
"""What of that is left where the fact is a sentence of the passage, as in a graph that no model
made: it says nothing that the passage does not; and characters that tell."""


def graph_search(
    question: str,
    vector: np.ndarray,
    top_k: int,
    chunk_top_k: int,
    vectors: VectorReads,
    graph: GraphReads,
) -> Evidence:
    """Passages, entities and relationships by the mass they end with, in as many reads whatever the
    limits are and however large the graph is."""
    near = VectorSearch("relationships", vector, FACTS), VectorSearch("chunks", vector, POOL)
    near_facts, near_passages = vectors.nearest(near)
    named, openings = named_entities(question, vectors)
    facts = find_facts(dict(near_facts), [entity.id for entity in named], graph)
    in_paths, path_scores = best_paths(vector, facts, vectors, graph)
    lexical = vectors.lexical(question, POOL)
    restart = passage_scores(lexical.hits, near_passages)
    _add(restart, named_passages(named, openings))
    started = [fact for fact in facts.nearest if fact.id in facts.scores]
    seeds = _ranked(restart, restart)[:SEEDS]
    texts = _read_texts(
        [*seeds, *_first_passages(started), *_first_passages(in_paths)], vector, vectors
    )
    steps = _steps(
        {id: texts[id] for id in seeds if id in texts}, restart, named, facts, lexical, vectors
    )
    _add(restart, steps.reached, STEPPED)
    for found, scores in ((started, facts.scores), (in_paths, path_scores)):
        _add(restart, _fact_mass(found, scores, steps.mentioned, texts), FACT)
    links = [(link.source_entity_id, link.target_entity_id, 1.0) for link in facts.links]
    mass = personalised_pagerank([*steps.edges, *links], restart, DAMPING)
    return _evidence(
        mass, surely_first(lexical.hits, near_passages), facts, steps, top_k, chunk_top_k, graph
    )


def _first_passages(facts: Iterable[Relationship]) -> list[str]:
    return [passage for fact in facts for passage in fact.text_unit_ids[:1]]


def _read_texts(ids: Sequence[str], vector: np.ndarray, vectors: VectorReads) -> dict[str, str]:
    return {
        passage.id: passage.content for passage in vectors.chunks(list(dict.fromkeys(ids)), vector)
    }


def _steps(
    texts: Mapping[str, str],
    scores: Mapping[str, float],
    named: Sequence[EntityMentions],
    facts: GraphFacts,
    lexical: Lexical,
    vectors: VectorReads,
) -> WalkSteps:
    """From the passages of ``texts`` over the names in them, and over the ends of facts."""
    ends = {end for fact in facts.nearest for end in (fact.source_entity_id, fact.target_entity_id)}
    mentioned, openings = vectors.opened_mentions(list(texts), sorted(ends), FEW, TARGETS, OPENING)
    asked = {entity.id for entity in named}
    return mention_steps(texts, scores, mentioned, asked, openings, _content_words(lexical))


def _content_words(lexical: Lexical) -> dict[str, float]:
    stop = stop_words(guess_language(list(lexical.weights)))
    return {word: weight for word, weight in lexical.weights.items() if word not in stop}


def _fact_mass(
    facts: Iterable[Relationship],
    scores: Mapping[str, float],
    mentioned: Sequence[EntityMentions],
    texts: Mapping[str, str],
) -> dict[str, float]:
    """What the passages that hold the facts get, and the entities at their ends, each by how few
    passages it is in."""
    passages = {entity.id: len(entity.passages) for entity in mentioned}
    mass: dict[str, float] = {}
    for fact in facts:
        held = fact.text_unit_ids
        quoted = any(
            _quotes(fact.description, texts[passage]) for passage in held[:1] if passage in texts
        )
        score = scores.get(fact.id, 0.0) * (QUOTED if quoted else 1.0)
        for passage in held[:FEW]:
            mass[passage] = max(mass.get(passage, 0.0), score)
        for end in (fact.source_entity_id, fact.target_entity_id):
            if passages.get(end):
                mass[end] = max(mass.get(end, 0.0), ENTITY * score / passages[end])
    return mass


def _quotes(description: str, text: str) -> bool:
    return " ".join(description.split())[:QUOTED_FROM] in " ".join(text.split())


def _evidence(
    mass: Mapping[str, float],
    first: Sequence[str],
    facts: GraphFacts,
    steps: WalkSteps,
    top_k: int,
    chunk_top_k: int,
    graph: GraphReads,
) -> Evidence:
    """``first``: passages that stand before all others, whatever their mass."""
    ends = {
        link.id: (link.source_entity_id, link.target_entity_id)
        for link in chain(facts.nearest, facts.links)
    }
    entities = {entity.id for entity in steps.mentioned}.union(*ends.values())
    weights = {
        id: math.sqrt(mass.get(source, 0.0) * mass.get(target, 0.0))
        for id, (source, target) in ends.items()
    }
    passages = list(dict.fromkeys([*first, *_ranked(mass, mass.keys() - entities)]))
    return Evidence(
        entities=graph.entities(_ranked(mass, entities)[:top_k]),
        relationships=graph.relationships(_ranked(weights, weights)[:top_k]),
        chunk_lanes={"graph": dict.fromkeys(passages[:chunk_top_k], 1)},
    )


def _ranked(scores: Mapping[str, float], ids: Iterable[str]) -> list[str]:
    """The ids that score at all, the best first, ties by id."""
    found = sorted((-scores.get(id, 0.0), id) for id in ids)
    return [id for score, id in found if score < 0]


def _add(mass: dict[str, float], more: Mapping[str, float], weight: float = 1.0) -> None:
    for id, amount in more.items():
        mass[id] = mass.get(id, 0.0) + weight * amount
