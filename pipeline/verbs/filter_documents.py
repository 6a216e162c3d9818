"""filter_documents: select documents by their metadata and their own columns."""

from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from pipeline.contract.conditions import (
    CORRECTION_PREFIX,
    DATE,
    OWN,
    holds,
    operators,
    refuse_properties,
)
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS
from pipeline.documents.metadata import fields_of


class FilterParams(Params):
    """The conditions of the documents to keep; all of them must hold.

    ``where`` maps a field to the condition that its value must meet. A condition is a value, a
    list of allowed values, or a map of operators (=, !=, <, <=, >, >=, in, not in, matches,
    exists). A field is ``id``, ``title``, ``source``, or a metadata key.
    """

    where: dict[str, Any] = Field(min_length=1)

    @field_validator("where")
    @classmethod
    def _as_operators(cls, where: dict[str, Any]) -> dict[str, dict[str, Any]]:
        refuse_properties(where, "documents are chosen before anything is extracted")
        return {field: operators(field, wanted) for field, wanted in where.items()}


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"documents": DOCUMENTS},
    rowwise="documents",
    row_of={"documents": "id"},
)
def filter_documents(documents: pd.DataFrame, params: FilterParams) -> pd.DataFrame:
    """Return the documents that satisfy ``where``, unchanged. Documents left out are no rejects.

    A statement that a person has added without a document is left out (CORRECTION_PREFIX).
    """
    own_columns = documents[list(OWN)].to_dict("records")
    rows = zip(fields_of(documents), own_columns, documents[DATE], strict=True)
    fits: list[bool] = []
    for metadata, columns, date in rows:
        # A column goes before a metadata key of the same name.
        fields = metadata | columns
        fits.append(holds(params.where, fields, date))
    is_fitting = np.array(fits, dtype=bool)
    is_of_people = documents["source"].str.startswith(CORRECTION_PREFIX).to_numpy(dtype=bool)
    return documents[is_fitting & ~is_of_people]
