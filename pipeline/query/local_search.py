"""Local search: from entities near the low-level keywords to their relationships and text units."""

import numpy as np
import pandas as pd

from pipeline.query.evidence import Evidence
from pipeline.stores.base import GraphStore, VectorStore

RELATIONSHIP_LIMIT = 1000
"""Relationships read at most: more than any budget shows, and a bound on hubs."""


def local_search(low: np.ndarray, top_k: int, vectors: VectorStore, graph: GraphStore) -> Evidence:
    """Four reads whatever ``top_k`` is. Entities in the order of their similarity; relationships by rank, then
    weight; a text unit by the entity that leads to it, then by how many of that entity's neighbours share it.
    """
    ids = [id for id, _ in vectors.nearest("entities", low, top_k)]
    if not ids:
        return Evidence()
    return Evidence(
        entities=graph.entities(ids),
        relationships=graph.relationships_of(ids, RELATIONSHIP_LIMIT),
        chunk_lanes={"entity": _ranked_units(graph.shared_units(ids), ids)},
    )


def _ranked_units(shared: pd.DataFrame, ids: list[str]) -> list[str]:
    place = {id: position for position, id in enumerate(ids)}
    ranked = shared.assign(place=shared["entity_id"].map(place)).sort_values(
        ["place", "neighbours", "text_unit_id"], ascending=[True, False, True]
    )
    return ranked["text_unit_id"].drop_duplicates().tolist()
