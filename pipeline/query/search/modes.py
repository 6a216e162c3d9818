"""Mode -> evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.models.base import EmbeddingModel
from pipeline.query.chunk_choice import ChunkChoice
from pipeline.query.evidence import Evidence
from pipeline.query.fact_paths import Embed
from pipeline.query.fusion import merge_frames
from pipeline.query.global_search import global_search
from pipeline.query.graph_search import graph_search
from pipeline.query.keywords import Keywords
from pipeline.query.local_search import local_search
from pipeline.query.request import QueryRequest
from pipeline.stores.base import GraphReads, VectorReads

LOCAL_MODES = frozenset({"local", "hybrid", "mix"})
GLOBAL_MODES = frozenset({"global", "hybrid", "mix"})
VECTOR_MODES = frozenset({"naive", "mix"})
KEYWORD_MODES = LOCAL_MODES | GLOBAL_MODES


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
    vectors: VectorReads,
    graph: GraphReads,
    n_chunks: int,
    embed: Embed | None = None,
) -> Evidence:
    """A half of the search without its keywords is left out; with no half left, it is that of ``naive``.

    ``n_chunks``: text units to find by similarity; ``embed``: see ``graph_search``.
    """
    if request.mode == "graph":
        return graph_search(request.query, question.question, request.top_k, n_chunks, vectors, graph, embed)
    low = question.low if request.mode in LOCAL_MODES else None
    high = question.high if request.mode in GLOBAL_MODES else None
    choice = ChunkChoice(request.kg_chunk_pick_method, request.related_chunk_number, question.question, vectors)
    found = [Evidence(notes=_left_out(request, question))]
    if request.mode in VECTOR_MODES or (low is None and high is None):
        nearest = vectors.nearest("chunks", question.question, n_chunks)
        found.append(Evidence(chunk_lanes={"vector": {id: 1 for id, _ in nearest}}))
    if low is not None:
        found.append(local_search(low, request.top_k, choice, vectors, graph))
    if high is not None:
        found.append(global_search(high, request.top_k, choice, vectors, graph))
    return _merged(found)


def _left_out(request: QueryRequest, question: QuestionVectors) -> tuple[str, ...]:
    halves = (
        (LOCAL_MODES, question.low, "no low-level keywords: entities were not searched"),
        (GLOBAL_MODES, question.high, "no high-level keywords: relationships were not searched"),
    )
    skipped = [note for modes, vector, note in halves if request.mode in modes and vector is None]
    wanted = [modes for modes, _, _ in halves if request.mode in modes]
    naive = ["searched as naive"] if skipped and len(skipped) == len(wanted) and request.mode != "mix" else []
    return (*skipped, *naive)


def _merged(found: Sequence[Evidence]) -> Evidence:
    return Evidence(
        entities=merge_frames([evidence.entities for evidence in found], "name"),
        relationships=merge_frames([evidence.relationships for evidence in found], "id"),
        chunk_lanes={lane: picks for evidence in found for lane, picks in evidence.chunk_lanes.items()},
        notes=tuple(note for evidence in found for note in evidence.notes),
    )
