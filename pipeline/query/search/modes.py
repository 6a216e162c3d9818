"""Search by mode: local, global, hybrid, mix, naive and graph.

`may_ask_chat` says which questions may ask a chat model: that depends on the mode too.
"""

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
from pipeline.settings.query_fields import REPORT_MODES, RelationshipOrder
from pipeline.stores.reads import GraphReads, VectorReads, VectorSearch

LOCAL_MODES = frozenset({"local", "hybrid", "mix"})
GLOBAL_MODES = frozenset({"global", "hybrid", "mix"})
VECTOR_MODES = frozenset({"naive", "mix"})
KEYWORD_MODES = LOCAL_MODES | GLOBAL_MODES
RELATIONSHIP_LIMIT = CLAIM_LIMIT = 1000
"""The largest number of rows of one read: more than any budget shows, and a bound for entities with
many relationships."""


def may_ask_chat(options: Mapping[str, Any]) -> bool:
    """Return whether a question with these options of QueryRequest may ask a chat model.

    The model may be asked for the answer, for keywords, or for the relevance of reports.
    """
    if not options.get("only_need_context") and not options.get("only_need_prompt"):
        return True
    if options["mode"] in KEYWORD_MODES:
        return not options.get("hl_keywords") and not options.get("ll_keywords")
    return options["mode"] in REPORT_MODES and bool(options.get("dynamic_community_selection"))


def search_entities(
    ids: Sequence[str],
    choice: UnitChoice,
    limits: Limits,
    vectors: VectorReads,
    graph: GraphReads,
    order: RelationshipOrder = "question",
) -> Evidence:
    """Return the first ``limits.records`` entities, with their relationships, and text units.

    The entities keep the order of ``ids``. ``order`` sorts the relationships, ``choice`` chooses
    the text units. It takes three reads for any number of ids, and one more to order by the
    question.
    """
    if not ids:
        return Evidence()
    # An entity may be deleted between two reads, so not each of the ids is of an entity.
    entities = graph.entities(ids)
    shown_entities = entities[: limits.records]
    shown_ids = [entity.id for entity in shown_entities]
    relationships = graph.relationships_of(shown_ids, RELATIONSHIP_LIMIT)
    if order == "question":
        relationships = sort_by_question(relationships, shown_ids, choice.question, vectors)
    # Text units come from more entities than are shown, until there are enough to choose from.
    units_of_entities = [entity.text_unit_ids for entity in entities]
    n_needed = limits.count_needed(units_of_entities)
    if choice.method == "RELATION":
        needed_ids = [entity.id for entity in entities[:n_needed]]
        unit_counts = rank_by_relation(graph.shared_units(needed_ids), needed_ids)
    else:
        unit_counts = choice.choose_among(units_of_entities[:n_needed])
    return Evidence(shown_entities, relationships, {"entity": unit_counts})


def search_relationships(
    ids: Sequence[str],
    choice: UnitChoice,
    limits: Limits,
    graph: GraphReads,
    order: RelationshipOrder = "question",
) -> Evidence:
    """Return the first ``limits.records`` relationships, with their ends, and text units.

    The relationships keep the order of ``ids``, or are sorted by rank and weight, as ``order``
    says. The entities follow the order of ``ids``. ``choice`` chooses the text units. It takes two
    reads for any number of ids, and one more to compare text units.
    """
    if not ids:
        return Evidence()
    found = graph.relationships(ids)
    shown = found[: limits.records]
    end_ids: dict[str, None] = {}
    for relationship in shown:
        end_ids[relationship.source_entity_id] = None
        end_ids[relationship.target_entity_id] = None
    entities = graph.entities(list(end_ids))
    # Text units come from more relationships than are shown, until there are enough.
    units_of_relationships = [relationship.text_unit_ids for relationship in found]
    n_needed = limits.count_needed(units_of_relationships)
    unit_counts = choice.choose_among(units_of_relationships[:n_needed])
    if order == "rank":
        shown = sorted(shown, key=lambda one: (-one.rank, -one.weight, one.id))
    return Evidence(entities, shown, {"relationship": unit_counts})


@dataclass(frozen=True)
class QuestionVectors:
    """The vectors to search with.

    ``text``: the text searched for as a whole; ``whole``: its vector. ``low`` and ``high``: the
    vectors of the keywords of each level; None if there are none.
    """

    text: str
    whole: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None


def embed_question(
    request: QueryRequest, keywords: Keywords, embedding: EmbeddingModel
) -> QuestionVectors:
    """Embed the question and its keywords in one call of the model."""
    text = choose_search_text(request, keywords)
    low_text, high_text = ", ".join(keywords.low), ", ".join(keywords.high)
    # The text of missing keywords is empty. It is not sent, and its vector is of no use.
    whole, low, high = embedding.embed([text, low_text, high_text])
    return QuestionVectors(
        text,
        whole,
        low=low if keywords.low else None,
        high=high if keywords.high else None,
    )


def retrieve(
    request: QueryRequest,
    search_vectors: QuestionVectors,
    vectors: VectorReads,
    graph: GraphReads,
    n_units: int,
) -> Evidence:
    """Search as the mode of the request says.

    Low-level keywords find entities, high-level ones relationships. The search for which keywords
    are missing is left out. If none is left, or the graph holds nothing for the question, the
    search is that of mode ``naive``.

    ``n_units``: the number of text units that are wanted.
    """
    if request.mode == "graph":
        from pipeline.query.search.walk.graph_search import graph_search

        return graph_search(
            search_vectors.text, search_vectors.whole, request.top_k, n_units, vectors, graph
        )
    low = search_vectors.low if request.mode in LOCAL_MODES else None
    high = search_vectors.high if request.mode in GLOBAL_MODES else None
    has_no_keywords = low is None and high is None
    by_vector = request.mode in VECTOR_MODES or has_no_keywords
    naive = VectorSearch("chunks", search_vectors.whole, n_units)

    limits = Limits(request.top_k, n_units)
    # All searches are one read of the store.
    searches: dict[str, VectorSearch] = {}
    if by_vector:
        searches["chunks"] = naive
    if low is not None:
        searches["entities"] = VectorSearch("entities", low, limits.searched)
    if high is not None:
        searches["relationships"] = VectorSearch("relationships", high, limits.searched)
    ids_of_searches = find_nearest_ids(searches.values(), vectors)
    nearest_ids = dict(zip(searches, ids_of_searches, strict=True))

    choice = UnitChoice(
        request.kg_chunk_pick_method, request.related_chunk_number, search_vectors.whole, vectors
    )
    order = request.relationship_order
    notes = _note_missing_keywords(request, search_vectors)
    if request.mode in KEYWORD_MODES - VECTOR_MODES and has_no_keywords:
        notes.append("searched as naive")
    found = [Evidence(notes=tuple(notes))]
    if by_vector:
        found.append(_make_naive_evidence(nearest_ids["chunks"]))
    if low is not None:
        ids = nearest_ids["entities"]
        found.append(search_entities(ids, choice, limits, vectors, graph, order))
    if high is not None:
        ids = nearest_ids["relationships"]
        found.append(search_relationships(ids, choice, limits, graph, order))
    evidence = _merge(found)
    if not by_vector and not evidence.entities and not evidence.relationships:
        [ids] = find_nearest_ids([naive], vectors)
        note = "the graph holds nothing for this question: searched as naive"
        return replace(_make_naive_evidence(ids), notes=(*evidence.notes, note))
    return evidence


def find_nearest_ids(searches: Iterable[VectorSearch], vectors: VectorReads) -> list[list[str]]:
    """Return the ids that each search finds, best first; one read for all searches."""
    return [_list_ids_of_hits(hits) for hits in vectors.nearest(list(searches))]


def _list_ids_of_hits(hits: Iterable[tuple[str, float]]) -> list[str]:
    """Return the ids of hits, without their similarities."""
    return [id for id, _ in hits]


def _make_naive_evidence(ids: Sequence[str]) -> Evidence:
    """Return the text units ``ids`` as evidence, found by their vectors."""
    # Each was found once.
    unit_counts = dict.fromkeys(ids, 1)
    return Evidence(unit_lanes={"vector": unit_counts})


def _note_missing_keywords(request: QueryRequest, search_vectors: QuestionVectors) -> list[str]:
    """Return a note for each search of the mode that is left out for lack of keywords."""
    notes: list[str] = []
    if request.mode in LOCAL_MODES and search_vectors.low is None:
        notes.append("no low-level keywords: entities were not searched")
    if request.mode in GLOBAL_MODES and search_vectors.high is None:
        notes.append("no high-level keywords: relationships were not searched")
    return notes


def _merge(found: Sequence[Evidence]) -> Evidence:
    """Merge the evidence of several searches, which take turns.

    Entities with equal names are one, because a reader sees the name alone. Relationships are told
    apart by their ids.
    """
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
    found_by_community = Counter(membership.community_id for membership in memberships)
    reports = [
        replace(report, found_entities=found_by_community[report.id])
        for report in vectors.reports(sorted(found_by_community))
    ]
    reports.sort(
        key=lambda report: (-report.found_entities, -report.weight, -report.rating, report.id)
    )
    return replace(evidence, reports=reports, claims=vectors.claims_of(ids, CLAIM_LIMIT))


def find_evidence(
    request: QueryRequest,
    search_vectors: QuestionVectors,
    vectors: VectorReads,
    graph: GraphReads,
    n_units: int,
) -> EvidenceAndUnits:
    """Return the evidence for a question, and the text units to show, in their order.

    Reports and claims are read only if the ``context`` of the request asks for them.
    """
    evidence = retrieve(request, search_vectors, vectors, graph, n_units)
    picks = {pick.id: pick for pick in pick_units(evidence, n_units)}
    units = []
    # Stores call text units chunks.
    for unit in vectors.chunks(list(picks), search_vectors.whole):
        pick = picks[unit.id]
        units.append(replace(unit, lane=pick.lane, frequency=pick.frequency, place=pick.place))
    if request.wants_reports_and_claims:
        evidence = add_communities(evidence, request.community_level, vectors, graph)
    found = [entity.id for entity in evidence.entities]
    attributes = vectors.attributes_of(found, SHOWN_ATTRIBUTES)
    return replace(evidence, attributes=attributes), units
