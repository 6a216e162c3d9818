"""From a question to the messages for the chat model: keywords, evidence, context."""

from dataclasses import replace

import pandas as pd

from pipeline.query.clock import Clock
from pipeline.query.community_search import prepare_community
from pipeline.query.context import Context, build_context
from pipeline.query.drift_search import prepare_drift
from pipeline.query.embed_between import read_embedding_between
from pipeline.query.evidence import Evidence
from pipeline.query.fact_paths import Embed
from pipeline.query.find import find_evidence, refuse_endless
from pipeline.query.keywords import Keywords, find_keywords
from pipeline.query.messages import count_tokens, messages
from pipeline.query.mixed_context import mixed_citable, mixed_context
from pipeline.query.prepared import Abstention, Prepared
from pipeline.query.read_allowed import allowed
from pipeline.query.request import QueryRequest
from pipeline.query.rerank import CANDIDATES, reranked
from pipeline.query.retrieve import KEYWORD_MODES, embed_question
from pipeline.query.stage import Found, QueryStage
from pipeline.stores.base import CHUNK_COLUMNS, GraphReads, VectorReads


def prepare(request: QueryRequest, stage: QueryStage) -> Prepared:
    """Asks the model for keywords at most and, with ``dynamic_community_selection``, how relevant reports are."""
    refuse_endless(request, stage.tokenizer)
    if request.mode == "community":
        return prepare_community(request, stage)
    if request.mode == "drift":
        return prepare_drift(request, stage)
    return _prepare_search(request, stage)


def _prepare_search(request: QueryRequest, stage: QueryStage) -> Prepared:
    clock = Clock()
    with clock.measure("keywords"):
        keywords = _keywords(request, stage)
    with clock.measure("retrieval"):
        (evidence, chunks), notes = _find(request, keywords, stage)
    with clock.measure("rerank"):
        chunks, complaints = _reranked(request, chunks, stage)
    with clock.measure("context"):
        build = mixed_context if request.mixed else build_context
        overhead = count_tokens(messages(request, stage, ""), stage.tokenizer)
        context = build(request, evidence, chunks.head(request.chunk_top_k), stage.tokenizer, overhead)
    prepared = Prepared(
        request,
        keywords,
        context,
        messages(request, stage, context.text),
        clock.parts,
        _abstention(request, evidence, chunks, context),
        (*keywords.notes, *evidence.notes, *complaints, *notes),
        most_calls=1 + (keywords.reply is not None),
        replies=(keywords.reply,) if keywords.reply else (),
    )
    return replace(prepared, citable=mixed_citable(context)) if request.mixed else prepared


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
        def look(vectors: VectorReads, graph: GraphReads) -> Found:
            return find_evidence(request, question, vectors, graph, n_chunks, embed)

        return allowed(request, look)(vectors, graph)

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
