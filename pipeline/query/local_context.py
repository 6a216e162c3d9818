"""The mixed context of local search: reports, entities, relationships, claims and sources, each in its share of the
budget (Edge et al. 2024, "From Local to Global", and the local search of Microsoft GraphRAG)."""

from collections.abc import Sequence

import pandas as pd

from pipeline.models.base import Tokenizer
from pipeline.query.context import (
    ENTITY_HEADER,
    RELATIONSHIP_HEADER,
    ROW,
    Context,
    DataCitations,
    Numbers,
    Table,
    cut,
    cut_sources,
    entity_rows,
    references_to,
    relationship_rows,
    room,
    sources_first,
    told_once,
)
from pipeline.query.reports.windows import report_table
from pipeline.query.request import QueryRequest
from pipeline.query.search.evidence import Evidence

CLAIM_HEADER = ["id", "subject", "object", "type", "status", "start_date", "end_date", "description"]
ENTITY_SHARE, CLAIM_SHARE = 0.4, 0.2
"""Of what entities, relationships and claims have together; relationships get what these leave."""


def mixed_context(
    request: QueryRequest,
    evidence: Evidence,
    chunks: pd.DataFrame,
    tokenizer: Tokenizer,
    overhead: int,
    numbers: Numbers | None = None,
) -> Context:
    """Sources get ``text_unit_prop`` of the budget (in a small prompt what they need), reports ``community_prop``,
    entities, claims and relationships the rest; what a part leaves goes to the next, and in the end to the sources.
    Relationships between two entities that were found come before others.

    Arguments as of ``build_context``. Every record has a ``number`` to be cited by. ``numbers``: those given before.
    """
    numbers = numbers or Numbers()

    def numbered(kind: str, records: pd.DataFrame) -> pd.DataFrame:
        return records.assign(number=numbers.of(kind, records["id"].tolist()))

    def part(kind: str, records: pd.DataFrame, rows: pd.DataFrame, header: Sequence[str], budget: int) -> Table:
        shown = numbered(kind, records)
        return cut(shown, rows.assign(id=shown["number"].to_numpy()), header, budget, tokenizer)

    chunks = numbered("sources", chunks)
    found = references_to(chunks)
    left = room(request, overhead)
    share = 1 if sources_first(request) else request.text_unit_prop
    reserved = cut_sources(chunks, found, int(left * share), tokenizer, ROW)[0].tokens
    shared = min(int(left * request.community_prop), left - reserved)
    reports = report_table(numbered("reports", evidence.reports), shared, tokenizer)
    local = left - reserved - reports.tokens
    entities = part(
        "entities", evidence.entities, entity_rows(evidence.entities), ENTITY_HEADER,
        min(request.max_entity_tokens, int(local * ENTITY_SHARE)),
    )  # fmt: skip
    claims = part("claims", evidence.claims, evidence.claims, CLAIM_HEADER, int(local * CLAIM_SHARE))
    links = _inner_first(evidence)
    relationships = part(
        "relationships", links, relationship_rows(links), RELATIONSHIP_HEADER,
        min(request.max_relation_tokens, local - entities.tokens - claims.tokens),
    )  # fmt: skip
    left -= reports.tokens + entities.tokens + claims.tokens + relationships.tokens
    sources, references = cut_sources(chunks, found, left, tokenizer, ROW)
    return Context(entities, relationships, sources, references, reports, claims, mark=ROW)


def mixed_citable(context: Context) -> DataCitations:
    """The records that are shown, by kind."""
    kinds = ("reports", "entities", "relationships", "claims")
    shown = {kind: _numbers(getattr(context, kind).records) for kind in kinds}
    return DataCitations.of({**shown, "sources": [reference.id for reference in context.references]})


def _inner_first(evidence: Evidence) -> pd.DataFrame:
    links, found = evidence.relationships, set(evidence.entities["id"])
    inner = links["source_entity_id"].isin(found) & links["target_entity_id"].isin(found)
    return told_once(pd.concat([links[inner], links[~inner]]))


def _numbers(records: pd.DataFrame) -> list[int]:
    return records["number"].tolist() if "number" in records else []
