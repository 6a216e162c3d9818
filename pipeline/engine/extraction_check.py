"""Measure the extraction by the tables of a run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import NAMING, STRING, TITLE_FROM
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.engine.losses import CUT, ROW, UNENDED
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.errors import DataError
from pipeline.models.base import ChatModel
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.text.ids import match_key

# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute

COLUMNS = {
    "documents": ["id", "title", TITLE_FROM],
    "text_units": ["id", "document_id"],
    "rejects": ["step", "row_id", "kind", "reason"],
}
EXTRACTIONS, TEXT_UNITS = "extractions", "text_units"
MOST_FORMS = 3
"""Entities that the title of a document may be: itself, without its brackets, and what stands in
them."""
MANY_WITHOUT_NAMES = 0.5
"""The share of the text units in which nothing was found from which on a run says so."""
FAST = "extract_graph_fast"
TEXTS_LOOKED_AT, CHARACTERS_LOOKED_AT = 200, 2000
"""So many text units, and so much of each, tell which scripts a corpus is written in."""


def extracting_steps(workflow: Workflow) -> list[Step]:
    """Return the steps that write extractions."""
    return [step for step in workflow.steps if EXTRACTIONS in step.outputs.values()]


def reading_steps(workflow: Workflow) -> list[Step]:
    """Return the steps that ask a chat model about each text unit."""
    return [
        step
        for step in workflow.steps
        if step.verb.rowwise
        and step.inputs.get(step.verb.rowwise) == TEXT_UNITS
        and step.verb.roles_of(ChatModel)
        and step.models
    ]


def health(
    tables: Mapping[str, Snapshot], snapshots: SnapshotStore, workflow: Workflow
) -> dict[str, float]:
    """Count what the tables of a workflow say of its extraction, as far as it writes the tables
    that are needed.

    ``text_units``; those that were rejected (``rejected_units``); of the others, those
    ``without_entities`` and those of whose text no entity is but the title of their document
    (``only_title``); ``entities_per_unit``; ``ungrounded`` records (with a name that does not stand
    in their text); ``orphan_relationships`` (with an end that no record describes). What was
    dropped for it is counted too.

    If a chat model reads the text units: those of which only the whole records of cut replies are
    used (``cut_units``), and ``share_without_end_mark``, the share of the replies that lack the end
    mark that their prompt asks for.

    If `extract_graph_fast` found next to nothing: ``share_of_caseless_letters``, those of scripts
    without capitals.
    """
    if not {TEXT_UNITS, EXTRACTIONS} <= set(tables):
        return {}
    read = {
        name: _some_of(tables[name], COLUMNS[name], snapshots) for name in COLUMNS if name in tables
    }
    records, ungrounded = _read_records(tables[EXTRACTIONS], snapshots)
    unit, name = (records[column].combine_chunks() for column in ("text_unit_id", "name"))
    pairs = np.unique(
        unit.indices.to_numpy().astype(np.int64) * (len(name.dictionary) + 1)
        + name.indices.to_numpy()
    )
    of_unit, called = np.divmod(pairs, len(name.dictionary) + 1)
    few = np.bincount(of_unit)[of_unit] <= MOST_FORMS
    named = {
        "text_unit_id": unit.dictionary.take(of_unit[few]),
        "name": name.dictionary.take(called[few]),
    }
    units, rejects = len(read[TEXT_UNITS]), read["rejects"].to_pandas()
    dropped = rejects["reason"].value_counts()
    extracting = {step.id for step in extracting_steps(workflow)}
    rejected = _rows_of_kind(rejects, ROW, extracting) - set(unit.dictionary.to_pylist())
    counts: dict[str, float] = {
        "text_units": units,
        "rejected_units": len(rejected),
        "without_entities": units - len(unit.dictionary) - len(rejected),
        "only_title": _only_title(read.get("documents"), read[TEXT_UNITS], pa.table(named)),
        "entities_per_unit": round(len(records) / max(units, 1), 2),
        "ungrounded": int(ungrounded + dropped.get("ungrounded", 0)),
    }
    if reading := {step.id for step in reading_steps(workflow)}:
        counts["cut_units"] = len(_rows_of_kind(rejects, CUT, reading))
        counts["share_without_end_mark"] = _share_without_end_mark(rejects, units, reading)
    if "merged_entities" in tables:
        of_stubs = _orphans(tables["merged_entities"], tables["merged_relationships"], snapshots)
        counts["orphan_relationships"] = int(of_stubs + dropped.get("orphan", 0))
    if found_little(counts) and any(step.verb.name == FAST for step in extracting_steps(workflow)):
        counts["share_of_caseless_letters"] = _share_of_caseless_letters(
            tables[TEXT_UNITS], snapshots
        )
    return counts


def found_little(health: Mapping[str, float]) -> bool:
    """Check that in many of the text units that were not rejected nothing was found but a title."""
    units = health.get("text_units", 0) - health.get("rejected_units", 0)
    empty = health.get("without_entities", 0) + health.get("only_title", 0)
    return units > 0 and empty >= MANY_WITHOUT_NAMES * units


def _rows_of_kind(rejects: pd.DataFrame, kind: str, steps: Collection[str]) -> set[str]:
    return set(rejects.loc[(rejects["kind"] == kind) & rejects["step"].isin(list(steps)), "row_id"])


def _share_without_end_mark(rejects: pd.DataFrame, units: int, steps: Collection[str]) -> float:
    """Return the share of the text units with a usable reply that have one without an end mark,
    over all steps."""
    answered = sum(units - len(_rows_of_kind(rejects, ROW, [step])) for step in steps)
    unended = sum(len(_rows_of_kind(rejects, UNENDED, [step])) for step in steps)
    return round(unended / answered, 4) if answered else 0.0


def _share_of_caseless_letters(text_units: Snapshot, snapshots: SnapshotStore) -> float:
    letters = caseless = looked_at = 0
    for batch in snapshots.tables.read_unordered(text_units, ["text"]):
        for text in batch["text"].to_pylist()[: TEXTS_LOOKED_AT - looked_at]:
            of_text = [letter for letter in text[:CHARACTERS_LOOKED_AT] if letter.isalpha()]
            letters += len(of_text)
            caseless += sum(letter.lower() == letter.upper() for letter in of_text)
            looked_at += 1
        if looked_at >= TEXTS_LOOKED_AT:
            break
    return round(caseless / letters, 4) if letters else 0.0


def _some_of(snapshot: Snapshot, columns: Sequence[str], snapshots: SnapshotStore) -> pa.Table:
    """In no order. Of these columns those that the table has: one of an earlier version may lack
    some."""
    schema = snapshots.tables.schema(snapshot)
    there = [column for column in columns if column in schema.names]
    batches = list(snapshots.tables.read_unordered(snapshot, there))
    return pa.Table.from_batches(batches) if batches else schema.empty_table().select(there)


def _read_records(extractions: Snapshot, snapshots: SnapshotStore) -> tuple[pa.Table, int]:
    """Text units and names of the records of entities, as dictionaries: most come again, and all of
    them as texts would be the most that a run holds; and how many records are not grounded."""
    told, ungrounded = ["text_unit_id", "name"], 0
    records = [pa.table({name: pa.array([], STRING).dictionary_encode() for name in told})]
    for batch in snapshots.tables.read_unordered(extractions, [*told, "kind", "grounded"]):
        ungrounded += len(batch) - (pc.sum(batch["grounded"]).as_py() or 0)
        entities = batch.filter(pc.equal(batch["kind"], "entity"))
        coded = {
            name: pc.fill_null(entities[name], "").cast(STRING).dictionary_encode() for name in told
        }
        records.append(pa.table(coded))
    return pa.concat_tables(records).unify_dictionaries(), ungrounded


def refuse_all_empty(
    inputs: Mapping[str, pd.DataFrame], outputs: Mapping[str, Snapshot], snapshots: SnapshotStore
) -> None:
    """Of a step that asks a model. Raises DataError when it has written extractions, and there is
    none of any text unit that was not rejected: an answer to each, and not a word of use in
    them."""
    if "text_units" not in inputs or "extractions" not in outputs or outputs["extractions"].rows:
        return
    units = inputs["text_units"]["id"]
    rejects = (
        snapshots.tables.read(outputs[REJECTS], ["row_id", "kind"])
        if REJECTS in outputs
        else REJECTS_SCHEMA.frame()
    )
    answered = (~units.isin(rejects.loc[rejects["kind"] == "row", "row_id"])).sum()
    if answered:
        raise DataError(
            f"extraction: not one entity in {answered:,} text units; look at the model and its"
            " context length with 'graphmill doctor'; the stores are left as they are, and the"
            " next run asks again"
        )


def _only_title(documents: pa.Table | None, units: pa.Table, named: pa.Table) -> int:
    """Text units whose entities are all named as the title, or a part of it as "Lamp" of "Lamp
    (film)", is. ``named``: text units with few entities, and the names of these."""
    if documents is None:
        return 0
    there = documents.to_pandas()
    found = there[TITLE_FROM].fillna("") if TITLE_FROM in there else pd.Series("", there.index)
    titles = there["title"].where(found.isin(NAMING), "").set_axis(there["id"])
    of_few = units.filter(pc.is_in(units["id"], value_set=named["text_unit_id"])).to_pandas()
    of_unit = of_few.set_index("id")["document_id"].map(titles).fillna("")
    keys = {title: match_key(title) for title in of_unit.unique()}
    few = named.to_pandas()
    is_title = [
        match_key(name) in keys.get(of_unit.get(unit), "")
        for unit, name in few.itertuples(index=False, name=None)
    ]
    return int(few.assign(is_title=is_title).groupby("text_unit_id")["is_title"].all().sum())


def _orphans(entities: Snapshot, relationships: Snapshot, snapshots: SnapshotStore) -> int:
    """Relationships with an end that no record describes."""
    stubs = pa.concat_arrays([pa.array([], STRING), *_stubs(entities, snapshots)])
    if not len(stubs):
        return 0
    number = 0
    for batch in snapshots.tables.read_unordered(
        relationships, ["source_entity_id", "target_entity_id"]
    ):
        ends = (pc.is_in(column, value_set=stubs) for column in batch.columns)
        number += pc.sum(pc.or_(*ends)).as_py() or 0
    return number


def _stubs(entities: Snapshot, snapshots: SnapshotStore) -> Iterator[pa.Array]:
    for batch in snapshots.tables.read_unordered(entities, ["id", "types", "descriptions"]):
        nothing = (
            pc.equal(pc.list_value_length(batch[name]), 0) for name in ("types", "descriptions")
        )
        yield batch["id"].filter(pc.and_(*nothing)).cast(STRING)
