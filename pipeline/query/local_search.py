"""Local search: from entities near the low-level keywords to their relationships and text units."""

import numpy as np

from pipeline.query.chunk_choice import ChunkChoice, by_relation
from pipeline.query.evidence import Evidence
from pipeline.stores.base import GraphReads, VectorReads

RELATIONSHIP_LIMIT = 1000
"""Relationships read at most: more than any budget shows, and a bound on hubs."""


def local_search(low: np.ndarray, top_k: int, choice: ChunkChoice, vectors: VectorReads, graph: GraphReads) -> Evidence:
    """Four reads whatever ``top_k`` is. Entities in the order of their similarity; relationships by rank, then
    weight; text units as ``choice`` says."""
    ids = [id for id, _ in vectors.nearest("entities", low, top_k)]
    if not ids:
        return Evidence()
    entities = graph.entities(ids)
    relationships = graph.relationships_of(ids, RELATIONSHIP_LIMIT)
    if choice.method == "RELATION":
        picks = by_relation(graph.shared_units(ids), ids)
    else:
        picks = choice.among(entities["text_unit_ids"].tolist())
    return Evidence(entities, relationships, {"entity": picks})
