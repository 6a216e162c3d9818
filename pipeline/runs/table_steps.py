"""The steps that read a project's own tables, put into a workflow.

They are in no workflow file: a project with a table beside tables/tables.yaml has the steps, in
each of its workflows that cuts documents into text units and merges extractions. So they need no
edit of a workflow, and a project without tables has neither the steps nor their cost.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pipeline.contract.registry import REGISTRY
from pipeline.corrections.own_documents import has_own_statements
from pipeline.documents.own_tables.columns import FILE, FOLDER, list_id_properties
from pipeline.engine.workflow import (
    DOCUMENTS,
    FILE_EXTRACTIONS,
    FILE_TEXT_UNITS,
    READ_TABLE,
    REJECTS,
    Step,
    Workflow,
    wired,
)
from pipeline.models.base import ChatModel
from pipeline.verbs.read_table import TableParams

ADD, LEAVE_OUT = "add_tables", "leave_out_tables"
EXTRACT, ADD_RECORDS, MERGE = "extract_table", "add_table_extractions", "merge_graphs"
TEXT_UNITS, EXTRACTIONS = "text_units", "extractions"
FILE_DOCUMENTS = "file_documents"
TABLE_DOCUMENTS, TABLE_EXTRACTIONS = "table_documents", "table_extractions"


def with_tables(workflow: Workflow, root: Path, corrections: Path) -> Workflow:
    """Return the workflow with the steps that read the project's own tables.

    Statements of the file ``corrections`` that no document states are read as rows. A project with
    neither stays as it is, and so does a workflow that names the verb read_table itself, or that
    does not merge extractions of text units.
    """
    names_it = any(step.verb.name == READ_TABLE for step in workflow.steps)
    merged = {step.inputs[EXTRACTIONS] for step in workflow.steps if step.verb.name == MERGE}
    written: set[str] = set()
    for step in workflow.steps:
        written.update(step.outputs.values())
    cuts_documents = DOCUMENTS in written and TEXT_UNITS in written and not _imports(workflow)
    fits = cuts_documents and len(merged) == 1
    has_rows = has_tables(root / FOLDER) or has_own_statements(corrections)
    if names_it or not fits or not has_rows:
        return workflow
    [extracted] = merged
    reading = _asking_of_texts(workflow, extracted)
    steps: list[Step] = []
    for step in workflow.steps:
        changed = _read_files_alone(step) if step.id in reading else step
        tables = set(step.outputs.values())
        if DOCUMENTS in tables:
            steps += _documents_with_rows(changed, root, corrections)
        elif TEXT_UNITS in tables:
            steps += _text_units_of_files(changed)
        elif extracted in tables:
            steps += _records_with_rows(changed, extracted)
        else:
            steps.append(changed)
    return replace(workflow, steps=wired(f"workflow '{workflow.name}'", steps))


def list_ids_of_tables(workflow: Workflow, root: Path) -> tuple[str, ...]:
    """Return the properties that hold ids of master data, if ``with_tables`` has added its steps.

    Without master data there are none.
    """
    reads_tables = any(TABLE_DOCUMENTS in step.outputs.values() for step in workflow.steps)
    return list_id_properties(root / FOLDER) if reads_tables else ()


def has_tables(folder: Path) -> bool:
    """Check that a folder has tables.yaml and another file, whether it can be read or not.

    A project may have a folder of this name for other files, so the folder alone says nothing.
    """
    if not (folder / FILE).is_file():
        return False
    others = (path for path in folder.rglob("[!.]*") if path != folder / FILE)
    return any(path.is_file() for path in others)


def _imports(workflow: Workflow) -> bool:
    """Check that one step writes both documents and text units, as that of another index does."""
    both = {DOCUMENTS, TEXT_UNITS}
    return any(both <= set(step.outputs.values()) for step in workflow.steps)


def _asking_of_texts(workflow: Workflow, extracted: str) -> Collection[str]:
    """Return the ids of the steps that are to see no row of a table.

    These are all that extract records of text units, and others that ask a chat model about each.
    """
    found: set[str] = set()
    needed_tables = {extracted}
    # Backwards, so that what a step reads is known before the steps that write it.
    for step in reversed(workflow.steps):
        leads_to_records = not needed_tables.isdisjoint(step.outputs.values())
        if leads_to_records:
            needed_tables |= set(step.inputs.values())
        extracts = leads_to_records and TEXT_UNITS in step.inputs.values()
        is_about_each_unit = step.inputs.get(step.verb.rowwise or "") == TEXT_UNITS
        asks_about_each = is_about_each_unit and step.verb.roles_of(ChatModel)
        if extracts or asks_about_each:
            found.add(step.id)
    return found


def _read_files_alone(step: Step) -> Step:
    """Return the step so that it reads the text units of files, and none of a table."""
    return replace(step, inputs=_renamed(step.inputs, TEXT_UNITS, FILE_TEXT_UNITS))


def _documents_with_rows(loader: Step, root: Path, corrections: Path) -> Iterator[Step]:
    """Yield the step that writes the documents, and those that add the rows of tables."""
    yield replace(loader, outputs=_renamed(loader.outputs, DOCUMENTS, FILE_DOCUMENTS))
    read = REGISTRY.verbs[READ_TABLE]
    params = TableParams(
        root=str(root), corrections=str(corrections), files=has_tables(root / FOLDER)
    )
    yield Step(READ_TABLE, read, params, {}, {DOCUMENTS: TABLE_DOCUMENTS, REJECTS: REJECTS})
    add = REGISTRY.verbs[ADD]
    inputs = {DOCUMENTS: FILE_DOCUMENTS, TABLE_DOCUMENTS: TABLE_DOCUMENTS}
    yield Step(ADD, add, add.params(), inputs, {DOCUMENTS: DOCUMENTS})


def _text_units_of_files(chunking: Step) -> Iterator[Step]:
    """Yield the step that cuts documents, and one that leaves out the text units of rows."""
    yield chunking
    verb = REGISTRY.verbs[LEAVE_OUT]
    inputs = {TEXT_UNITS: TEXT_UNITS, TABLE_DOCUMENTS: TABLE_DOCUMENTS}
    yield Step(LEAVE_OUT, verb, verb.params(), inputs, {FILE_TEXT_UNITS: FILE_TEXT_UNITS})


def _records_with_rows(extracting: Step, extracted: str) -> Iterator[Step]:
    """Yield the step that extracts records of texts, and those that add the records of rows."""
    yield replace(extracting, outputs=_renamed(extracting.outputs, extracted, FILE_EXTRACTIONS))
    verb = REGISTRY.verbs[EXTRACT]
    inputs = {TEXT_UNITS: TEXT_UNITS, DOCUMENTS: TABLE_DOCUMENTS}
    yield Step(EXTRACT, verb, verb.params(), inputs, {EXTRACTIONS: TABLE_EXTRACTIONS})
    add = REGISTRY.verbs[ADD_RECORDS]
    inputs = {EXTRACTIONS: FILE_EXTRACTIONS, TABLE_EXTRACTIONS: TABLE_EXTRACTIONS}
    yield Step(ADD_RECORDS, add, add.params(), inputs, {EXTRACTIONS: extracted})


def _renamed(tables: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    return {name: new if table == old else table for name, table in tables.items()}
