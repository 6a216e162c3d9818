"""add_tables: unite what texts say with what a project's own tables say."""

import pandas as pd

from pipeline.contract.laws import Uses
from pipeline.contract.registry import verb
from pipeline.contract.schemas import DOCUMENTS, EXTRACTIONS, STRING, TEXT_UNITS, table

DOCUMENT_IDS = table("id", id=STRING)
"""The column of documents that says which ones are rows of tables."""


@verb(
    inputs={"documents": DOCUMENTS, "table_documents": DOCUMENTS},
    outputs={"documents": DOCUMENTS},
    keyed={"documents": ("id",), "table_documents": ("id",)},
    row_of={"documents": "id"},
)
def add_tables(documents: pd.DataFrame, table_documents: pd.DataFrame) -> pd.DataFrame:
    """Return the documents of the input folder and those that are rows of tables."""
    return unite(documents, table_documents)


@verb(
    inputs={"text_units": TEXT_UNITS, "table_documents": DOCUMENT_IDS},
    outputs={"file_text_units": TEXT_UNITS},
    rowwise="text_units",
    row_of={"file_text_units": "id"},
    lookup={"table_documents": Uses("text_units", ("document_id",))},
)
def leave_out_tables(text_units: pd.DataFrame, table_documents: pd.DataFrame) -> pd.DataFrame:
    """Return the text units that are no rows of tables: no model is asked what a row says."""
    is_row = text_units["document_id"].isin(table_documents["id"])
    return text_units[~is_row]


@verb(
    inputs={"extractions": EXTRACTIONS, "table_extractions": EXTRACTIONS},
    outputs={"extractions": EXTRACTIONS},
    keyed={"extractions": ("text_unit_id",), "table_extractions": ("text_unit_id",)},
    row_of={"extractions": "text_unit_id"},
)
def add_table_extractions(
    extractions: pd.DataFrame, table_extractions: pd.DataFrame
) -> pd.DataFrame:
    """Return the records of texts and those of tables."""
    return unite(extractions, table_extractions)


def unite(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of two tables with the same columns."""
    # pandas would take the types of an empty frame into account, too.
    filled = [frame for frame in (first, second) if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else first
