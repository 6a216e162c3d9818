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
    records = _records_table(workflow, tables)
    entities = tables.get("entities")
    units, documents = tables.get("text_units"), tables.get("documents")
    if records is None or entities is None or units is None or documents is None:
        return WhatWasSaid((), 0)
    found = _select(project, entities, "id", [entity_id(entity)], ["id", "text_unit_ids"])
    unit_ids: list[str] = []
    for ids in found["text_unit_ids"]:
        # The cell is an array, which "+=" would add to each item.
        unit_ids.extend(ids)
    # Records of an earlier version may lack some columns.
    there = project.snapshots.tables.columns(records)
    columns = [column for column in COLUMNS if column in there]
    rows = _select(project, records, "text_unit_id", unit_ids[:MOST_UNITS], columns)
    keys = _former_keys(project, workflow, entity)
    if target:
        others = _former_keys(project, workflow, target)
        rows = _between(rows, keys, others)
    else:
        rows = rows[_has_key(rows, "name", keys)]
    rows = rows.sort_values(["text_unit_id", "order"])
    shown = rows.head(MOST_RECORDS)
    units_shown = list(shown["text_unit_id"].unique())
    read = _select(project, units, "id", units_shown, ["id", "document_id", "text"])
    unit_by_id: Any = read.set_index("id").to_dict("index")
    titles = _read_titles(project, documents, list(read["document_id"].unique()))
    every_row: Any = shown.to_dict("records")
    said = [_make_said(row, unit_by_id[row["text_unit_id"]], titles) for row in every_row]
    return WhatWasSaid(said, len(rows))


def _records_table(workflow: Workflow, tables: Mapping[str, Snapshot]) -> Snapshot | None:
    """Return the table of what was extracted, before the ontology and corrections."""
    if RECORDS in tables:
        return tables[RECORDS]
    merge = find_step(workflow, MERGE)
    if merge is None:
        return None
    return tables.get(merge.inputs[RECORDS])


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
    """Return for each row whether the name in this column has one of the match keys."""
    # Names recur, so the key of each is made once.
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
    """Return these columns of the rows that have one of the values in ``column``."""
    cells = pa.array(list(values), STRING)
    rows = project.snapshots.tables.select(table, (column,), cells, list(columns))
    return as_frame(rows)


def _read_titles(project: Services, documents: Snapshot, ids: Sequence[str]) -> dict[str, str]:
    """Return the title of each document by its id; its source where it has none."""
    rows = _select(project, documents, "id", ids, ["id", "title", "source"])
    has_title = rows["title"] != ""
    names = rows["title"].where(has_title, rows["source"])
    return dict(zip(rows["id"], names, strict=True))


def _make_said(row: Mapping[str, Any], unit: Mapping[str, str], titles: Mapping[str, str]) -> Said:
    """Return a row of records with the passage of its text unit."""
    # A statement has no name: its source stands in the passage.
    name = row["name"] or row["source"]
    return Said(
        kind=row["kind"],
        name=row["name"],
        type=row["type"],
        source=row["source"],
        target=row["target"],
        keywords=list(row["keywords"]),
        description=row["description"],
        text_unit_id=row["text_unit_id"],
        document_id=unit["document_id"],
        title=titles.get(unit["document_id"], ""),
        passage=_cut_around(unit["text"], name),
    )


def _cut_around(text: str, name: str) -> str:
    """Return the part of the text around the first place where the name stands."""
    # -1 where the name does not stand in the text, which is then shown from its beginning.
    place = max(text.casefold().find(name.casefold()), 0)
    # A third of the passage stands before the name, unless the text ends too early.
    wanted_begin = place - LONGEST_PASSAGE // 3
    latest_begin = len(text) - LONGEST_PASSAGE
    begin = max(min(wanted_begin, latest_begin), 0)
    end = begin + LONGEST_PASSAGE
    passage = text[begin:end].strip()
    before = "… " if begin > 0 else ""
    behind = " …" if end < len(text) else ""
    return f"{before}{passage}{behind}"
