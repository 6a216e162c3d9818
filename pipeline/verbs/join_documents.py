"""join_documents: add the cells of a table to the metadata of the documents."""

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
    """The table, and the keys by which it is joined.

    ``path`` is a csv, json, jsonl or parquet file; a relative path starts at ``root``, the
    project's folder. ``on`` is a metadata key, or ``id``, ``title`` or ``source``. ``key`` is the
    column of the table, if it has another name. ``encoding`` is that of the file; it is detected
    if it is "".
    """

    path: str
    on: str
    key: str | None = None
    encoding: str = ""
    # Not part of the fingerprint: a project may move to another folder.
    root: str = Field(default=".", exclude=True)

    @property
    def file(self) -> Path:
        return Path(self.root) / self.path

    @property
    def column(self) -> str:
        return self.key or self.on


def table_digest(params: JoinTableParams) -> str:
    """Return a digest of the table; it changes when the table is edited."""
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
    """Return all documents; the cells of a document's row in the table become its metadata.

    A filled cell replaces metadata of the same name. Keys are compared as texts. Raises
    SettingsError if the table is missing or its kind is unknown. Raises DataError if it cannot be
    read, lacks the key column, or has a key twice.
    """
    rows = read_lookup(params.file, params.column, params.encoding)
    own_columns = documents[list(OWN)].to_dict("records")
    joined = []
    for metadata, columns in zip(fields_of(documents), own_columns, strict=True):
        key = (metadata | columns).get(params.on)
        joined.append(metadata | _find_row(rows, key))
    return with_fields(documents, joined)


def _find_row(rows: Mapping[str, dict[str, Any]], value: Any) -> dict[str, Any]:
    """Return the row of the table with this key, or an empty one."""
    if value is None or isinstance(value, list | dict):
        return {}
    return rows.get(as_text(value), {})
