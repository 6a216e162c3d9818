"""filter_documents: the documents that are wanted, by their metadata and own columns."""

from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from pipeline.contract.conditions import OWN, holds, operators
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS
from pipeline.documents.metadata import fields_of


class FilterParams(Params):
    """``where``: field -> a value, a list of which any will do, or a mapping of operators (=, !=,
    <, <=, >, >=, in, not in, matches, exists). A field is ``id``, ``title``, ``source``, or else a
    metadata key; every condition must hold."""

    where: dict[str, Any] = Field(min_length=1)

    @field_validator("where")
    @classmethod
    def _as_operators(cls, where: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {field: operators(field, wanted) for field, wanted in where.items()}


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"documents": DOCUMENTS},
    rowwise="documents",
    row_of={"documents": "id"},
)
def filter_documents(documents: pd.DataFrame, params: FilterParams) -> pd.DataFrame:
    """The documents that satisfy ``where``, unchanged. One left out is a choice, no reject."""
    own = documents[list(OWN)].to_dict("records")
    rows = zip(fields_of(documents), own, strict=True)
    kept = np.array(
        [holds(params.where, metadata | columns) for metadata, columns in rows], dtype=bool
    )
    return documents[kept]
