"""Graph search: personalised PageRank over passages and entities, from the question alone, without a chat model.

After HippoRAG 2 (Gutiérrez et al. 2025, "From RAG to memory", section 3): facts and passages are where the walk starts,
and it ranks passages. What steps over names (mention_links.py) and paths of two facts (fact_paths.py) lead to is
started from as well, so that the second hop weighs as much as the first.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.models.base import EmbeddingModel
from pipeline.phrases.lexicon import guess_language, stop_words
from pipeline.query.evidence import Evidence
from pipeline.query.fact_paths import Facts, best_paths, find_facts
from pipeline.query.graph_seeds import FEW, POOL, named_entities, named_passages, passage_scores, read_openings
from pipeline.query.mention_links import Mentioned, Steps, mention_steps
from pipeline.query.pagerank import Edge, personalised_pagerank
from pipeline.stores.base import GraphStore, Lexical, VectorStore

SEEDS, TARGETS = 20, 1000
"""Passages that names are looked for in, and passages they are followed to."""
STEPPED, FACT, ENTITY, PATH = 1.5, 0.3, 0.5, 0.3
"""What the best passage gets for being stepped to, one for holding a near fact, an end of it, and one for holding a
fact of a path; 1 is what the best of a lane gets."""
DAMPING = 0.5


def graph_search(
    question: str,
    vector: np.ndarray,
    top_k: int,
    chunk_top_k: int,
    vectors: VectorStore,
    graph: GraphStore,
    embedding: EmbeddingModel | None = None,
) -> Evidence:
    """Passages, entities and relationships by the mass they end with, in as many reads whatever the limits are and
    however large the graph is. ``embedding`` judges paths of two facts; without it the sum of their parts does.
    """
    lexical = vectors.lexical(question, POOL)
    named = named_entities(question, vectors)
    restart = passage_scores(lexical, vector, vectors)
    _add(restart, named_passages(named, vectors))
    facts = find_facts(vector, [entity.id for entity in named], vectors, graph)
    in_paths, path_scores = best_paths(vector, facts, vectors, graph, embedding)
    steps = _steps(restart, named, facts, lexical, vector, vectors)
    _add(restart, steps.reached, STEPPED)
    _add(restart, _fact_mass(facts.nearest, facts.scores, steps.mentioned), FACT)
    _add(restart, _fact_mass(in_paths, path_scores, steps.mentioned), PATH)
    mass = personalised_pagerank([*steps.edges, *_links(facts)], restart, DAMPING)
    return _evidence(mass, facts, steps, top_k, chunk_top_k, graph)


def _steps(
    scores: Mapping[str, float],
    named: Sequence[Mentioned],
    facts: Facts,
    lexical: Lexical,
    vector: np.ndarray,
    vectors: VectorStore,
) -> Steps:
    """From the passages with the best scores over the names in them, and over the ends of facts."""
    seeds = _ranked(scores, scores)[:SEEDS]
    texts = vectors.chunks(seeds, vector)
    ends = sorted({*facts.nearest["source_entity_id"], *facts.nearest["target_entity_id"]})
    rows = vectors.mentions(seeds, ends, FEW).itertuples(index=False)
    mentioned = [Mentioned(row.entity_id, str(row.name), row.text_unit_ids) for row in rows]
    targets = sorted({passage for entity in mentioned for passage in entity.passages})[:TARGETS]
    return mention_steps(
        dict(zip(texts["id"], texts["content"], strict=True)),
        scores,
        mentioned,
        {entity.id for entity in named},
        read_openings(targets, vectors),
        _content_words(lexical),
    )


def _content_words(lexical: Lexical) -> dict[str, float]:
    stop = stop_words(guess_language(list(lexical.weights)))
    return {word: weight for word, weight in lexical.weights.items() if word not in stop}


def _fact_mass(facts: pd.DataFrame, scores: Mapping[str, float], mentioned: Sequence[Mentioned]) -> dict[str, float]:
    """What the passages that hold the facts get, and the entities at their ends, each by how few passages it is in."""
    passages = {entity.id: len(entity.passages) for entity in mentioned}
    mass: dict[str, float] = {}
    for fact in facts.itertuples(index=False):
        score = scores.get(fact.id, 0.0)
        for passage in list(fact.text_unit_ids)[:FEW]:
            mass[passage] = max(mass.get(passage, 0.0), score)
        for end in (fact.source_entity_id, fact.target_entity_id):
            if passages.get(end):
                mass[end] = max(mass.get(end, 0.0), ENTITY * score / passages[end])
    return mass


def _links(facts: Facts) -> Iterable[Edge]:
    for link in facts.links.itertuples(index=False):
        yield Edge(link.source_entity_id, link.target_entity_id, 1.0)


def _evidence(
    mass: Mapping[str, float], facts: Facts, steps: Steps, top_k: int, chunk_top_k: int, graph: GraphStore
) -> Evidence:
    links = pd.concat([facts.nearest[facts.links.columns], facts.links]).drop_duplicates("id")
    entities = {entity.id for entity in steps.mentioned} | {*links["source_entity_id"], *links["target_entity_id"]}
    weights = {
        link.id: np.sqrt(mass.get(link.source_entity_id, 0.0) * mass.get(link.target_entity_id, 0.0))
        for link in links.itertuples(index=False)
    }
    return Evidence(
        entities=graph.entities(_ranked(mass, entities)[:top_k]),
        relationships=graph.relationships(_ranked(weights, weights)[:top_k]),
        chunk_lanes={"graph": _ranked(mass, mass.keys() - entities)[:chunk_top_k]},
    )


def _ranked(scores: Mapping[str, float], ids: Iterable[str]) -> list[str]:
    """The ids that score at all, the best first, ties by id."""
    found = sorted((-scores.get(id, 0.0), id) for id in ids)
    return [id for score, id in found if score < 0]


def _add(mass: dict[str, float], more: Mapping[str, float], weight: float = 1.0) -> None:
    for id, amount in more.items():
        mass[id] = mass.get(id, 0.0) + weight * amount
