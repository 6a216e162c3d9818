"""What is found for a question in one read of the stores."""

from pipeline.errors import UsageError
from pipeline.models.base import Tokenizer
from pipeline.query.communities import with_communities
from pipeline.query.context import ranked_chunks
from pipeline.query.fact_paths import Embed
from pipeline.query.request import QueryRequest
from pipeline.query.retrieve import QuestionVectors, retrieve
from pipeline.query.stage import Found
from pipeline.stores.base import GraphReads, VectorReads

LONG_QUESTION = 1000
"""Tokens; a question up to here is searched for even where the budget has no room for it."""


def refuse_endless(request: QueryRequest, tokenizer: Tokenizer) -> None:
    """Raises UsageError for a question that leaves no room for anything else: searching for it would take long."""
    tokens = tokenizer.count(request.query)
    if tokens > max(request.max_total_tokens, LONG_QUESTION):
        raise UsageError(f"query: the question has {tokens:,} tokens; shorten it, or raise max_total_tokens")


def find_evidence(
    request: QueryRequest,
    question: QuestionVectors,
    vectors: VectorReads,
    graph: GraphReads,
    n_chunks: int,
    embed: Embed | None = None,
) -> Found:
    """Evidence, and the text units to show; reports and claims only where ``context`` asks for them."""
    evidence = retrieve(request, question, vectors, graph, n_chunks, embed)
    ranked = ranked_chunks(evidence, n_chunks)
    chunks = vectors.chunks(ranked["id"].tolist(), question.question)
    if request.mixed:
        evidence = with_communities(evidence, request.community_level, vectors, graph)
    return evidence, chunks.merge(ranked, on="id", how="left")
