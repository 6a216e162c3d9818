"""extract_table: make records of the rows of a project's own tables, without a model."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from pipeline.contract.laws import Uses
from pipeline.contract.registry import verb
from pipeline.contract.schemas import EXTRACTIONS, STRING, UNIT_TEXTS, table
from pipeline.documents.metadata import as_json

ROWS_OF_TABLES = table("id", id=STRING, metadata=STRING)
"""The columns of documents that say what a row of a table states."""
BLANK: Mapping[str, Any] = {
    "kind": "relationship", "name": "", "type": "", "source": "", "target": "", "description": "",
    "keywords": [], "weight": 1.0, "grounded": True, "attributes": None,
}  # fmt: skip
"""The cells of a record that states nothing."""


@verb(
    inputs={"text_units": UNIT_TEXTS, "documents": ROWS_OF_TABLES},
    outputs={"extractions": EXTRACTIONS},
    rowwise="text_units",
    row_of={"extractions": "text_unit_id"},
    lookup={"documents": Uses("text_units", ("document_id",))},
)
def extract_table(text_units: pd.DataFrame, documents: pd.DataFrame) -> pd.DataFrame:
    """Return the records (EXTRACTIONS) of documents of ``read_table``, one document for each row.

    A row about an entity gives one record. A row that relates two gives a record of each end, and
    one of the relationship, whose type is its only keyword. ``attributes`` has the properties of
    the row, and ``valid_from`` and ``valid_to`` if it has these dates. All records of a row belong
    to the first text unit of its document.
    """
    is_wanted = documents["id"].isin(text_units["document_id"])
    wanted = documents[is_wanted]
    metadata_of = dict(zip(wanted["id"], wanted["metadata"], strict=True))
    # The records belong to the first text unit of a document.
    first_units = text_units[text_units["order"] == 0]
    rows: list[dict[str, Any]] = []
    for unit, document in zip(first_units["id"], first_units["document_id"], strict=True):
        if document not in metadata_of:
            continue
        metadata = json.loads(metadata_of[document] or "{}")
        record = metadata.get("record", {})
        for order, fields in enumerate(_records_of(record)):
            rows.append({"text_unit_id": unit, "order": order, **BLANK, **fields})
    return EXTRACTIONS.frame(rows)


def _records_of(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what the row states, as columns of EXTRACTIONS that are not blank."""
    properties = record.get("properties") or {}
    stated = {
        "description": record.get("description", ""),
        "attributes": as_json(properties) if properties else None,
    }
    type = record.get("type", "")
    if "name" in record:
        yield {"kind": "entity", "name": record["name"], "type": type, **stated}
        return
    if not {"source", "target"} <= set(record):
        return
    for end in ("source", "target"):
        type_of_end = record.get(f"{end}_type", "")
        yield {"kind": "entity", "name": record[end], "type": type_of_end}
    yield {
        "source": record["source"],
        "target": record["target"],
        "keywords": [type] if type else [],
        "weight": float(record.get("weight", 1.0)),
        **stated,
    }
