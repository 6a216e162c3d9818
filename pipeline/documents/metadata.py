"""A document's metadata: a JSON object, its values as JSON has them, its hash with the document's content."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import Any

import pandas as pd

from pipeline.text import clean, digest

OWN = ("id", "title", "source")
"""The document's own columns that may be named like a metadata key; where both exist, these count."""


def fields_of(documents: pd.DataFrame) -> list[dict[str, Any]]:
    """Per document its metadata."""
    return [json.loads(cell or "{}") for cell in documents["metadata"]]


def with_fields(documents: pd.DataFrame, fields: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The documents with this metadata, and the ``content_hash`` that goes with it."""
    cells = [as_json(entry) for entry in fields]
    parts = zip(documents["title"], documents["text"], cells, strict=True)
    return documents.assign(metadata=cells, content_hash=[content_hash(*part) for part in parts])


def content_hash(title: str, text: str, metadata: str) -> str:
    return digest(title, text, metadata)


def as_json(fields: Mapping[str, Any]) -> str:
    """The one way metadata is written, so that equal metadata are equal texts."""
    return json.dumps(fields, ensure_ascii=False, sort_keys=True, allow_nan=False)


def cleaned(value: Any) -> Any:
    """The value as JSON has it: texts without control characters, dates as ISO texts, NaN as None, and what
    JSON knows nothing of as its text."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(str(name)): cleaned(item) for name, item in value.items()}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else clean(str(value))


def as_text(value: Any) -> str:
    """A value as a text to compare by: 2020, 2020.0 and "2020" are one."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
