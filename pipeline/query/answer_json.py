"""The structured part of an answer, as JSON has it."""

from typing import Any

import pandas as pd

from pipeline.query.context import Context, Reference
from pipeline.query.request import QueryRequest

LISTS = ("text_unit_ids", "keywords")


def evidence_json(context: Context, request: QueryRequest) -> dict[str, Any]:
    """Entities, relationships and text units as they were shown, and the documents they are of."""
    listed = context.references if request.include_references else ()
    return {
        "entities": _records(context.entities.records),
        "relationships": _records(context.relationships.records),
        "chunks": _records(context.chunks.records.drop(columns=["title", "tokens"], errors="ignore")),
        "references": [_reference(entry, context, request.include_chunk_content) for entry in listed],
    }


def dropped_json(context: Context) -> dict[str, int]:
    """How many records the budgets had no room for."""
    return {name: getattr(context, name).dropped for name in ("entities", "relationships", "chunks")}


def _reference(entry: Reference, context: Context, with_content: bool) -> dict[str, Any]:
    chunks = context.chunks.records
    columns = ["id", "start", "end", *(["content"] if with_content else [])]
    return {
        "id": entry.id,
        "document_id": entry.document_id,
        "source": entry.source,
        "title": entry.title,
        "metadata": entry.metadata,
        "chunks": _records(chunks.loc[chunks["document_id"] == entry.document_id, columns]),
    }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """NaN as null, arrays as lists."""
    plain = frame.assign(**{column: frame[column].map(list) for column in LISTS if column in frame})
    rows = plain.astype(object).where(plain.notna(), None).to_dict("records") if len(plain) else []
    return [{str(name): value for name, value in row.items()} for row in rows]
