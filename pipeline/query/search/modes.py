"""Search by mode: local, global, hybrid, mix, naive and graph."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from pipeline.models.base import EmbeddingModel
from pipeline.query.entity_table import SHOWN_ATTRIBUTES
from pipeline.query.request import QueryRequest
from pipeline.query.search.evidence import (
    Evidence,
    EvidenceAndUnits,
    Limits,
    UnitChoice,
    UnitCounts,
    interleave,
    pick_units,
    rank_by_relation,
    sort_by_question,
)
from pipeline.query.search.keywords import Keywords, choose_search_text
from pipeline.settings.query_fields import RelationshipOrder
from pipeline.stores.reads import GraphReads, VectorReads, VectorSearch

LOCAL_MODES = frozenset({"local", "hybrid", "mix"})
GLOBAL_MODES = frozenset({"global", "hybrid", "mix"})
VECTOR_MODES = frozenset({"naive", "mix"})
REPORT_MODES = frozenset({"community", "drift"})
KEYWORD_MODES = LOCAL_MODES | GLOBAL_MODES
RELATIONSHIP_LIMIT = CLAIM_LIMIT = 1000
"""Most rows of one read: more than any budget shows, and a bound for entities with many links."""


def may_ask_chat(options: Mapping[str, Any]) -> bool:
    """Return whether a question with these options of QueryRequest may ask a chat model.

    The model may be asked for the answer, for keywords, or for the relevance of reports.
    """
    if not options.get("only_need_context") and not options.get("only_need_prompt"):
        return True
    if options["mode"] in KEYWORD_MODES:
        return not options.get("hl_keywords") and not options.get("ll_keywords")
    return options["mode"] in REPORT_MODES and bool(options.get("dynamic_community_selection"))


def local_search(
    ids: Sequence[str],
    choice: UnitChoice,
    limits: Limits,
    vectors: VectorReads,
    graph: GraphReads,
    order: RelationshipOrder = "question",
) -> Evidence:
    """Return the first entities of ``ids``, with their relationships, and text units.

    The entities keep the order of ``ids``. ``order`` sorts the relationships, ``choice`` chooses
    the text units. It takes three reads for any number of ids, and one more to order by the
    question.
    """
    if not ids:
        return Evidence()
    entities = graph.entities(ids)
    shown_entities = entities[: limits.records]
    # An entity may be deleted between two reads, so not each of the first ids is of an entity.
    shown = [entity.id for entity in shown_entities]
    relationships = graph.relationships_of(shown, RELATIONSHIP_LIMIT)
    if order == "question":
        relationships = sort_by_question(relationships, shown, choice.question, vectors)
    sources = [entity.text_unit_ids for entity in entities]
    n_needed = limits.count_needed(sources)
    if choice.method == "RELATION":
        needed = [entity.id for entity in entities[:n_needed]]
        unit_counts = rank_by_relation(graph.shared_units(needed), needed)
    else:
        unit_counts = choice.among(sources[:n_needed])
    return Evidence(shown_entities, relationships, {"entity": unit_counts})


def global_search(
    ids: Sequence[str],
    choice: UnitChoice,
    limits: Limits,
    graph: GraphReads,
    order: RelationshipOrder = "question",
) -> Evidence:
    """Return the first relationships of ``ids``, with their ends, and text units.

    The relationships keep this order, or are sorted by rank and weight, as ``order`` says. The
    entities follow the order of ``ids``. ``choice`` chooses the text units. It takes two reads for
    any number of ids, and one more to compare text units.
    """
    if not ids:
        return Evidence()
    found = graph.relationships(ids)
    nearest = found[: limits.records]
    ends: dict[str, None] = {}
    for link in nearest:
        ends[link.source_entity_id] = None
        ends[link.target_entity_id] = None
    entities = graph.entities(list(ends))
    sources = [link.text_unit_ids for link in found]
    unit_counts = choice.among(sources[: limits.count_needed(sources)])
    if order == "rank":
        nearest = sorted(nearest, key=lambda link: (-link.rank, -link.weight, link.id))
    return Evidence(entities, nearest, {"relationship": unit_counts})


@dataclass(frozen=True)
class QuestionVectors:
    """The vectors to search with.

    ``text``: the text searched for as a whole; ``question``: its vector. ``low`` and ``high``: the
    vectors of the keywords of each level; None if there are none.
    """

    text: str
    question: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None


def embed_question(
    request: QueryRequest, keywords: Keywords, embedding: EmbeddingModel
) -> QuestionVectors:
    """Embed the question and its keywords in one call of the model."""
    text = choose_search_text(request, keywords)
    low_text, high_text = ", ".join(keywords.low), ", ".join(keywords.high)
    question, low, high = embedding.embed([text, low_text, high_text])
    return QuestionVectors(
        text,
        question,
        low=low if keywords.low else None,
        high=high if keywords.high else None,
    )


def retrieve(
    request: QueryRequest,
    question: QuestionVectors,
    vectors: VectorReads,
    graph: GraphReads,
    n_chunks: int,
) -> Evidence:
    """Search as the mode of the request says, and find about ``n_chunks`` text units by similarity.

    The half of a mode whose keywords are missing is left out. If no half is left, or the graph
    holds nothing for the question, the search is that of mode ``naive``.
    """
    if request.mode == "graph":
        from pipeline.query.search.walk.graph_search import graph_search

        return graph_search(
            question.text, question.question, request.top_k, n_chunks, vectors, graph
        )
    low = question.low if request.mode in LOCAL_MODES else None
    high = question.high if request.mode in GLOBAL_MODES else None
    by_vector = request.mode in VECTOR_MODES or (low is None and high is None)
    naive = VectorSearch("chunks", question.question, n_chunks)

    limits = Limits(request.top_k, n_chunks)
    # All searches are one read of the store.
    searches: dict[str, VectorSearch] = {}
    if by_vector:
        searches["chunks"] = naive
    if low is not None:
        searches["entities"] = VectorSearch("entities", low, limits.searched)
    if high is not None:
        searches["relationships"] = VectorSearch("relationships", high, limits.searched)
    nearest = dict(zip(searches, find_nearest_ids(searches.values(), vectors), strict=True))

    choice = UnitChoice(
        request.kg_chunk_pick_method, request.related_chunk_number, question.question, vectors
    )
    order = request.relationship_order
    found = [Evidence(notes=_missing_keyword_notes(request, question))]
    if by_vector:
        found.append(_naive_evidence(nearest["chunks"]))
    if low is not None:
        found.append(local_search(nearest["entities"], choice, limits, vectors, graph, order))
    if high is not None:
        found.append(global_search(nearest["relationships"], choice, limits, graph, order))
    evidence = _merge(found)
    if not by_vector and not evidence.entities and not evidence.relationships:
        [ids] = find_nearest_ids([naive], vectors)
        notes = (*evidence.notes, "the graph holds nothing of it: searched as naive")
        return replace(_naive_evidence(ids), notes=notes)
    return evidence


def find_nearest_ids(searches: Iterable[VectorSearch], vectors: VectorReads) -> list[list[str]]:
    """Return the ids that each search finds, best first; one read for all searches."""
    return [[id for id, _ in hits] for hits in vectors.nearest(list(searches))]


def _naive_evidence(ids: Sequence[str]) -> Evidence:
    """Return the text units ``ids`` as evidence, found by their vectors."""
    return Evidence(unit_lanes={"vector": dict.fromkeys(ids, 1)})


def _missing_keyword_notes(request: QueryRequest, question: QuestionVectors) -> tuple[str, ...]:
    """Return a note for each half of the search that is left out for lack of keywords."""
    halves = (
        (LOCAL_MODES, question.low, "no low-level keywords: entities were not searched"),
        (GLOBAL_MODES, question.high, "no high-level keywords: relationships were not searched"),
    )
    n_wanted = 0
    notes: list[str] = []
    for modes, vector, note in halves:
        if request.mode in modes:
            n_wanted += 1
            if vector is None:
                notes.append(note)
    none_is_left = n_wanted > 0 and len(notes) == n_wanted
    # Mode mix always searches as naive too.
    if none_is_left and request.mode != "mix":
        notes.append("searched as naive")
    return tuple(notes)


def _merge(found: Sequence[Evidence]) -> Evidence:
    """Merge the evidence of several searches, which take turns; equal names are one entity."""
    unit_lanes: dict[str, UnitCounts] = {}
    for evidence in found:
        unit_lanes |= evidence.unit_lanes
    entities = [evidence.entities for evidence in found]
    relationships = [evidence.relationships for evidence in found]
    return Evidence(
        entities=interleave(attrgetter("name"), *entities),
        relationships=interleave(attrgetter("id"), *relationships),
        unit_lanes=unit_lanes,
        notes=tuple(note for evidence in found for note in evidence.notes),
    )


def add_communities(
    evidence: Evidence, level: int, vectors: VectorReads, graph: GraphReads
) -> Evidence:
    """Return the evidence with the claims of its entities and the reports of their communities.

    The communities are those down to ``level``. Reports are sorted by the number of the entities
    that they cover (``found_entities``), then by weight, rating and id. It takes three reads.
    """
    ids = [entity.id for entity in evidence.entities]
    if not ids:
        return evidence
    memberships = graph.communities_of(ids, level)
    n_entities = Counter(membership.community_id for membership in memberships)
    reports = [
        replace(report, found_entities=n_entities[report.id])
        for report in vectors.reports(sorted(n_entities))
    ]
    reports.sort(
        key=lambda report: (-report.found_entities, -report.weight, -report.rating, report.id)
    )
    return replace(evidence, reports=reports, claims=vectors.claims_of(ids, CLAIM_LIMIT))


def find_evidence(
    request: QueryRequest,
    question: QuestionVectors,
    vectors: VectorReads,
    graph: GraphReads,
    n_chunks: int,
) -> EvidenceAndUnits:
    """Return the evidence for a question, and the text units to show, in their order.

    Reports and claims are read only if the ``context`` of the request asks for them.
    """
    evidence = retrieve(request, question, vectors, graph, n_chunks)
    picks = {pick.id: pick for pick in pick_units(evidence, n_chunks)}
    chunks = []
    for chunk in vectors.chunks(list(picks), question.question):
        pick = picks[chunk.id]
        chunks.append(replace(chunk, lane=pick.lane, frequency=pick.frequency, place=pick.place))
    if request.mixed:
        evidence = add_communities(evidence, request.community_level, vectors, graph)
    found = [entity.id for entity in evidence.entities]
    attributes = vectors.attributes_of(found, SHOWN_ATTRIBUTES)
    return replace(evidence, attributes=attributes), chunks
