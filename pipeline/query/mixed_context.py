"""The mixed context of local search: reports, entities, relationships, claims and text units.

Each section gets a share of the budget (Edge et al. 2024, "From Local to Global", and the local
search of Microsoft GraphRAG).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.models.base import Tokenizer
from pipeline.query.context import (
    ENTITY_OPTION,
    RELATIONSHIP_HEADER,
    RELATIONSHIP_OPTION,
    ROW,
    Context,
    Numbers,
    Room,
    Table,
    build_references,
    build_relationship_row,
    count_context_tokens,
    cut_rows,
    cut_sources,
    drop_repeated_descriptions,
    find_repeated,
    lacks_any,
    limit_room,
    prefers_sources,
)
from pipeline.query.data_citations import DataCitations
from pipeline.query.entity_table import build_entity_rows, entity_header
from pipeline.query.marks import inert
from pipeline.query.repeated import drop_repeated_facts, with_repeated_facts
from pipeline.query.report_table import build_report_table
from pipeline.query.request import QueryRequest
from pipeline.query.search.evidence import Evidence
from pipeline.stores.records import Claim, Passage, Relationship

CLAIM_HEADER = [
    "id",
    "subject",
    "object",
    "type",
    "status",
    "start_date",
    "end_date",
    "description",
]
ENTITY_SHARE, CLAIM_SHARE = 0.4, 0.2
"""Shares of the budget for entities, claims and relationships; relationships get the rest."""


def build_mixed_context(
    request: QueryRequest,
    evidence: Evidence,
    chunks: Sequence[Passage],
    tokenizer: Tokenizer,
    overhead: int,
    numbers: Numbers | None = None,
) -> Context:
    """Cut the evidence to the budget of the request and return it as a context with all sections.

    ``chunks``: text units in their order. ``overhead``: tokens of the prompt without its context.
    ``numbers``: numbers given to records before; every record is cited by its number.

    Text units get the share ``text_unit_prop``, or all they need in a small prompt. Reports get
    ``community_prop``. Entities, claims and relationships get the rest. What a section does not
    use goes to the next, finally to the text units. Relationships between two entities that were
    found come first.
    """
    numbers = numbers or Numbers()
    chunks = numbers.number_records("sources", chunks)
    all_references = build_references(chunks, request.metadata_fields, ROW)
    total = count_context_tokens(request, overhead)

    # The room that text units need is reserved first, the rest of the budget goes to them last.
    share = 1 if prefers_sources(request) else request.text_unit_prop
    reserved, _ = cut_sources(chunks, all_references, int(total * share), tokenizer, ROW)
    report_budget = min(int(total * request.community_prop), total - reserved.tokens)
    numbered_reports = numbers.number_records("reports", evidence.reports)
    reports = build_report_table(numbered_reports, report_budget, tokenizer)
    local = total - reserved.tokens - reports.tokens

    found_entities = numbers.number_records("entities", evidence.entities)
    numbered = ((entity.number, entity) for entity in found_entities)
    # Records of all kinds are cited in another form here, so documents are named.
    entity_rows = build_entity_rows(numbered, evidence.attributes, marks={})
    header = entity_header(evidence.attributes)
    entity_room = limit_room(request, ENTITY_OPTION, int(local * ENTITY_SHARE))
    entities = cut_rows(found_entities, entity_rows, header, entity_room.tokens, tokenizer)
    entities = replace(entities, limit=entity_room.limit)

    found_claims = numbers.number_records("claims", evidence.claims)
    claim_rows = map(_claim_row, found_claims)
    claim_budget = int(local * CLAIM_SHARE)
    claims = cut_rows(found_claims, claim_rows, CLAIM_HEADER, claim_budget, tokenizer)

    found_links = _inner_first(evidence)
    fresh = drop_repeated_facts(found_links, reserved.records)
    left_for_links = local - entities.tokens - claims.tokens
    link_room = limit_room(request, RELATIONSHIP_OPTION, left_for_links)
    relationships = _cut_links(fresh, numbers, link_room, tokenizer)

    used = reports.tokens + entities.tokens + claims.tokens + relationships.tokens
    sources, references = cut_sources(chunks, all_references, total - used, tokenizer, ROW)
    # The text units that were added may say what a relationship of the table says.
    fresh = drop_repeated_facts(found_links, sources.records)
    if lacks_any(relationships.records, fresh):
        link_room = Room(relationships.tokens, relationships.limit)
        relationships = _cut_links(fresh, numbers, link_room, tokenizer)
    repeated = find_repeated(request, found_links, fresh, tokenizer)
    facts = with_repeated_facts(found_links, repeated, relationships.records)
    return Context(
        entities,
        relationships,
        sources,
        references,
        reports,
        claims,
        mark=ROW,
        facts=facts,
        attributes=evidence.attributes,
    )


def _cut_links(
    links: Sequence[Relationship], numbers: Numbers, room: Room, tokenizer: Tokenizer
) -> Table[Relationship]:
    """Return the table of relationships, each with its number, that the room holds."""
    numbered = numbers.number_records("relationships", links)
    rows = (build_relationship_row(link.number, link) for link in numbered)
    table = cut_rows(numbered, rows, RELATIONSHIP_HEADER, room.tokens, tokenizer)
    return replace(table, limit=room.limit)


def list_citable(context: Context) -> DataCitations:
    """Return the numbers of the records that the context shows, by kind, as citable records."""
    tables: Mapping[str, Table[Any]] = {
        "reports": context.reports,
        "entities": context.entities,
        "relationships": context.relationships,
        "claims": context.claims,
    }
    shown = {kind: [record.number for record in table.records] for kind, table in tables.items()}
    shown["sources"] = [reference.id for reference in context.references]
    return DataCitations.of(shown)


def _claim_row(claim: Claim) -> list[Any]:
    """Return the values of the columns CLAIM_HEADER."""
    row: list[Any] = [claim.number]
    for name in CLAIM_HEADER[1:]:
        value = getattr(claim, name)
        row.append(inert(value) if isinstance(value, str) else value)
    return row


def _inner_first(evidence: Evidence) -> list[Relationship]:
    """Return the relationships without repetitions, those between two found entities first."""
    found = {entity.id for entity in evidence.entities}

    def leads_out(link: Relationship) -> bool:
        return not (link.source_entity_id in found and link.target_entity_id in found)

    return drop_repeated_descriptions(sorted(evidence.relationships, key=leads_out))
