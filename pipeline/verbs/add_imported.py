"""add_imported_*: unite the documents of the input folder with those of an imported index.

A document of the input folder takes the place of the imported document with the same id. If both
have the same text, the passages and records of the index stay, for they are paid for already.
"""

from typing import Any

import pandas as pd

from pipeline.contract.laws import Uses
from pipeline.contract.registry import verb
from pipeline.contract.schemas import DOCUMENTS, EXTRACTIONS, STRING, TEXT_UNITS, table
from pipeline.documents.metadata import content_hash
from pipeline.verbs.add_tables import unite

BYTE_ORDER_MARK = "\ufeff"
IDS = table("id", id=STRING)
TEXTS = table("id", id=STRING, text=STRING)


@verb(
    inputs={"documents": DOCUMENTS, "imported_documents": DOCUMENTS},
    outputs={"documents": DOCUMENTS},
    keyed={"documents": ("id",), "imported_documents": ("id",)},
    row_of={"documents": "id"},
)
def add_imported_documents(
    documents: pd.DataFrame, imported_documents: pd.DataFrame
) -> pd.DataFrame:
    """Return the documents, and the imported ones whose id none of them has.

    A document whose text differs from the imported one in white space alone, or in a byte order
    mark, gets the imported text, in which the imported passages have their places.
    """
    imported = _list_texts(imported_documents)
    rows: list[dict[str, Any]] = []
    # Type checkers do not know that the cells are texts.
    records: Any = documents.to_dict("records")
    for row in records:
        text: str = row["text"]
        theirs = imported.get(row["id"], text)
        if theirs != text and _words_of(theirs) == _words_of(text):
            hash = content_hash(row["title"], theirs, row["metadata"])
            row.update(text=theirs, content_hash=hash)
        rows.append(row)
    own = DOCUMENTS.frame(rows)
    is_replaced = imported_documents["id"].isin(documents["id"])
    others = imported_documents[~is_replaced]
    return unite(own, others)


@verb(
    inputs={"documents": DOCUMENTS, "imported_documents": TEXTS},
    outputs={"own_documents": DOCUMENTS, "kept_documents": IDS},
    rowwise="documents",
    row_of={"own_documents": "id", "kept_documents": "id"},
    lookup={"imported_documents": Uses("documents", ("id",))},
)
def split_imported_documents(
    documents: pd.DataFrame, imported_documents: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the documents that are still to be cut, and the ids of those that the index has.

    The index has a document if its id and its text are those of an imported one.
    """
    imported = _list_texts(imported_documents)
    imported_texts = documents["id"].map(imported)
    is_kept = documents["text"] == imported_texts
    own, kept = documents[~is_kept], documents[is_kept]
    return own, kept[["id"]]


def _words_of(text: str) -> list[str]:
    """Return the words of a text. The byte order mark of a file, which GraphRAG keeps, is none."""
    return text.removeprefix(BYTE_ORDER_MARK).split()


def _list_texts(documents: pd.DataFrame) -> dict[str, str]:
    """Return the texts of documents by their ids."""
    return dict(zip(documents["id"], documents["text"], strict=True))


@verb(
    inputs={"text_units": TEXT_UNITS, "imported_text_units": TEXT_UNITS, "kept_documents": IDS},
    outputs={"text_units": TEXT_UNITS},
    keyed={
        "text_units": ("document_id",),
        "imported_text_units": ("document_id",),
        "kept_documents": ("id",),
    },
    row_of={"text_units": "document_id"},
)
def add_imported_units(
    text_units: pd.DataFrame, imported_text_units: pd.DataFrame, kept_documents: pd.DataFrame
) -> pd.DataFrame:
    """Return the text units, and those of the imported documents that are kept."""
    kept_ids = kept_documents["id"]
    is_kept = imported_text_units["document_id"].isin(kept_ids)
    kept = imported_text_units[is_kept]
    return unite(text_units, kept)


@verb(
    inputs={"text_units": TEXT_UNITS, "kept_documents": IDS},
    outputs={"own_text_units": TEXT_UNITS},
    rowwise="text_units",
    row_of={"own_text_units": "id"},
    lookup={"kept_documents": Uses("text_units", ("document_id",))},
)
def leave_out_imported_units(
    text_units: pd.DataFrame, kept_documents: pd.DataFrame
) -> pd.DataFrame:
    """Return the text units for which the index has no reply: a model is asked about these."""
    kept = kept_documents["id"]
    is_kept = text_units["document_id"].isin(kept)
    return text_units[~is_kept]


@verb(
    inputs={
        "extractions": EXTRACTIONS,
        "imported_extractions": EXTRACTIONS,
        "text_units": IDS,
        "own_text_units": IDS,
    },
    outputs={"extractions": EXTRACTIONS},
    keyed={
        "extractions": ("text_unit_id",),
        "imported_extractions": ("text_unit_id",),
        "text_units": ("id",),
        "own_text_units": ("id",),
    },
    row_of={"extractions": "text_unit_id"},
)
def add_imported_extractions(
    extractions: pd.DataFrame,
    imported_extractions: pd.DataFrame,
    text_units: pd.DataFrame,
    own_text_units: pd.DataFrame,
) -> pd.DataFrame:
    """Return the records of own text units, and the imported ones of all other text units."""
    units = imported_extractions["text_unit_id"]
    # A replaced document may begin with the same passage as before, which then has the same id.
    is_there = units.isin(text_units["id"])
    is_own = units.isin(own_text_units["id"])
    kept = imported_extractions[is_there & ~is_own]
    return unite(extractions, kept)
