"""The steps by which files of the input folder join an imported index.

They are in no workflow file: a project with files in its input folder has the steps, in each of its
workflows that begins with read_lightrag or read_graphrag_cache. The files are cut and read by the
steps of another workflow, by default ``index``. So there is one place that says how a file becomes
records, and a project without files needs no chat model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pipeline.contract.registry import REGISTRY, Params
from pipeline.engine.workflow import (
    DOCUMENTS,
    IMPORTED_DOCUMENTS,
    OWN_TEXT_UNITS,
    READ_REPLIES,
    REJECTS,
    Step,
    Workflow,
    wired,
)
from pipeline.errors import SettingsError

TEXT_UNITS, EXTRACTIONS, MERGE = "text_units", "extractions", "merge_graphs"
JOINED = (DOCUMENTS, TEXT_UNITS, EXTRACTIONS)
"""The tables of an index that those of files join."""
OWN_DOCUMENTS, KEPT_DOCUMENTS = "own_documents", "kept_documents"
IMPORTED_UNITS, IMPORTED_EXTRACTIONS = "imported_text_units", "imported_extractions"
PREFIX = "input_"
"""The beginning of the names of tables that the steps of the other workflow write."""
CUT_UNITS = f"{PREFIX}{TEXT_UNITS}"
ADD_DOCUMENTS, SPLIT = "add_imported_documents", "split_imported_documents"
ADD_UNITS, LEAVE_OUT = "add_imported_units", "leave_out_imported_units"
ADD_EXTRACTIONS = "add_imported_extractions"
NO_TABLES: Mapping[str, str] = MappingProxyType({})


def has_files(folder: Path) -> bool:
    """Check that a folder has a file that is not hidden."""
    return any(path.is_file() for path in folder.rglob("[!.]*"))


def source_with_replies(workflow: Workflow) -> str:
    """Return the section of settings about the index with replies that the workflow reads.

    Return "" if the documents of the workflow are not those of such an index alone.
    """
    sources = [step.verb for step in workflow.steps if DOCUMENTS in step.outputs.values()]
    if len(sources) != 1:
        return ""
    source = sources[0]
    if source.name not in READ_REPLIES:
        return ""
    return source.settings or ""


def with_input_files(workflow: Workflow, reading: Workflow) -> Workflow:
    """Return a workflow that reads an index with replies, with the steps for files of the input
    folder.

    ``reading`` is the workflow whose steps load, cut and read the files. Raises SettingsError if it
    has no step that merges the extractions of text units.
    """
    importing = next(step for step in workflow.steps if step.verb.name in READ_REPLIES)
    others = [step for step in workflow.steps if step != importing]
    renamed = dict(importing.outputs)
    for name in JOINED:
        # The tables of this name will be those of the index and of the files together.
        renamed[name] = f"imported_{name}"
    ids = {step.id for step in workflow.steps}
    steps = [
        replace(importing, outputs=renamed),
        *_steps_of_files(reading, ids, importing),
        *others,
    ]
    return replace(workflow, steps=wired(f"workflow '{workflow.name}'", steps))


def _steps_of_files(reading: Workflow, ids: set[str], importing: Step) -> list[Step]:
    """Return the steps of the other workflow, connected with those that add the index.

    ``ids`` are taken by other steps. ``importing`` is the step that reads the index.
    """
    where = f"{importing.verb.settings}.files: workflow '{reading.name}'"
    merging = next((step for step in reading.steps if step.verb.name == MERGE), None)
    cutting = next((step for step in reading.steps if TEXT_UNITS in step.outputs.values()), None)
    if merging is None or cutting is None or DOCUMENTS not in cutting.inputs:
        raise SettingsError(
            f"{where}: it does not cut documents into text units and merge what they say; name"
            " another workflow, such as index"
        )
    records = merging.inputs[EXTRACTIONS]
    needed = _steps_before(reading.steps, records)
    place = needed.index(cutting)
    loading, extracting = needed[:place], needed[place + 1 :]
    loaded = cutting.inputs[DOCUMENTS]

    def connect(step: Step, tables: Mapping[str, str]) -> Step:
        """Return the step over ``tables``, and else over those with the prefix."""
        id = f"{PREFIX}{step.id}" if step.id in ids else step.id
        inputs = _with_prefix(step.inputs, besides=tables)
        return replace(step, id=id, inputs=inputs, outputs=_with_prefix(step.outputs))

    # Steps that filter documents may have written the table under another name.
    found = {loaded: DOCUMENTS, DOCUMENTS: DOCUMENTS, TEXT_UNITS: OWN_TEXT_UNITS}
    sources = {DOCUMENTS: f"{PREFIX}{loaded}", IMPORTED_DOCUMENTS: IMPORTED_DOCUMENTS}
    add_documents = _step(ADD_DOCUMENTS, sources, (DOCUMENTS,))
    both = _same(DOCUMENTS, IMPORTED_DOCUMENTS)
    split = _step(SPLIT, both, (OWN_DOCUMENTS, KEPT_DOCUMENTS))
    cut = connect(cutting, {loaded: OWN_DOCUMENTS})
    units = {TEXT_UNITS: CUT_UNITS, **_same(IMPORTED_UNITS, KEPT_DOCUMENTS)}
    add_units = _step(ADD_UNITS, units, (TEXT_UNITS,))
    leave_out = _step(LEAVE_OUT, _same(TEXT_UNITS, KEPT_DOCUMENTS), (OWN_TEXT_UNITS,))
    own_records = {EXTRACTIONS: f"{PREFIX}{records}"}
    others = _same(IMPORTED_EXTRACTIONS, TEXT_UNITS, OWN_TEXT_UNITS)
    add_records = _step(ADD_EXTRACTIONS, {**own_records, **others}, (EXTRACTIONS,))
    add_records = replace(add_records, outputs={EXTRACTIONS: importing.outputs[EXTRACTIONS]})
    steps = [connect(step, {}) for step in loading]
    steps += [add_documents, split, cut, add_units, leave_out]
    steps += [connect(step, found) for step in extracting]
    return [*steps, add_records]


def _steps_before(steps: Sequence[Step], table: str) -> list[Step]:
    """Return the steps that make a table, in their order."""
    needed_tables = {table}
    found: list[Step] = []
    # Backwards, so that what a step reads is known before the steps that write it.
    for step in reversed(steps):
        if not needed_tables.isdisjoint(step.outputs.values()):
            found.insert(0, step)
            needed_tables |= set(step.inputs.values())
    return found


def _with_prefix(
    tables: Mapping[str, str], besides: Mapping[str, str] = NO_TABLES
) -> dict[str, str]:
    """Return tables of a step with the prefix before their names in the workflow.

    Tables of ``besides`` get the name there. Rejects have the same name in every workflow.
    """
    renamed: dict[str, str] = {}
    for name, table in tables.items():
        if name == REJECTS:
            renamed[name] = table
        else:
            renamed[name] = besides.get(table, f"{PREFIX}{table}")
    return renamed


def _same(*tables: str) -> dict[str, str]:
    """Return tables that a verb and the workflow call by the same names."""
    return {table: table for table in tables}


def _step(name: str, inputs: Mapping[str, str], outputs: Sequence[str]) -> Step:
    """Return the step of a verb without params, with the verb's name as its id."""
    verb = REGISTRY.verbs[name]
    return Step(name, verb, Params(), inputs, _same(*outputs))
