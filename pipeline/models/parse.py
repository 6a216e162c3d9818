"""Read what a chat model wrote: graphs, claims, reports, keywords. Pure functions; no reply raises."""

from pipeline.models.parse_claims import parse_claims
from pipeline.models.parse_json import ASK_FOR_GRAPH_JSON, GRAPH_JSON_FORMAT, parse_graph_json, parse_keywords
from pipeline.models.parse_records import parse_records
from pipeline.models.parse_report import REPORT_JSON_FORMAT, Finding, Report, parse_report
from pipeline.models.parsed import (
    Claim,
    Entity,
    Graph,
    Parsed,
    Problem,
    Record,
    Relationship,
    failed,
    unreadable,
    unusable,
)

__all__ = [
    "ASK_FOR_GRAPH_JSON",
    "GRAPH_JSON_FORMAT",
    "REPORT_JSON_FORMAT",
    "Claim",
    "Entity",
    "Finding",
    "Graph",
    "Parsed",
    "Problem",
    "Record",
    "Relationship",
    "Report",
    "failed",
    "parse_claims",
    "parse_graph_json",
    "parse_keywords",
    "parse_records",
    "parse_report",
    "unreadable",
    "unusable",
]
