"""Find what the model said of an entity or a statement, before any correction."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from pipeline.contract.cells import as_frame
from pipeline.contract.schemas import STRING
from pipeline.corrections.decisions import Rename
from pipeline.corrections.file import read_lines
from pipeline.engine.workflow import Workflow
from pipeline.errors import GraphmillError
from pipeline.runs.correction_matches import corrections_file, find_step
from pipeline.runs.correction_steps import MERGE, RECORDS, WITH_ALIASES
from pipeline.runs.resolutions import names_of
from pipeline.runs.services import Services
from pipeline.snapshots.store import Snapshot
from pipeline.text.ids import entity_id, match_key

MOST_UNITS = 200
"""Text units of an entity that are looked through."""
MOST_RECORDS = 30
LONGEST_PASSAGE = 700
"""Characters of a passage around the name."""
COLUMNS = [
    "text_unit_id", "order", "kind", "name", "type", "description", "source", "target", "keywords"
]  # fmt: skip


@dataclass(frozen=True)
class Said:
    """A record as the model gave it, with the passage that it was read from."""

    kind: str
    name: str
    type: str
    source: str
    target: str
    keywords: Sequence[str]
    description: str
    text_unit_id: str
    document_id: str
    title: str
    passage: str


@dataclass(frozen=True)
class WhatWasSaid:
    """The first records about an entity or a statement; ``records`` counts all that were found."""

    said: Sequence[Said]
    records: int

    def to_json(self) -> dict[str, Any]:
        return {"said": [asdict(one) for one in self.said], "records": self.records}


def what_was_said(
    project: Services, entity: str, target: str = "", name: str | None = None
) -> WhatWasSaid:
    """Return what the model said of an entity, or with ``target`` of these two, in the last run.

    Names are those that the graph has. Records of names that a renaming or a resolution led to
    these count too. Only text units of the entity are read.
    """
    workflow = project.workflow(name)
    tables = project.snapshots.manifest(workflow.name).tables
    records, entities = _records_table(workflow, tables), tables.get("entities")
    units, documents = tables.get("text_units"), tables.get("documents")
    if records is None or entities is None or units is None or documents is None:
        return WhatWasSaid((), 0)
    store = project.snapshots.tables
    found = _select(project, entities, "id", [entity_id(entity)], ["id", "text_unit_ids"])
    unit_ids = [id for ids in found["text_unit_ids"] for id in ids][:MOST_UNITS]
    columns = [column for column in COLUMNS if column in store.columns(records)]
    rows = _select(project, records, "text_unit_id", unit_ids, columns)
    keys = _former_keys(project, workflow, entity)
    if target:
        others = _former_keys(project, workflow, target)
        rows = _between(rows, keys, others)
    else:
        rows = rows[_has_key(rows, "name", keys)]
    rows = rows.sort_values(["text_unit_id", "order"])
    shown = rows.head(MOST_RECORDS)
    read = _select(
        project, units, "id", list(shown["text_unit_id"].unique()), ["id", "document_id", "text"]
    )
    of_unit: Any = read.set_index("id").to_dict("index")
    titles = _read_titles(project, documents, list(read["document_id"].unique()))
    every_row: Any = shown.to_dict("records")
    said = [_make_said(row, of_unit[row["text_unit_id"]], titles) for row in every_row]
    return WhatWasSaid(said, len(rows))


def _records_table(workflow: Workflow, tables: Mapping[str, Snapshot]) -> Snapshot | None:
    """Return the table of what was extracted, before the ontology and corrections."""
    merge = find_step(workflow, MERGE)
    return tables.get(RECORDS) or (tables.get(merge.inputs[RECORDS]) if merge else None)


def _former_keys(project: Services, workflow: Workflow, name: str) -> set[str]:
    """Return the match keys of the names that lead to this one, and its own."""
    keys = {match_key(name)}
    try:
        merged = names_of(project, entity_id(name), workflow.name).merged
        keys |= {match_key(one["name"]) for one in merged}
    except GraphmillError:
        # No step decides on names, so there are none.
        pass
    for line in read_lines(corrections_file(project, workflow)):
        decision = line.decision
        if isinstance(decision, Rename) and match_key(decision.to) in keys:
            keys.add(match_key(decision.entity))
    aliases = project.snapshots.manifest(workflow.name).tables.get(WITH_ALIASES)
    if aliases is not None:
        rows = project.snapshots.tables.read(aliases)
        renaming = rows[(rows["kind"] == "rename") & (rows["to"] != "")]
        is_meant = [match_key(name) in keys for name in renaming["to"]]
        keys |= {match_key(alias) for alias in renaming["source"][is_meant]}
    return keys


def _has_key(rows: pd.DataFrame, column: str, keys: Collection[str]) -> "pd.Series[bool]":
    meant = {name for name in rows[column].unique() if name and match_key(name) in keys}
    return rows[column].isin(meant)


def _between(rows: pd.DataFrame, keys: Collection[str], others: Collection[str]) -> pd.DataFrame:
    """Return the statements between two entities, in both directions: one may have been turned."""
    forth = _has_key(rows, "source", keys) & _has_key(rows, "target", others)
    back = _has_key(rows, "source", others) & _has_key(rows, "target", keys)
    return rows[forth | back]


def _select(
    project: Services, table: Snapshot, column: str, values: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    cells = pa.array(list(values), STRING)
    return as_frame(project.snapshots.tables.select(table, (column,), cells, list(columns)))


def _read_titles(project: Services, documents: Snapshot, ids: Sequence[str]) -> dict[str, str]:
    rows = _select(project, documents, "id", ids, ["id", "title", "source"])
    names = rows["title"].where(rows["title"] != "", rows["source"])
    return dict(zip(rows["id"], names, strict=True))


def _make_said(row: Mapping[str, Any], unit: Mapping[str, str], titles: Mapping[str, str]) -> Said:
    name = row["name"] or row["source"]
    return Said(
        row["kind"],
        row["name"],
        row["type"],
        row["source"],
        row["target"],
        list(row["keywords"]),
        row["description"],
        row["text_unit_id"],
        unit["document_id"],
        titles.get(unit["document_id"], ""),
        _cut_around(unit["text"], name),
    )


def _cut_around(text: str, name: str) -> str:
    """Return the part of the text around the first place where the name stands."""
    place = max(text.casefold().find(name.casefold()), 0)
    begin = max(min(place - LONGEST_PASSAGE // 3, len(text) - LONGEST_PASSAGE), 0)
    end = begin + LONGEST_PASSAGE
    return f"{'… ' if begin else ''}{text[begin:end].strip()}{' …' if end < len(text) else ''}"
