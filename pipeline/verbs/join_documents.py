"""join_documents: what a table says about each document becomes its metadata."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from pipeline.contract.conditions import OWN, as_text
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS
from pipeline.documents.metadata import fields_of, lookup_digest, read_lookup, with_fields


class JoinTableParams(Params):
    """``path``: a csv, json, jsonl or parquet file, below ``root`` (the project) unless it is
    absolute. ``on``: a metadata key, or ``id``, ``title``, ``source``; ``key``: the table's column,
    if named otherwise. ``encoding``: "" finds out."""

    path: str
    on: str
    key: str | None = None
    encoding: str = ""
    root: str = Field(default=".", exclude=True)  # a project may move

    @property
    def file(self) -> Path:
        return Path(self.root) / self.path

    @property
    def column(self) -> str:
        return self.key or self.on


def table_digest(params: JoinTableParams) -> str:
    """Changes when the table is edited."""
    return lookup_digest(params.file)


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"documents": DOCUMENTS},
    rowwise="documents",
    row_of={"documents": "id"},
    libraries=("charset-normalizer",),
    settings="project",
    stamp=table_digest,
)
def join_documents(documents: pd.DataFrame, params: JoinTableParams) -> pd.DataFrame:
    """Every document, those in the table with its columns as metadata; a filled cell replaces what
    was there.

    Keys are compared as texts. Raises SettingsError when the table is missing or its kind unknown,
    DataError when it cannot be read, lacks the key column, or has a key twice.
    """
    rows = read_lookup(params.file, params.column, params.encoding)
    own = documents[list(OWN)].to_dict("records")
    pairs = zip(fields_of(documents), own, strict=True)
    joined = [
        metadata | _row(rows, (metadata | columns).get(params.on)) for metadata, columns in pairs
    ]
    return with_fields(documents, joined)


def _row(rows: Mapping[str, dict[str, Any]], value: Any) -> dict[str, Any]:
    if value is None or isinstance(value, list | dict):
        return {}
    return rows.get(as_text(value), {})
