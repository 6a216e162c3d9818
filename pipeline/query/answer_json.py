"""The structured part of an answer, as JSON has it."""

import math
from typing import Any

import numpy as np
import pandas as pd

from pipeline.query.context import Context, Reference
from pipeline.query.request import QueryRequest


def shown_tables(request: QueryRequest) -> tuple[str, ...]:
    """Names of the context's tables that a request has."""
    plain = ("entities", "relationships", "chunks")
    return ("reports", *plain, "claims") if request.with_reports else plain


def evidence_json(context: Context, request: QueryRequest) -> dict[str, Any]:
    """Entities, relationships and text units as they were shown, and the documents they are of; reports and claims
    where the request has them."""
    chunks = _records(context.chunks.records.drop(columns=["title", "tokens"], errors="ignore"))
    listed = context.references if request.include_references else ()
    return {
        **{name: _records(getattr(context, name).records) for name in shown_tables(request)},
        "chunks": chunks,
        "references": [_reference(entry, chunks, request.include_chunk_content) for entry in listed],
    }


def dropped_json(context: Context, request: QueryRequest) -> dict[str, int]:
    """How many records the budgets had no room for."""
    return {name: getattr(context, name).dropped for name in shown_tables(request)}


def _reference(entry: Reference, chunks: list[dict[str, Any]], with_content: bool) -> dict[str, Any]:
    names = ("id", "start", "end", *(("content",) if with_content else ()))
    return {
        "id": entry.id,
        "document_id": entry.document_id,
        "source": entry.source,
        "title": entry.title,
        "metadata": entry.metadata,
        "chunks": [
            {name: chunk[name] for name in names} for chunk in chunks if chunk["document_id"] == entry.document_id
        ],
    }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    names = [str(name) for name in frame.columns]
    columns = [list(map(_plain, frame[name].tolist())) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    """A missing number as null, sequences as lists."""
    if isinstance(value, tuple | np.ndarray):
        return list(value)
    return None if value is pd.NA or (isinstance(value, float) and math.isnan(value)) else value
