"""Measure the extraction by the tables of a run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.schemas import FILE_NAME, NAMING, STRING, TITLE_FROM
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.engine.losses import CUT, ROW, UNENDED
from pipeline.engine.workflow import (
    FILE_EXTRACTIONS,
    FILE_TEXT_UNITS,
    REJECTS,
    Step,
    Workflow,
)
from pipeline.errors import DataError
from pipeline.models.base import ChatModel
from pipeline.snapshots.store import Snapshot, SnapshotStore
from pipeline.text.file_names import names_subject
from pipeline.text.ids import match_key

# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute

COLUMNS = {
    "documents": ["id", "title", TITLE_FROM],
    "text_units": ["id", "document_id"],
    "rejects": ["step", "row_id", "kind", "reason"],
}
EXTRACTIONS, TEXT_UNITS = "extractions", "text_units"
ADD_TABLE_RECORDS = "add_table_extractions"
"""The verb that adds the records of tables to those that were extracted."""
MOST_FORMS = 3
"""The most entities that a document's title may be: itself, without its brackets, and the text in
them."""
MANY_WITHOUT_NAMES = 0.5
"""The share of text units without any find from which on a run reports it."""
FAST = "extract_graph_fast"
TEXTS_LOOKED_AT, CHARACTERS_LOOKED_AT = 200, 2000
"""The number of text units, and of characters of each, that are examined to find a corpus's
scripts."""


def extracting_steps(workflow: Workflow) -> list[Step]:
    """Return the steps that write extractions."""
    extracting: list[Step] = []
    for step in workflow.steps:
        written = step.outputs.values()
        writes_extractions = EXTRACTIONS in written or FILE_EXTRACTIONS in written
        if writes_extractions and step.verb.name != ADD_TABLE_RECORDS:
            extracting.append(step)
    return extracting


def reading_steps(workflow: Workflow) -> list[Step]:
    """Return the steps that ask a chat model about each text unit."""
    reading: list[Step] = []
    for step in workflow.steps:
        verb = step.verb
        if verb.rowwise is None:
            continue
        reads_text_units = step.inputs.get(verb.rowwise) in (TEXT_UNITS, FILE_TEXT_UNITS)
        # A step whose role for a chat model is optional may have none.
        asks_model = verb.roles_of(ChatModel) and step.models
        if reads_text_units and asks_model:
            reading.append(step)
    return reading


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
    if FILE_TEXT_UNITS in tables and FILE_EXTRACTIONS in tables:
        # Nothing was extracted of the rows of tables, so they say nothing of the extraction.
        of_files = {TEXT_UNITS: tables[FILE_TEXT_UNITS], EXTRACTIONS: tables[FILE_EXTRACTIONS]}
        tables = {**tables, **of_files}
    read = {}
    for table, columns in COLUMNS.items():
        if table in tables:
            read[table] = _some_of(tables[table], columns, snapshots)
    records, ungrounded = _read_records(tables[EXTRACTIONS], snapshots)
    unit_of_record = records["text_unit_id"].combine_chunks()
    name_of_record = records["name"].combine_chunks()
    units_with_entities = set(unit_of_record.dictionary.to_pylist())
    units = len(read[TEXT_UNITS])
    rejects = read["rejects"].to_pandas()
    dropped = rejects["reason"].value_counts()
    extracting = {step.id for step in extracting_steps(workflow)}
    # A step that imports an index writes extractions too; its rejects are also of files.
    ids_of_units = set(read[TEXT_UNITS]["id"].to_pylist())
    rejected = _rows_of_kind(rejects, ROW, extracting) & ids_of_units
    # A unit that one step rejected may have records of another one.
    rejected -= units_with_entities
    names_of_poor_units = _names_of_poor_units(unit_of_record, name_of_record)
    only_title = _only_title(read.get("documents"), read[TEXT_UNITS], names_of_poor_units)
    counts: dict[str, float] = {
        "text_units": units,
        "rejected_units": len(rejected),
        "without_entities": units - len(units_with_entities) - len(rejected),
        "only_title": only_title,
        "entities_per_unit": round(len(records) / max(units, 1), 2),
        "ungrounded": int(ungrounded + dropped.get("ungrounded", 0)),
    }
    reading = {step.id for step in reading_steps(workflow)}
    if reading:
        counts["cut_units"] = len(_rows_of_kind(rejects, CUT, reading))
        counts["share_without_end_mark"] = _share_without_end_mark(rejects, units, reading)
    if "merged_entities" in tables:
        of_stubs = _orphans(tables["merged_entities"], tables["merged_relationships"], snapshots)
        counts["orphan_relationships"] = int(of_stubs + dropped.get("orphan", 0))
    is_fast = any(step.verb.name == FAST for step in extracting_steps(workflow))
    if is_fast and found_little(counts):
        share = _share_of_caseless_letters(tables[TEXT_UNITS], snapshots)
        counts["share_of_caseless_letters"] = share
    return counts


def _names_of_poor_units(unit: Any, name: Any) -> pa.Table:
    """Return the text units with at most MOST_FORMS names, one row for each name.

    ``unit`` and ``name``: the text unit and the name of each record, as dictionary arrays.
    """
    # A number for each pair of indices, so that equal pairs are found by one sort of integers.
    factor = len(name.dictionary) + 1
    unit_numbers = unit.indices.to_numpy().astype(np.int64)
    pairs = unit_numbers * factor + name.indices.to_numpy()
    units, names_of_units = np.divmod(np.unique(pairs), factor)
    names_per_unit = np.bincount(units)
    has_few = names_per_unit[units] <= MOST_FORMS
    columns = {
        "text_unit_id": unit.dictionary.take(units[has_few]),
        "name": name.dictionary.take(names_of_units[has_few]),
    }
    return pa.table(columns)


def found_little(health: Mapping[str, float]) -> bool:
    """Check that in many of the text units that were not rejected nothing was found but a title."""
    units = health.get("text_units", 0) - health.get("rejected_units", 0)
    empty = health.get("without_entities", 0) + health.get("only_title", 0)
    return units > 0 and empty >= MANY_WITHOUT_NAMES * units


def _rows_of_kind(rejects: pd.DataFrame, kind: str, steps: Collection[str]) -> set[str]:
    is_wanted = (rejects["kind"] == kind) & rejects["step"].isin(list(steps))
    return set(rejects.loc[is_wanted, "row_id"])


def _share_without_end_mark(rejects: pd.DataFrame, units: int, steps: Collection[str]) -> float:
    """Return the share of the text units with a usable reply that have one without an end mark,
    over all steps."""
    answered = unended = 0
    for step in steps:
        answered += units - len(_rows_of_kind(rejects, ROW, [step]))
        unended += len(_rows_of_kind(rejects, UNENDED, [step]))
    return round(unended / answered, 4) if answered else 0.0


def _share_of_caseless_letters(text_units: Snapshot, snapshots: SnapshotStore) -> float:
    """Return the share of letters without upper case among those of some texts."""
    letters = caseless = texts = 0
    for batch in snapshots.tables.read_unordered(text_units, ["text"]):
        for text in batch["text"].to_pylist()[: TEXTS_LOOKED_AT - texts]:
            of_text = [letter for letter in text[:CHARACTERS_LOOKED_AT] if letter.isalpha()]
            letters += len(of_text)
            caseless += sum(letter.lower() == letter.upper() for letter in of_text)
            texts += 1
        if texts >= TEXTS_LOOKED_AT:
            break
    return round(caseless / letters, 4) if letters else 0.0


def _some_of(snapshot: Snapshot, columns: Sequence[str], snapshots: SnapshotStore) -> pa.Table:
    """Return those of the columns that the table has, in no order; one of an earlier version may
    lack some."""
    schema = snapshots.tables.schema(snapshot)
    there = [column for column in columns if column in schema.names]
    batches = list(snapshots.tables.read_unordered(snapshot, there))
    if not batches:
        # A table cannot be made of no batches without its schema.
        return schema.empty_table().select(there)
    return pa.Table.from_batches(batches)


def _read_records(extractions: Snapshot, snapshots: SnapshotStore) -> tuple[pa.Table, int]:
    """Return text units and names of the records of entities, and the number of ungrounded records.

    The columns are dictionary-encoded: most names recur, and as plain texts they would be the
    largest allocation of a run.
    """
    columns = ["text_unit_id", "name"]
    no_texts = pa.array([], STRING).dictionary_encode()
    # An empty table first, so that there is one to be joined where there are no extractions.
    records = [pa.table(dict.fromkeys(columns, no_texts))]
    ungrounded = 0
    for batch in snapshots.tables.read_unordered(extractions, [*columns, "kind", "grounded"]):
        # The sum of no rows is null.
        grounded = pc.sum(batch["grounded"]).as_py() or 0
        ungrounded += len(batch) - grounded
        is_entity = pc.equal(batch["kind"], "entity")
        entities = batch.filter(is_entity)
        encoded: dict[str, pa.Array] = {}
        for column in columns:
            texts = pc.fill_null(entities[column], "").cast(STRING)
            encoded[column] = texts.dictionary_encode()
        records.append(pa.table(encoded))
    # Each batch has numbers of its own for its texts: after this a text has one number.
    joined = pa.concat_tables(records).unify_dictionaries()
    return joined, ungrounded


def refuse_all_empty(
    inputs: Mapping[str, pd.DataFrame], outputs: Mapping[str, Snapshot], snapshots: SnapshotStore
) -> None:
    """Raise DataError when a step wrote extractions and found nothing in any text unit that was not
    rejected.

    That is a model that answers every request without a word of use. ``inputs`` and ``outputs``:
    those of the step.
    """
    if "text_units" not in inputs or "extractions" not in outputs or outputs["extractions"].rows:
        return
    units = inputs["text_units"]["id"]
    rejects = REJECTS_SCHEMA.frame()
    if REJECTS in outputs:
        rejects = snapshots.tables.read(outputs[REJECTS], ["row_id", "kind"])
    rejected = rejects.loc[rejects["kind"] == ROW, "row_id"]
    answered = (~units.isin(rejected)).sum()
    if answered:
        raise DataError(
            f"extraction: not one entity in {answered:,} text units; look at the model and its"
            " context length with 'graphmill doctor'; the stores are left as they are, and the"
            " next run asks again"
        )


def _only_title(documents: pa.Table | None, units: pa.Table, named: pa.Table) -> int:
    """Count the text units whose entities are all named as their document's title, or as a part of
    it: "Lamp" of "Lamp (film)".

    ``named``: text units with few entities, and the names of these.
    """
    if documents is None:
        return 0
    rows = documents.to_pandas()
    unknown_origins = pd.Series("", rows.index)
    # A table of an earlier version does not say where a title is from.
    origins = rows[TITLE_FROM].fillna("") if TITLE_FROM in rows else unknown_origins
    is_of_file = origins == FILE_NAME
    names_a_subject = rows["title"].map(names_subject).astype(bool)
    may_name = origins.isin(NAMING) | (is_of_file & names_a_subject)
    title_of_document = rows["title"].where(may_name, "").set_axis(rows["id"])
    is_named = pc.is_in(units["id"], value_set=named["text_unit_id"])
    named_units = units.filter(is_named).to_pandas().set_index("id")
    title_of_unit = named_units["document_id"].map(title_of_document).fillna("")
    # Many units have one title, so the key of each is made once.
    key_of_title = {title: match_key(title) for title in title_of_unit.unique()}
    names = named.to_pandas()
    is_title: list[bool] = []
    for unit, name in names.itertuples(index=False, name=None):
        title_key = key_of_title.get(title_of_unit.get(unit), "")
        is_title.append(match_key(name) in title_key)
    names["is_title"] = is_title
    has_only_title = names.groupby("text_unit_id")["is_title"].all()
    return int(has_only_title.sum())


def _orphans(entities: Snapshot, relationships: Snapshot, snapshots: SnapshotStore) -> int:
    """Count the relationships with an end that no record describes."""
    # An empty array first, so that there is one to join where there are no entities.
    stubs = pa.concat_arrays([pa.array([], STRING), *_stubs(entities, snapshots)])
    if not len(stubs):
        return 0
    ends = ["source_entity_id", "target_entity_id"]
    number = 0
    for batch in snapshots.tables.read_unordered(relationships, ends):
        begins_at_stub = pc.is_in(batch["source_entity_id"], value_set=stubs)
        ends_at_stub = pc.is_in(batch["target_entity_id"], value_set=stubs)
        is_orphan = pc.or_(begins_at_stub, ends_at_stub)
        # The sum of no rows is null.
        number += pc.sum(is_orphan).as_py() or 0
    return number


def _stubs(entities: Snapshot, snapshots: SnapshotStore) -> Iterator[pa.Array]:
    """Yield the ids of entities that no record describes."""
    for batch in snapshots.tables.read_unordered(entities, ["id", "types", "descriptions"]):
        has_no_types = pc.equal(pc.list_value_length(batch["types"]), 0)
        has_no_descriptions = pc.equal(pc.list_value_length(batch["descriptions"]), 0)
        is_stub = pc.and_(has_no_types, has_no_descriptions)
        yield batch["id"].filter(is_stub).cast(STRING)
