"""Global search: from relationships near the high-level keywords to their entities and text units."""

from itertools import chain

import numpy as np

from pipeline.query.chunk_choice import ChunkChoice
from pipeline.query.evidence import Evidence
from pipeline.stores.base import GraphReads, VectorReads


def global_search(
    high: np.ndarray, top_k: int, choice: ChunkChoice, vectors: VectorReads, graph: GraphReads
) -> Evidence:
    """Three reads whatever ``top_k`` is, one more to compare text units. Relationships by rank, then weight; entities
    in the order of the relationships' similarity; text units, the relationships' own, as ``choice`` says."""
    ids = [id for id, _ in vectors.nearest("relationships", high, top_k)]
    if not ids:
        return Evidence()
    nearest = graph.relationships(ids)
    ends = zip(nearest["source_entity_id"], nearest["target_entity_id"], strict=True)
    ranked = nearest.sort_values(["rank", "weight", "id"], ascending=[False, False, True])
    return Evidence(
        entities=graph.entities(list(dict.fromkeys(chain.from_iterable(ends)))),
        relationships=ranked.reset_index(drop=True),
        chunk_lanes={"relationship": choice.among(nearest["text_unit_ids"].tolist())},
    )
