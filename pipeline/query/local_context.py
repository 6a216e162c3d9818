"""The mixed context of local search: reports, entities, relationships, claims and sources, each in
its share of the budget (Edge et al. 2024, "From Local to Global", and the local search of Microsoft
GraphRAG)."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from pipeline.models.base import Tokenizer
from pipeline.query.context import (
    ENTITY_HEADER,
    RELATIONSHIP_HEADER,
    ROW,
    Context,
    Numbers,
    Table,
    cut,
    cut_sources,
    entity_row,
    references_to,
    relationship_row,
    room,
    sources_first,
    told_once,
)
from pipeline.query.data_citations import DataCitations
from pipeline.query.marks import inert
from pipeline.query.reports.windows import report_table
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
AS_CLAIM = attrgetter("number", *CLAIM_HEADER[1:])
ENTITY_SHARE, CLAIM_SHARE = 0.4, 0.2
"""Of what entities, relationships and claims have together; relationships get what these leave."""


def mixed_context(
    request: QueryRequest,
    evidence: Evidence,
    chunks: Sequence[Passage],
    tokenizer: Tokenizer,
    overhead: int,
    numbers: Numbers | None = None,
) -> Context:
    """Sources get ``text_unit_prop`` of the budget (in a small prompt what they need), reports
    ``community_prop``, entities, claims and relationships the rest; what a part leaves goes to the
    next, and in the end to the sources. Relationships between two entities that were found come
    before others.

    Arguments as of ``build_context``. Every record has a ``number`` to be cited by. ``numbers``:
    those given before.
    """
    numbers = numbers or Numbers()

    chunks = numbers.given_to("sources", chunks)
    found = references_to(chunks)
    left = room(request, overhead)
    share = 1 if sources_first(request) else request.text_unit_prop
    reserved = cut_sources(chunks, found, int(left * share), tokenizer, ROW)[0].tokens
    shared = min(int(left * request.community_prop), left - reserved)
    reports = report_table(numbers.given_to("reports", evidence.reports), shared, tokenizer)
    local = left - reserved - reports.tokens
    found_entities = numbers.given_to("entities", evidence.entities)
    entities = cut(
        found_entities, (entity_row(entity.number, entity) for entity in found_entities),
        ENTITY_HEADER,
        min(request.max_entity_tokens, int(local * ENTITY_SHARE)), tokenizer,
    )  # fmt: skip
    found_claims = numbers.given_to("claims", evidence.claims)
    claims = cut(
        found_claims,
        map(_claim_row, found_claims),
        CLAIM_HEADER,
        int(local * CLAIM_SHARE),
        tokenizer,
    )
    links = numbers.given_to("relationships", _inner_first(evidence))
    relationships = cut(
        links, (relationship_row(link.number, link) for link in links), RELATIONSHIP_HEADER,
        min(request.max_relation_tokens, local - entities.tokens - claims.tokens), tokenizer,
    )  # fmt: skip
    left -= reports.tokens + entities.tokens + claims.tokens + relationships.tokens
    sources, references = cut_sources(chunks, found, left, tokenizer, ROW)
    return Context(entities, relationships, sources, references, reports, claims, mark=ROW)


def mixed_citable(context: Context) -> DataCitations:
    """The records that are shown, by kind."""
    tables: Mapping[str, Table[Any]] = {
        "reports": context.reports, "entities": context.entities,
        "relationships": context.relationships,
        "claims": context.claims,
    }  # fmt: skip
    shown = {kind: [record.number for record in table.records] for kind, table in tables.items()}
    return DataCitations.of(
        {**shown, "sources": [reference.id for reference in context.references]}
    )


def _claim_row(claim: Claim) -> list[Any]:
    number, *texts = AS_CLAIM(claim)
    return [number, *(inert(text) if isinstance(text, str) else text for text in texts)]


def _inner_first(evidence: Evidence) -> list[Relationship]:
    found = {entity.id for entity in evidence.entities}

    def leads_out(link: Relationship) -> bool:
        return not (link.source_entity_id in found and link.target_entity_id in found)

    return told_once(sorted(evidence.relationships, key=leads_out))
