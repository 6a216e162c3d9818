"""Decisions of people about the graph: the file corrections.jsonl, and what its lines do."""
