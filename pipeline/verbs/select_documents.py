"""select_documents: select and rename the metadata of documents."""

from typing import Any, Self

import pandas as pd
from pydantic import Field, model_validator

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS
from pipeline.documents.metadata import fields_of, with_fields


class SelectParams(Params):
    """``metadata`` are the keys to keep (None for all), or ``drop`` are those to remove.

    ``rename`` maps keys that are kept to their new names.
    """

    metadata: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    rename: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Check that the options do not contradict each other. Raises ValueError if they do."""
        if self.metadata is not None and self.drop:
            raise ValueError("metadata names what is kept and drop what is not; give one of them")
        lost = sorted(key for key in self.rename if not self.keeps(key))
        if lost:
            raise ValueError(f"{lost} would be renamed but not kept; keep them too")
        named_keys = dict.fromkeys((*(self.metadata or ()), *self.rename))
        names = [self.rename.get(key, key) for key in named_keys]
        if len(set(names)) < len(names):
            raise ValueError("two keys would have one name; rename one of them otherwise")
        return self

    def keeps(self, key: str) -> bool:
        """Return whether documents keep this metadata key."""
        return key not in self.drop if self.metadata is None else key in self.metadata


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"documents": DOCUMENTS},
    rowwise="documents",
    row_of={"documents": "id"},
)
def select_documents(documents: pd.DataFrame, params: SelectParams) -> pd.DataFrame:
    """Return the documents with the selected metadata.

    A renamed key replaces another key that has its new name.
    """
    selected = [_select_fields(metadata, params) for metadata in fields_of(documents)]
    return with_fields(documents, selected)


def _select_fields(metadata: dict[str, Any], params: SelectParams) -> dict[str, Any]:
    """Return the metadata that are kept, under their new names."""
    unchanged: dict[str, Any] = {}
    renamed: dict[str, Any] = {}
    for key, value in metadata.items():
        if not params.keeps(key):
            continue
        if key in params.rename:
            renamed[params.rename[key]] = value
        else:
            unchanged[key] = value
    return unchanged | renamed
