"""Read what a chat model wrote: graph records, a graph as JSON, keywords. Pure functions; no reply raises."""

from pipeline.models.parse_json import ASK_FOR_GRAPH_JSON, GRAPH_JSON_FORMAT, parse_graph_json, parse_keywords
from pipeline.models.parse_records import parse_records
from pipeline.models.parsed import Entity, Parsed, Problem, Record, Relationship, failed, unreadable, unusable

__all__ = [
    "ASK_FOR_GRAPH_JSON",
    "GRAPH_JSON_FORMAT",
    "Entity",
    "Parsed",
    "Problem",
    "Record",
    "Relationship",
    "failed",
    "parse_graph_json",
    "parse_keywords",
    "parse_records",
    "unreadable",
    "unusable",
]
