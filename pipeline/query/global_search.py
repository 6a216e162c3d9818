"""Global search: from relationships near the high-level keywords to their entities and text units."""

from itertools import chain

import numpy as np

from pipeline.query.evidence import Evidence
from pipeline.stores.base import GraphStore, VectorStore


def global_search(high: np.ndarray, top_k: int, vectors: VectorStore, graph: GraphStore) -> Evidence:
    """Three reads whatever ``top_k`` is. Relationships by rank, then weight; entities and text units in the order
    in which the relationships name them."""
    ids = [id for id, _ in vectors.nearest("relationships", high, top_k)]
    if not ids:
        return Evidence()
    relationships = (
        graph.relationships(ids)
        .sort_values(["rank", "weight", "id"], ascending=[False, False, True])
        .reset_index(drop=True)
    )
    ends = zip(relationships["source_entity_id"], relationships["target_entity_id"], strict=True)
    return Evidence(
        entities=graph.entities(list(dict.fromkeys(chain.from_iterable(ends)))),
        relationships=relationships,
        chunk_lanes={"relationship": list(dict.fromkeys(chain.from_iterable(relationships["text_unit_ids"])))},
    )
