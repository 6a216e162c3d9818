"""Preparation of a question: request limits, keywords, search, reranking, context and messages."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.contract.conditions import list_orders_of_texts
from pipeline.errors import OtherVectorsError
from pipeline.models.base import Reranker
from pipeline.query import formats
from pipeline.query.context import Context, build_context, note_dropped_sections
from pipeline.query.messages import build_answer_messages, count_tokens
from pipeline.query.mixed_context import build_mixed_context, list_citable
from pipeline.query.prepared import Abstention, PreparedQuery
from pipeline.query.request import QueryRequest
from pipeline.query.request_limits import (
    limit_to_window,
    refuse_long_question,
    remove_system_turns,
    shorten_conversation,
)
from pipeline.query.resources import Clock, QueryResources
from pipeline.query.search.absent import describe_absence, find_absent_terms
from pipeline.query.search.evidence import Evidence, EvidenceAndUnits
from pipeline.query.search.filtered import restrict_to_where
from pipeline.query.search.keywords import Keywords, choose_search_text, find_keywords
from pipeline.query.search.modes import KEYWORD_MODES, embed_question, find_evidence
from pipeline.query.search.reranking import FUSED_MODES, count_candidates, rerank_chunks
from pipeline.query.search.versions import order_versions
from pipeline.stores.reads import GraphReads, VectorReads
from pipeline.stores.records import Passage, Statement

STATEMENTS = 10
"""Most statements of a relationship in the data of a question."""


def prepare(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    """Return the question ready for the chat model, with its evidence and messages.

    The model is asked for keywords at most and, with ``dynamic_community_selection``, for the
    relevance of reports.
    """
    may_set_rules = resources.account.caller.system_prompt
    request, turn_notes = remove_system_turns(request, may_set_rules)
    longest_reply = resources.longest_reply(request.model)
    measured = resources.measured(request.model)
    request, window_notes = limit_to_window(request, measured, longest_reply)
    refuse_long_question(request, resources.tokenizer)
    request, history_notes = shorten_conversation(request, resources.tokenizer)
    try:
        prepared = _prepare_by_mode(request, resources)
    except OtherVectorsError:
        # Vectors of another model have just been loaded. The resources now embed with that model.
        prepared = _prepare_by_mode(request, resources)
    notes = (*turn_notes, *window_notes, *history_notes, *prepared.notes)
    return replace(prepared, notes=notes)


def _prepare_by_mode(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    if request.mode == "community":
        from pipeline.query.reports.community import prepare_community

        return prepare_community(request, resources)
    if request.mode == "drift":
        from pipeline.query.reports.drift import prepare_drift

        return prepare_drift(request, resources)
    return _prepare_search(request, resources)


def _prepare_search(request: QueryRequest, resources: QueryResources) -> PreparedQuery:
    """Prepare a question in a mode that shows the model all evidence in one prompt."""
    clock = Clock()
    with clock.measure("keywords"):
        keywords = _find_keywords(request, resources)
    with clock.measure("retrieval"):
        (evidence, chunks), store_notes = _search(request, keywords, resources)
    with clock.measure("rerank"):
        chunks, rerank_notes = _rerank(request, keywords, chunks, resources)
    with clock.measure("context"):
        build = build_mixed_context if request.wants_reports_and_claims else build_context
        shown = chunks[: request.chunk_top_k]
        shown = order_versions(shown, request.query, request.prefer)
        absence = evidence.absence
        without_context = build_answer_messages(request, resources, "", absence)
        overhead = count_tokens(without_context, resources.tokenizer)
        context = build(request, evidence, shown, resources.tokenizer, overhead)
        context = replace(context, statements=evidence.statements)
    prepared = PreparedQuery(
        request,
        keywords,
        context,
        build_answer_messages(request, resources, context.text, absence),
        clock.parts,
        abstention=_abstention(request, evidence, chunks, context),
        notes=(
            *keywords.notes,
            *evidence.notes,
            *((absence,) if absence else ()),
            *rerank_notes,
            *store_notes,
            *_note_orders_of_texts(request, chunks),
            *note_dropped_sections(context, request),
        ),
        most_calls=1 if keywords.reply is None else 2,
        replies=() if keywords.reply is None else (keywords.reply,),
        absence=absence,
    )
    return (
        replace(prepared, citable=list_citable(context))
        if request.wants_reports_and_claims
        else prepared
    )


def _note_orders_of_texts(request: QueryRequest, chunks: Sequence[Passage]) -> tuple[str, ...]:
    """Return a note where nothing was found and a condition may compare texts with numbers."""
    orders = [] if chunks else list_orders_of_texts(request.where)
    return tuple(
        f"where: {order} compares texts; if numbers or dates are meant, write one, as 2020 or"
        " 2020-05-31"
        for order in orders
    )


def _find_keywords(request: QueryRequest, resources: QueryResources) -> Keywords:
    """Return the keywords of the question; none in a mode that does not use them."""
    if request.mode not in KEYWORD_MODES:
        return Keywords()
    chat = resources.keyword_chat(request.model)
    form = resources.answering_in(formats.KEYWORDS, request.model)
    return find_keywords(request, chat, resources.prompt("extract_keywords"), form)


def _search(
    request: QueryRequest, keywords: Keywords, resources: QueryResources
) -> tuple[EvidenceAndUnits, tuple[str, ...]]:
    """Return the evidence and text units of the question, and notes on the stores."""
    if request.mode == "bypass":
        return (Evidence(), ()), ()
    question = embed_question(request, keywords, resources.embedding)
    n_chunks = request.chunk_top_k
    if _find_reranker(request, resources):
        n_chunks = count_candidates(n_chunks, resources.fuses_ranks)

    def find(vectors: VectorReads, graph: GraphReads) -> EvidenceAndUnits:
        evidence, chunks = find_evidence(request, question, vectors, graph, n_chunks)
        absent = find_absent_terms(request.query, chunks, vectors)
        absence = describe_absence(absent, filtered=bool(request.where))
        statements: Sequence[Statement] = ()
        if request.only_need_context and evidence.relationships:
            ids = [link.id for link in evidence.relationships]
            statements = vectors.statements_of(ids, STATEMENTS)
        return replace(evidence, absence=absence, statements=statements), chunks

    return resources.read(restrict_to_where(request, find))


def _rerank(
    request: QueryRequest, keywords: Keywords, chunks: Sequence[Passage], resources: QueryResources
) -> tuple[Sequence[Passage], tuple[str, ...]]:
    """Return the chunks, reranked if the request wants it and there is a reranker, and notes."""
    reranker = _find_reranker(request, resources)
    if reranker is None:
        return chunks, ()
    text = choose_search_text(request, keywords)
    return rerank_chunks(chunks, text, reranker, fused=resources.fuses_ranks)


def _find_reranker(request: QueryRequest, resources: QueryResources) -> Reranker | None:
    """Return the reranker, or None if there is none for this request.

    Orders are fused only in FUSED_MODES.
    """
    if not request.enable_rerank:
        return None
    if resources.fuses_ranks and request.mode not in FUSED_MODES:
        return None
    return resources.reranker


def _abstention(
    request: QueryRequest, evidence: Evidence, chunks: Sequence[Passage], context: Context
) -> Abstention:
    """Return the reason not to ask the model for an answer; "" if it is to be asked."""
    if request.mode == "bypass":
        return ""
    if not (chunks or evidence.entities or evidence.relationships):
        return "nothing_found"
    if request.min_score and not any(chunk.score >= request.min_score for chunk in chunks):
        return "below_min_score"
    return "no_room" if context.empty else ""
