"""What communities tell of the entities that were found."""

from dataclasses import replace

from pipeline.query.evidence import Evidence
from pipeline.stores.base import GraphReads, VectorReads

CLAIM_LIMIT = 1000
"""Claims read at most: more than any budget shows, and a bound on hubs."""


def with_communities(evidence: Evidence, level: int, vectors: VectorReads, graph: GraphReads) -> Evidence:
    """The evidence with the claims of its entities, and the reports of their communities down to ``level``: those first
    that hold most of the entities (``found_entities``), then by weight, rating and id. Three reads."""
    ids = evidence.entities["id"].tolist()
    if not ids:
        return evidence
    held = graph.communities_of(ids, level)["community_id"].value_counts()
    reports = vectors.reports(sorted(held.index))
    ranked = reports.assign(found_entities=reports["id"].map(held)).sort_values(
        ["found_entities", "weight", "rating", "id"], ascending=[False, False, False, True]
    )
    return replace(evidence, reports=ranked.reset_index(drop=True), claims=vectors.claims_of(ids, CLAIM_LIMIT))
