"""read_corrections: read the decisions of people about the graph."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import CORRECTIONS
from pipeline.corrections.decisions import (
    FIELDS_WITHOUT_EFFECT,
    Decision,
    Different,
    Keep,
    Same,
    Scoped,
    SetProperty,
)
from pipeline.corrections.file import FILE, file_digest, kind_of, read_lines
from pipeline.ontology.type_names import TypeNames


class CorrectionsParams(Params):
    """``path`` is the file with the decisions; a relative path starts at ``root``, the project's
    folder.

    ``entity_types`` and ``relationship_types`` are the types of ontology.yaml, each with its
    synonyms. A type of a decision that is one of them in another spelling gets its name.
    """

    path: str = FILE
    entity_types: Mapping[str, tuple[str, ...]] = {}
    relationship_types: Mapping[str, tuple[str, ...]] = {}
    # Not part of the fingerprint: a project may move to another folder.
    root: str = Field(default=".", exclude=True)

    @property
    def file(self) -> Path:
        return Path(self.root) / self.path


def stamp(params: CorrectionsParams) -> str:
    """Return a digest of the decisions; it changes when one of them does."""
    return file_digest(params.file)


@verb(inputs={}, outputs={"corrections": CORRECTIONS}, settings="project", stamp=stamp)
def read_corrections(params: CorrectionsParams = CorrectionsParams()) -> pd.DataFrame:
    """Return the decisions in corrections.jsonl, or no rows if there is no such file.

    Pairs are for resolve_entities, which reads them itself; those that are ``different`` are here
    too, for no alias of master data may unite them. Raises SettingsError if a line cannot be read
    or two lines contradict each other.
    """
    return list_rows([line.decision for line in read_lines(params.file)], params)


def list_rows(
    decisions: Iterable[Decision], params: CorrectionsParams = CorrectionsParams()
) -> pd.DataFrame:
    """Return the table CORRECTIONS of these decisions, without those that change no record.

    Names that are ``different`` are in it: they keep aliases of master data from changing some.
    """
    rows = [_make_row(decision) for decision in decisions if not isinstance(decision, Same | Keep)]
    entity_types = TypeNames.of(params.entity_types.items())
    relationship_types = TypeNames.of(params.relationship_types.items())
    for row in rows:
        # Only a statement has a target.
        names = relationship_types if row["target"] else entity_types
        types = {"type": names, "source_type": entity_types, "target_type": entity_types}
        if row["kind"] in ("set_type", "retype_statement"):
            types["to"] = names
        for column, known in types.items():
            row[column] = known.find(row[column]) or row[column]
    return CORRECTIONS.frame(rows)


def _make_row(decision: Decision) -> dict[str, Any]:
    """Return the row of CORRECTIONS of a decision."""
    blank: dict[str, Any] = dict.fromkeys(CORRECTIONS.columns, "")
    fields = decision.model_dump(exclude={*FIELDS_WITHOUT_EFFECT, "document"})
    # The name of an entity and the source of a statement share a column.
    if "entity" in fields:
        fields["source"] = fields.pop("entity")
    if isinstance(decision, Different):
        fields["source"], fields["target"] = fields.pop("a"), fields.pop("b")
    return {
        **blank,
        "append": False,
        **fields,
        "id": decision.id,
        "kind": kind_of(decision),
        "document_id": decision.document_id if isinstance(decision, Scoped) else "",
        "by": decision.by if isinstance(decision, SetProperty) else "",
    }
