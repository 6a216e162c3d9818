"""select_documents: which metadata the documents keep, and under which names."""

from typing import Any, Self

import pandas as pd
from pydantic import Field, model_validator

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import DOCUMENTS
from pipeline.documents.metadata import fields_of, with_fields


class SelectParams(Params):
    """``metadata``: the keys to keep (None: all), or ``drop``: those to leave out. ``rename``: key
    -> new name, for keys that are kept."""

    metadata: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    rename: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.metadata is not None and self.drop:
            raise ValueError("metadata names what is kept and drop what is not; give one of them")
        lost = sorted(key for key in self.rename if not self.keeps(key))
        if lost:
            raise ValueError(f"{lost} would be renamed but not kept; keep them too")
        names = [
            self.rename.get(key, key)
            for key in {**dict.fromkeys(self.metadata or ()), **self.rename}
        ]
        if len(set(names)) < len(names):
            raise ValueError("two keys would have one name; rename one of them otherwise")
        return self

    def keeps(self, key: str) -> bool:
        return key not in self.drop if self.metadata is None else key in self.metadata


@verb(
    inputs={"documents": DOCUMENTS},
    outputs={"documents": DOCUMENTS},
    rowwise="documents",
    row_of={"documents": "id"},
)
def select_documents(documents: pd.DataFrame, params: SelectParams) -> pd.DataFrame:
    """The documents with the metadata that ``params`` keep; a renamed key replaces one that has its
    new name."""
    return with_fields(
        documents, [_selected(metadata, params) for metadata in fields_of(documents)]
    )


def _selected(metadata: dict[str, Any], params: SelectParams) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if params.keeps(key)}
    unchanged = {key: value for key, value in kept.items() if key not in params.rename}
    return unchanged | {
        params.rename[key]: value for key, value in kept.items() if key in params.rename
    }
