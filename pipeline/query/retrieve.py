"""Mode -> evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.models.base import EmbeddingModel
from pipeline.query.evidence import Evidence
from pipeline.query.fusion import merge_frames
from pipeline.query.global_search import global_search
from pipeline.query.graph_search import graph_search
from pipeline.query.keywords import Keywords
from pipeline.query.local_search import local_search
from pipeline.query.request import QueryRequest
from pipeline.stores.base import GraphStore, VectorStore

LOCAL_MODES = frozenset({"local", "hybrid", "mix"})
GLOBAL_MODES = frozenset({"global", "hybrid", "mix"})
VECTOR_MODES = frozenset({"naive", "mix"})


@dataclass(frozen=True)
class QuestionVectors:
    """``low`` and ``high`` are None where the question has no such keywords."""

    question: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None


def embed_question(request: QueryRequest, keywords: Keywords, embedding: EmbeddingModel) -> QuestionVectors:
    """All that is to be searched for, in one call."""
    texts = [request.query, ", ".join(keywords.low), ", ".join(keywords.high)]
    question, low, high = embedding.embed(texts)
    return QuestionVectors(question, low if keywords.low else None, high if keywords.high else None)


def retrieve(
    request: QueryRequest,
    question: QuestionVectors,
    vectors: VectorStore,
    graph: GraphStore,
    embedding: EmbeddingModel | None = None,
) -> Evidence:
    """Both lists of keywords empty, or the one the mode needs: as naive. ``embedding``: see ``graph_search``."""
    if request.mode == "graph":
        limits = request.top_k, request.chunk_top_k
        return graph_search(request.query, question.question, *limits, vectors, graph, embedding)
    found = []
    if request.mode in VECTOR_MODES or _nothing_to_follow(request, question):
        nearest = vectors.nearest("chunks", question.question, request.chunk_top_k)
        found.append(Evidence(chunk_lanes={"vector": [id for id, _ in nearest]}))
    if request.mode in LOCAL_MODES and question.low is not None:
        found.append(local_search(question.low, request.top_k, vectors, graph))
    if request.mode in GLOBAL_MODES and question.high is not None:
        found.append(global_search(question.high, request.top_k, vectors, graph))
    return _merged(found)


def _nothing_to_follow(request: QueryRequest, question: QuestionVectors) -> bool:
    local = request.mode in LOCAL_MODES and question.low is not None
    return not local and not (request.mode in GLOBAL_MODES and question.high is not None)


def _merged(found: Sequence[Evidence]) -> Evidence:
    return Evidence(
        entities=merge_frames([evidence.entities for evidence in found], "name"),
        relationships=merge_frames([evidence.relationships for evidence in found], "id"),
        chunk_lanes={lane: ids for evidence in found for lane, ids in evidence.chunk_lanes.items()},
    )
