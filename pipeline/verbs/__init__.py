"""The verbs. Importing this package registers them."""

from pipeline.verbs import tables as tables
from pipeline.verbs.add_aliases import add_aliases
from pipeline.verbs.add_imported import (
    add_imported_documents,
    add_imported_extractions,
    add_imported_units,
    leave_out_imported_units,
    split_imported_documents,
)
from pipeline.verbs.add_links import add_links
from pipeline.verbs.add_tables import add_table_extractions, add_tables, leave_out_tables
from pipeline.verbs.check_patterns import check_patterns
from pipeline.verbs.chunk_documents import chunk_documents
from pipeline.verbs.compose_headers import compose_headers
from pipeline.verbs.compose_texts import compose_report_texts, compose_texts
from pipeline.verbs.compute_degrees import compute_degrees
from pipeline.verbs.conform_extractions import conform_extractions
from pipeline.verbs.correct_extractions import correct_extractions
from pipeline.verbs.detect_communities import detect_communities
from pipeline.verbs.embed_graph import embed_graph
from pipeline.verbs.embed_text import embed_text
from pipeline.verbs.embed_with_headers import embed_with_headers
from pipeline.verbs.extend_communities import extend_communities
from pipeline.verbs.extract_claims import extract_claims
from pipeline.verbs.extract_graph import extract_graph, extract_graph_with_headers
from pipeline.verbs.extract_graph_fast import extract_graph_fast
from pipeline.verbs.extract_table import extract_table
from pipeline.verbs.filter_documents import filter_documents
from pipeline.verbs.find_near_duplicates import find_near_duplicates
from pipeline.verbs.gather_properties import gather_properties
from pipeline.verbs.join_descriptions import join_descriptions
from pipeline.verbs.join_documents import join_documents
from pipeline.verbs.keep_reports import keep_reports, report_new_communities
from pipeline.verbs.layout_graph import layout_graph
from pipeline.verbs.list_attributes import list_attributes, list_resolved_attributes
from pipeline.verbs.list_statements import list_resolved_statements, list_statements
from pipeline.verbs.load_documents import load_documents
from pipeline.verbs.merge_graphs import merge_graphs
from pipeline.verbs.prune_graph import prune_graph
from pipeline.verbs.read_corrections import read_corrections
from pipeline.verbs.read_graphrag import read_graphrag
from pipeline.verbs.read_graphrag_cache import read_graphrag_cache
from pipeline.verbs.read_lightrag import read_lightrag
from pipeline.verbs.read_table import read_table
from pipeline.verbs.report_communities import report_communities, report_communities_with_claims
from pipeline.verbs.resolve_claims import resolve_claims
from pipeline.verbs.resolve_entities import resolve_entities
from pipeline.verbs.restrict_to_text_units import restrict_to_text_units
from pipeline.verbs.select_documents import select_documents
from pipeline.verbs.set_metadata import set_metadata
from pipeline.verbs.summarize_descriptions import summarize_descriptions

__all__ = [
    "add_aliases",
    "add_imported_documents",
    "add_imported_extractions",
    "add_imported_units",
    "add_links",
    "add_table_extractions",
    "add_tables",
    "check_patterns",
    "chunk_documents",
    "compose_headers",
    "compose_report_texts",
    "compose_texts",
    "compute_degrees",
    "conform_extractions",
    "correct_extractions",
    "detect_communities",
    "embed_graph",
    "embed_text",
    "embed_with_headers",
    "extend_communities",
    "extract_claims",
    "extract_graph",
    "extract_graph_fast",
    "extract_graph_with_headers",
    "extract_table",
    "filter_documents",
    "find_near_duplicates",
    "gather_properties",
    "join_descriptions",
    "join_documents",
    "keep_reports",
    "layout_graph",
    "leave_out_imported_units",
    "leave_out_tables",
    "list_attributes",
    "list_resolved_attributes",
    "list_resolved_statements",
    "list_statements",
    "load_documents",
    "merge_graphs",
    "prune_graph",
    "read_corrections",
    "read_graphrag",
    "read_graphrag_cache",
    "read_lightrag",
    "read_table",
    "report_communities",
    "report_communities_with_claims",
    "report_new_communities",
    "resolve_claims",
    "resolve_entities",
    "restrict_to_text_units",
    "select_documents",
    "set_metadata",
    "split_imported_documents",
    "summarize_descriptions",
]
