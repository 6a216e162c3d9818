"""set_metadata: give documents metadata by the places that they come from."""

from functools import cached_property
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, field_validator

from pipeline.contract.conditions import OWN
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS
from pipeline.documents.files import is_match
from pipeline.documents.metadata import cleaned, fields_of, with_fields

IN_A_FILE = "#"
"""The character between the name of a file and the record of it that is a document."""


class MetadataRule(BaseModel):
    """The metadata ``set`` of documents whose source matches the glob ``pattern``.

    The pattern may also match the file that has the document as a record.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str = Field(min_length=1)
    set: dict[str, Any] = Field(min_length=1)

    @field_validator("set")
    @classmethod
    def _are_metadata(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields as values of JSON. Raises ValueError for one that is no metadata."""
        if own := sorted(fields.keys() & set(OWN)):
            raise ValueError(f"'{own[0]}' is the document's own; give the metadata another name")
        return cleaned(fields)


class SetMetadataParams(Params):
    """The ``rules``. Of several that match and set one field, the first counts."""

    rules: tuple[MetadataRule, ...] = Field(min_length=1)

    @cached_property
    def fields(self) -> frozenset[str]:
        """The metadata that the rules decide on."""
        return frozenset(field for rule in self.rules for field in rule.set)


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"documents": DOCUMENTS},
    rowwise="documents",
    row_of={"documents": "id"},
)
def set_metadata(documents: pd.DataFrame, params: SetMetadataParams) -> pd.DataFrame:
    """Return all documents, with the metadata that the rules give them by their sources.

    The rules alone decide on the fields that they name: a document that no rule gives such a field
    has none. So no document can claim a group by its own front matter or column.
    """
    new_fields: list[dict[str, Any]] = []
    for own_fields, source in zip(fields_of(documents), documents["source"], strict=True):
        other_fields = {
            name: value for name, value in own_fields.items() if name not in params.fields
        }
        new_fields.append(other_fields | _set_by_rules(source, params))
    return with_fields(documents, new_fields)


def _set_by_rules(source: str, params: SetMetadataParams) -> dict[str, Any]:
    """Return the metadata that the rules give to documents from this source."""
    file, _, _ = source.partition(IN_A_FILE)
    fields: dict[str, Any] = {}
    for rule in params.rules:
        if is_match(source, rule.pattern) or is_match(file, rule.pattern):
            # What an earlier rule has set stays.
            fields = rule.set | fields
    return fields
