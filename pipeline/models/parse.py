"""Read what a chat model wrote: graph records, a graph as JSON, keywords. Pure functions; no reply raises."""

from pipeline.models.parse_json import parse_graph_json, parse_keywords
from pipeline.models.parse_records import parse_records
from pipeline.models.parsed import Entity, Parsed, Problem, Record, Relationship, unreadable

__all__ = [
    "Entity",
    "Parsed",
    "Problem",
    "Record",
    "Relationship",
    "parse_graph_json",
    "parse_keywords",
    "parse_records",
    "unreadable",
]
