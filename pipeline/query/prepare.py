"""From a question to the messages for the chat model: keywords, evidence, context."""

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from pipeline.errors import UsageError
from pipeline.models.base import Tokenizer
from pipeline.query.clock import Clock
from pipeline.query.context import Context, build_context, ranked_chunks
from pipeline.query.embed_between import read_embedding_between
from pipeline.query.evidence import Evidence
from pipeline.query.fact_paths import Embed
from pipeline.query.filtered import FilteredGraph, FilteredVectors, matching_documents
from pipeline.query.keywords import Keywords, find_keywords
from pipeline.query.messages import Messages, messages
from pipeline.query.request import QueryRequest
from pipeline.query.rerank import CANDIDATES, reranked
from pipeline.query.retrieve import KEYWORD_MODES, embed_question, retrieve
from pipeline.query.stage import Found, QueryStage
from pipeline.stores.base import CHUNK_COLUMNS, GraphReads, VectorReads

LONG_QUESTION = 1000
"""Tokens; a question up to here is searched for even where the budget has no room for it."""

Abstention = Literal["", "nothing_found", "below_min_score", "no_room", "not_in_context"]
"""Why there is no answer: the search found nothing; nothing similar enough; nothing fits into max_total_tokens; the
model found the answer in none of what it was shown."""


@dataclass(frozen=True)
class Prepared:
    """Everything before the model is asked. ``abstention``: why it is not to be asked."""

    request: QueryRequest
    keywords: Keywords
    context: Context
    messages: Messages
    timings: dict[str, float]
    abstention: Abstention
    notes: tuple[str, ...]


def prepare(request: QueryRequest, stage: QueryStage) -> Prepared:
    """Makes one model call at most, for the keywords."""
    clock = Clock()
    refuse_endless(request, stage.tokenizer)
    with clock.measure("keywords"):
        keywords = _keywords(request, stage)
    with clock.measure("retrieval"):
        (evidence, chunks), notes = _find(request, keywords, stage)
    with clock.measure("rerank"):
        chunks, complaints = _reranked(request, chunks, stage)
    with clock.measure("context"):
        counts = [stage.tokenizer.count(message["content"]) for message in messages(request, stage, "")]
        context = build_context(request, evidence, chunks.head(request.chunk_top_k), stage.tokenizer, sum(counts))
    return Prepared(
        request,
        keywords,
        context,
        messages(request, stage, context.text),
        clock.parts,
        _abstention(request, evidence, chunks, context),
        (*keywords.notes, *evidence.notes, *complaints, *notes),
    )


def refuse_endless(request: QueryRequest, tokenizer: Tokenizer) -> None:
    """Raises UsageError for a question that leaves no room for anything else: searching for it would take long."""
    tokens = tokenizer.count(request.query)
    if tokens > max(request.max_total_tokens, LONG_QUESTION):
        raise UsageError(f"query: the question has {tokens:,} tokens; shorten it, or raise max_total_tokens")


def _keywords(request: QueryRequest, stage: QueryStage) -> Keywords:
    if request.mode not in KEYWORD_MODES:
        return Keywords()
    return find_keywords(request, stage.chat(request.model), stage.prompt("extract_keywords"))


def _find(request: QueryRequest, keywords: Keywords, stage: QueryStage) -> tuple[Found, tuple[str, ...]]:
    if request.mode == "bypass":
        return (Evidence(), pd.DataFrame(columns=CHUNK_COLUMNS)), ()
    question = embed_question(request, keywords, stage.embedding)
    n_chunks = request.chunk_top_k * (CANDIDATES if request.enable_rerank and stage.reranker else 1)

    def find(embed: Embed | None, vectors: VectorReads, graph: GraphReads) -> Found:
        if request.where:
            allowed = FilteredVectors(vectors, matching_documents(vectors.documents(), request.where))
            return look(embed, allowed, FilteredGraph(graph, allowed))
        return look(embed, vectors, graph)

    def look(embed: Embed | None, vectors: VectorReads, graph: GraphReads) -> Found:
        evidence = retrieve(request, question, vectors, graph, n_chunks, embed)
        ranked = ranked_chunks(evidence, n_chunks)
        chunks = vectors.chunks(ranked["id"].tolist(), question.question)
        return evidence, chunks.merge(ranked, on="id", how="left")

    return read_embedding_between(stage.read, find, stage.embedding.embed)


def _reranked(request: QueryRequest, chunks: pd.DataFrame, stage: QueryStage) -> tuple[pd.DataFrame, tuple[str, ...]]:
    if stage.reranker is None or not request.enable_rerank:
        return chunks, ()
    return reranked(chunks, request.query, stage.reranker)


def _abstention(request: QueryRequest, evidence: Evidence, chunks: pd.DataFrame, context: Context) -> Abstention:
    if request.mode == "bypass":
        return ""
    if chunks.empty and evidence.entities.empty and evidence.relationships.empty:
        return "nothing_found"
    if request.min_score and not (chunks["score"] >= request.min_score).any():
        return "below_min_score"
    return "no_room" if context.empty else ""
