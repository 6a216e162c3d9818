"""Question and mode -> evidence: its keywords (themes, high level; names and details, low level),
then local, global, hybrid, mix, naive and graph."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from pipeline.contract.prompts import Placeholders, Prompt
from pipeline.errors import AuthError, ModelError, NoSuchModelError, UsageError
from pipeline.models.base import (
    ChatModel,
    ChatReply,
    ChatRequest,
    EmbeddingModel,
    Tokenizer,
    readable,
)
from pipeline.query.context import Pick, ranked_chunks
from pipeline.query.request import QueryRequest
from pipeline.query.resources import Found
from pipeline.query.search.evidence import (
    ChunkChoice,
    Evidence,
    by_question,
    by_relation,
    round_robin,
)
from pipeline.settings.query_fields import RelationshipOrder
from pipeline.stores.reads import GraphReads, VectorReads, VectorSearch
from pipeline.stores.records import Passage

LOCAL_MODES = frozenset({"local", "hybrid", "mix"})
GLOBAL_MODES = frozenset({"global", "hybrid", "mix"})
VECTOR_MODES = frozenset({"naive", "mix"})
REPORT_MODES = frozenset({"community", "drift"})
KEYWORD_MODES = LOCAL_MODES | GLOBAL_MODES
PLACEHOLDERS = Placeholders(("query",))
SHORT_QUESTION = 50
"""Characters below which a question without keywords is a keyword itself."""
LONGEST_TURN = 1000
"""Characters of a turn that are read for keywords."""
LONG_QUESTION = 1000
"""Tokens; a question up to here is searched for even where the budget has no room for it."""
RELATIONSHIP_LIMIT = CLAIM_LIMIT = 1000
"""Read at most: more than any budget shows, and a bound on hubs."""


@dataclass(frozen=True)
class Keywords:
    """``question``: one that stands without its conversation, where the model gave one. ``reply``:
    what the model was paid for; None where it was not asked. ``notes``: what is to be said of
    it."""

    high: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    reply: ChatReply | None = None
    notes: tuple[str, ...] = ()
    question: str = ""


def may_ask_chat(options: Mapping[str, Any]) -> bool:
    """Return whether a question with these options of a QueryRequest may ask a chat model: for the
    answer, for keywords, or for the relevance of reports."""
    if not options.get("only_need_context") and not options.get("only_need_prompt"):
        return True
    if options["mode"] in KEYWORD_MODES:
        return not options.get("hl_keywords") and not options.get("ll_keywords")
    return options["mode"] in REPORT_MODES and bool(options.get("dynamic_community_selection"))


def find_keywords(
    request: QueryRequest,
    chat: ChatModel | None,
    prompt: Prompt,
    form: Mapping[str, Any] | None = None,
) -> Keywords:
    """The caller's keywords, else the model's; without a model the question itself is both.
    ``form``: the ``response_format`` of the call.

    Both lists empty: a short question becomes the low-level keyword, but not in mode ``global``.
    Where the model fails, or its reply cannot be read, the question is both, as without a model.
    """
    if request.hl_keywords or request.ll_keywords:
        return Keywords(request.hl_keywords, request.ll_keywords)
    itself = Keywords((request.searched,), (request.searched,))
    if chat is None:
        return itself
    from pipeline.models.parse.graph import parse_keywords

    prompt.check(PLACEHOLDERS)
    message = {"role": "user", "content": prompt.render(query=_with_conversation(request))}
    asked = ChatRequest(
        "keywords",
        (message,),
        form,
        check=readable(parse_keywords, "no keyword lists in the reply"),
    )
    try:
        reply = chat.complete([asked])[0]
    except (AuthError, ModelError, NoSuchModelError) as error:
        return replace(
            itself,
            notes=(f"no keywords from the chat model, the question is searched for ({error})",),
        )
    parsed = None if reply.reason else parse_keywords(reply.text)
    if parsed is None:
        why = reply.reason or "no keyword lists in the reply"
        said = f"no keywords from the chat model, the question is searched for ({why})"
        return replace(itself, reply=reply, notes=(said,))
    high, low = tuple(parsed.high), tuple(parsed.low)
    alone = parsed.question[:LONGEST_TURN] if request.conversation_history else ""
    if not high and not low and request.mode != "global" and len(request.query) < SHORT_QUESTION:
        said = "no keywords in the question: it is searched for as it is"
        return Keywords((), (alone or request.searched,), reply, (said,), alone)
    return Keywords(high, low, reply, question=alone)


def _with_conversation(request: QueryRequest) -> str:
    """The question and, after it, the turns before it, which it may refer to."""
    if not request.conversation_history:
        return request.query
    turns = (
        f"{turn.role}: {' '.join(turn.content.split())[:LONGEST_TURN]}"
        for turn in request.conversation_history
    )
    return "\n".join([request.query, "Conversation before it, the oldest turn first:", *turns])


def local_search(
    ids: Sequence[str],
    choice: ChunkChoice,
    vectors: VectorReads,
    graph: GraphReads,
    order: RelationshipOrder = "question",
) -> Evidence:
    """Three reads however many ``ids`` of entities there are, one more to order relationships by
    the question. Entities in their order; relationships as ``order`` says; text units as ``choice``
    says."""
    if not ids:
        return Evidence()
    entities = graph.entities(ids)
    relationships = graph.relationships_of(ids, RELATIONSHIP_LIMIT)
    if order == "question":
        relationships = by_question(relationships, ids, choice.question, vectors)
    if choice.method == "RELATION":
        picks = by_relation(graph.shared_units(ids), ids)
    else:
        picks = choice.among([entity.text_unit_ids for entity in entities])
    return Evidence(entities, relationships, {"entity": picks})


def global_search(
    ids: Sequence[str],
    choice: ChunkChoice,
    graph: GraphReads,
    order: RelationshipOrder = "question",
) -> Evidence:
    """Two reads however many ``ids`` of relationships there are, one more to compare text units.
    Relationships in their order, or by rank, then weight; entities in that of the ``ids``; text
    units, the relationships' own, as ``choice`` says."""
    if not ids:
        return Evidence()
    nearest = graph.relationships(ids)
    ends = chain.from_iterable((link.source_entity_id, link.target_entity_id) for link in nearest)
    by_rank = sorted(nearest, key=lambda link: (-link.rank, -link.weight, link.id))
    return Evidence(
        entities=graph.entities(list(dict.fromkeys(ends))),
        relationships=by_rank if order == "rank" else nearest,
        chunk_lanes={"relationship": choice.among([link.text_unit_ids for link in nearest])},
    )


@dataclass(frozen=True)
class QuestionVectors:
    """``text``: what is searched for as a whole, and ``question`` its vector; ``low`` and ``high``
    are None where it has no such keywords."""

    text: str
    question: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None


def search_text(request: QueryRequest, keywords: Keywords) -> str:
    """The question that stands alone, as the model gave it, else the question after those before
    it."""
    return keywords.question or request.searched


def embed_question(
    request: QueryRequest, keywords: Keywords, embedding: EmbeddingModel
) -> QuestionVectors:
    """All that is to be searched for, in one call."""
    text = search_text(request, keywords)
    question, low, high = embedding.embed([text, ", ".join(keywords.low), ", ".join(keywords.high)])
    return QuestionVectors(
        text, question, low if keywords.low else None, high if keywords.high else None
    )


def retrieve(
    request: QueryRequest,
    question: QuestionVectors,
    vectors: VectorReads,
    graph: GraphReads,
    n_chunks: int,
) -> Evidence:
    """A half of the search without its keywords is left out; with no half left, or nothing in the
    graph, it is that of ``naive``.

    ``n_chunks``: text units to find by similarity.
    """
    if request.mode == "graph":
        from pipeline.query.walk.graph_search import graph_search

        return graph_search(
            question.text, question.question, request.top_k, n_chunks, vectors, graph
        )
    low = question.low if request.mode in LOCAL_MODES else None
    high = question.high if request.mode in GLOBAL_MODES else None
    choice = ChunkChoice(
        request.kg_chunk_pick_method, request.related_chunk_number, question.question, vectors
    )
    found = [Evidence(notes=_left_out(request, question))]
    by_vector = request.mode in VECTOR_MODES or (low is None and high is None)
    naive = VectorSearch("chunks", question.question, n_chunks)
    searches = {"chunks": naive} if by_vector else {}
    if low is not None:
        searches["entities"] = VectorSearch("entities", low, request.top_k)
    if high is not None:
        searches["relationships"] = VectorSearch("relationships", high, request.top_k)
    nearest = dict(zip(searches, nearest_ids(searches.values(), vectors), strict=True))
    if by_vector:
        found.append(_naive(nearest["chunks"]))
    if low is not None:
        found.append(
            local_search(nearest["entities"], choice, vectors, graph, request.relationship_order)
        )
    if high is not None:
        found.append(
            global_search(nearest["relationships"], choice, graph, request.relationship_order)
        )
    evidence = _merged(found)
    if not by_vector and not evidence.entities and not evidence.relationships:
        [ids] = nearest_ids([naive], vectors)
        return replace(
            _naive(ids), notes=(*evidence.notes, "the graph holds nothing of it: searched as naive")
        )
    return evidence


def nearest_ids(searches: Iterable[VectorSearch], vectors: VectorReads) -> list[list[str]]:
    """Of each search, best first; one read."""
    return [[id for id, _ in hits] for hits in vectors.nearest(list(searches))]


def _naive(ids: Sequence[str]) -> Evidence:
    return Evidence(chunk_lanes={"vector": dict.fromkeys(ids, 1)})


def _left_out(request: QueryRequest, question: QuestionVectors) -> tuple[str, ...]:
    halves = (
        (LOCAL_MODES, question.low, "no low-level keywords: entities were not searched"),
        (GLOBAL_MODES, question.high, "no high-level keywords: relationships were not searched"),
    )
    skipped = [note for modes, vector, note in halves if request.mode in modes and vector is None]
    wanted = [modes for modes, _, _ in halves if request.mode in modes]
    naive = (
        ["searched as naive"]
        if skipped and len(skipped) == len(wanted) and request.mode != "mix"
        else []
    )
    return (*skipped, *naive)


def _merged(found: Sequence[Evidence]) -> Evidence:
    return Evidence(
        entities=round_robin(attrgetter("name"), *(evidence.entities for evidence in found)),
        relationships=round_robin(
            attrgetter("id"), *(evidence.relationships for evidence in found)
        ),
        chunk_lanes={
            lane: picks for evidence in found for lane, picks in evidence.chunk_lanes.items()
        },
        notes=tuple(note for evidence in found for note in evidence.notes),
    )


def with_communities(
    evidence: Evidence, level: int, vectors: VectorReads, graph: GraphReads
) -> Evidence:
    """The evidence with the claims of its entities, and the reports of their communities down to
    ``level``: those first that hold most of the entities (``found_entities``), then by weight,
    rating and id. Three reads."""
    ids = [entity.id for entity in evidence.entities]
    if not ids:
        return evidence
    held = Counter(entry.community_id for entry in graph.communities_of(ids, level))
    reports = [
        replace(report, found_entities=held[report.id]) for report in vectors.reports(sorted(held))
    ]
    reports.sort(
        key=lambda report: (-report.found_entities, -report.weight, -report.rating, report.id)
    )
    return replace(evidence, reports=reports, claims=vectors.claims_of(ids, CLAIM_LIMIT))


def refuse_endless(request: QueryRequest, tokenizer: Tokenizer) -> None:
    """Raises UsageError for a question that leaves no room for anything else: searching for it
    would take long."""
    tokens = tokenizer.count(request.query)
    if tokens > max(request.max_total_tokens, LONG_QUESTION):
        raise UsageError(
            f"query: the question has {tokens:,} tokens; shorten it, or raise max_total_tokens"
        )


def find_evidence(
    request: QueryRequest,
    question: QuestionVectors,
    vectors: VectorReads,
    graph: GraphReads,
    n_chunks: int,
) -> Found:
    """Evidence, and the text units to show; reports and claims only where ``context`` asks for
    them."""
    evidence = retrieve(request, question, vectors, graph, n_chunks)
    picked = {pick.id: pick for pick in ranked_chunks(evidence, n_chunks)}
    chunks = vectors.chunks(list(picked), question.question)
    if request.mixed:
        evidence = with_communities(evidence, request.community_level, vectors, graph)
    return evidence, [_as_picked(chunk, picked[chunk.id]) for chunk in chunks]


def _as_picked(chunk: Passage, pick: Pick) -> Passage:
    return replace(chunk, lane=pick.lane, frequency=pick.frequency, place=pick.place)
