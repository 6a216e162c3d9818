"""Text units in the order of a reranker."""

import pandas as pd

from pipeline.errors import ModelError
from pipeline.models.base import Reranker

CANDIDATES = 3
"""So many times the text units that are shown are found first, where a reranker chooses among them."""


def reranked(chunks: pd.DataFrame, query: str, reranker: Reranker) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The chunks by their relevance, kept as ``rerank_score``, ties in the order given; and what is to be said of it:
    a reranker that fails leaves them as they are."""
    if chunks.empty:
        return chunks, ()
    try:
        scores = reranker.rerank(query, chunks["content"].tolist())
    except ModelError as error:
        return chunks, (f"not reranked: {error}",)
    ranked = chunks.assign(rerank_score=scores).sort_values("rerank_score", ascending=False, kind="stable")
    return ranked.reset_index(drop=True), ()
