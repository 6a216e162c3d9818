"""From a question to the messages for the chat model: keywords, evidence, context."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.errors import OtherVectorsError
from pipeline.query import formats
from pipeline.query.context import Context, build_context, told_dropped
from pipeline.query.local_context import mixed_citable, mixed_context
from pipeline.query.messages import (
    Abstention,
    PreparedQuery,
    count_tokens,
    messages,
    with_room_for_evidence,
    within_window,
    without_system_turns,
)
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Clock, Found, QueryResources
from pipeline.query.search.evidence import CANDIDATES, Evidence, reranked
from pipeline.query.search.filtered import allowed
from pipeline.query.search.modes import (
    KEYWORD_MODES,
    Keywords,
    embed_question,
    find_evidence,
    find_keywords,
    refuse_endless,
    search_text,
)
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Passage


def prepare(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    """Return the question made ready for the model, with its evidence and messages.

    The chat model is asked for keywords at most and, with ``dynamic_community_selection``, for the
    relevance of reports.
    """
    request, dropped = without_system_turns(request, resources.account.asker.system_prompt)
    longest_reply = resources.longest_reply(request.model)
    request, capped = within_window(request, resources.measured(request.model), longest_reply)
    refuse_endless(request, resources.tokenizer)
    request, cut = with_room_for_evidence(request, resources.tokenizer)
    try:
        prepared = _prepare_mode(request, resources)
    except OtherVectorsError:  # the question is embedded by the model of these
        prepared = _prepare_mode(request, resources)
    return replace(prepared, notes=(*dropped, *capped, *cut, *prepared.notes))


def _prepare_mode(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    if request.mode == "community":
        from pipeline.query.reports.community import prepare_community

        return prepare_community(request, resources)
    if request.mode == "drift":
        from pipeline.query.reports.drift import prepare_drift

        return prepare_drift(request, resources)
    return _prepare_search(request, resources)


def _prepare_search(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    clock = Clock()
    with clock.measure("keywords"):
        keywords = _keywords(request, resources)
    with clock.measure("retrieval"):
        (evidence, chunks), notes = _find(request, keywords, resources)
    with clock.measure("rerank"):
        chunks, complaints = _reranked(request, keywords, chunks, resources)
    with clock.measure("context"):
        build = mixed_context if request.mixed else build_context
        overhead = count_tokens(messages(request, resources, ""), resources.tokenizer)
        context = build(
            request, evidence, chunks[: request.chunk_top_k], resources.tokenizer, overhead
        )
    prepared = PreparedQuery(
        request,
        keywords,
        context,
        messages(request, resources, context.text),
        clock.parts,
        _abstention(request, evidence, chunks, context),
        (*keywords.notes, *evidence.notes, *complaints, *notes, *told_dropped(context, request)),
        most_calls=1 + (keywords.reply is not None),
        replies=(keywords.reply,) if keywords.reply else (),
    )
    return replace(prepared, citable=mixed_citable(context)) if request.mixed else prepared


def _keywords(request: QueryRequest, resources: QueryResources) -> Keywords:
    if request.mode not in KEYWORD_MODES:
        return Keywords()
    chat, form = (
        resources.keyword_chat(request.model),
        resources.answering_in(formats.KEYWORDS, request.model),
    )
    return find_keywords(request, chat, resources.prompt("extract_keywords"), form)


def _find(
    request: QueryRequest, keywords: Keywords, resources: QueryResources
) -> tuple[Found, tuple[str, ...]]:
    if request.mode == "bypass":
        return (Evidence(), ()), ()
    question = embed_question(request, keywords, resources.embedding)
    n_chunks = request.chunk_top_k * (
        CANDIDATES if request.enable_rerank and resources.reranker else 1
    )

    def find(vectors: VectorReads, graph: GraphReads) -> Found:
        return find_evidence(request, question, vectors, graph, n_chunks)

    return resources.read(allowed(request, find))


def _reranked(
    request: QueryRequest, keywords: Keywords, chunks: Sequence[Passage], resources: QueryResources
) -> tuple[Sequence[Passage], tuple[str, ...]]:
    if resources.reranker is None or not request.enable_rerank:
        return chunks, ()
    return reranked(chunks, search_text(request, keywords), resources.reranker)


def _abstention(
    request: QueryRequest, evidence: Evidence, chunks: Sequence[Passage], context: Context
) -> Abstention:
    if request.mode == "bypass":
        return ""
    if not (chunks or evidence.entities or evidence.relationships):
        return "nothing_found"
    if request.min_score and not any(chunk.score >= request.min_score for chunk in chunks):
        return "below_min_score"
    return "no_room" if context.empty else ""
