"""Say which corrections have no effect, and why one may not do what was meant."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipeline.corrections.decisions import (
    AddStatement,
    Decision,
    DeleteProperty,
    Keep,
    PairDecision,
    RetypeStatement,
    SetProperty,
    SetType,
    StatementDecision,
)
from pipeline.corrections.file import read_lines, write_decision
from pipeline.corrections.own_documents import is_own_document
from pipeline.engine.workflow import READ_TABLE, Workflow
from pipeline.errors import counted
from pipeline.ontology.read import FILE as ONTOLOGY_FILE
from pipeline.ontology.type_names import TypeNames
from pipeline.runs.correction_matches import corrections_file, find_step, read_matches
from pipeline.runs.correction_steps import CORRECT, MERGE, RESOLVE
from pipeline.runs.ontology_steps import ATTRIBUTES, CONFORM
from pipeline.runs.services import Services
from pipeline.verbs.conform_extractions import ConformParams
from pipeline.verbs.read_table import TableParams

SHOWN = 20
"""The corrections without effect that the notes of a run show; of others it gives the number."""


def note_corrections(project: Services, workflow: Workflow) -> Iterator[str]:
    """Yield the notes of a run about its corrections: those that changed nothing."""
    file = corrections_file(project, workflow)
    decisions = [line.decision for line in read_lines(file)]
    if not decisions:
        return
    about_records = [each for each in decisions if not isinstance(each, PairDecision | Keep)]
    pairs = [each for each in decisions if isinstance(each, PairDecision)]
    if about_records and find_step(workflow, CORRECT) is None:
        yield (
            f"{file.name}: {counted(len(about_records), 'correction')} without effect, for workflow"
            f" '{workflow.name}' has no step {MERGE}; name another workflow"
        )
    if pairs and find_step(workflow, RESOLVE) is None:
        yield (
            f"{file.name}: {counted(len(pairs), 'decision')} on pairs of names without effect, for"
            f" workflow '{workflow.name}' has no step {RESOLVE}; docs/resolution.md shows it"
        )
    about_properties = [
        each for each in decisions if isinstance(each, SetProperty | DeleteProperty)
    ]
    has_properties = any(ATTRIBUTES in step.outputs.values() for step in workflow.steps)
    if about_properties and not has_properties:
        yield (
            f"{file.name}: {counted(len(about_properties), 'correction')} of properties without"
            f" effect, for workflow '{workflow.name}' has no table {ATTRIBUTES}; declare properties"
            " of entities in ontology.yaml"
        )
    matches = read_matches(project, workflow)
    if matches is None:
        return
    unmatched = matches.known - set(matches.counts)
    without_effect = [each for each in about_records if each.id in unmatched]
    yield from _note_own_documents(workflow, filter(is_own_document, without_effect))
    useless = [each for each in without_effect if not is_own_document(each)]
    for decision in useless[:SHOWN]:
        line = write_decision(decision)
        yield f"{file.name}: correction {decision.id} matches nothing: {line}"
    not_shown = len(useless) - SHOWN
    if not_shown > 0:
        yield (
            f"{file.name}: {not_shown} more match nothing; 'graphmill corrections list' shows them"
        )


def _note_own_documents(workflow: Workflow, statements: Iterable[Decision]) -> Iterator[str]:
    """Yield why added statements that are documents of their own are not in the tables."""
    count = len(list(statements))
    if not count:
        return
    added = f"{counted(count, 'added statement')} without a document"
    if not reads_own_statements(workflow):
        yield f"{added}: workflow '{workflow.name}' reads no tables; name a document for each"
    else:
        yield f"{added}: 'graphmill run {workflow.name}' reads them, for each becomes a document"


def reads_own_statements(workflow: Workflow) -> bool:
    """Check that a step of the workflow makes documents of added statements."""
    reading = find_step(workflow, READ_TABLE)
    if reading is None or not isinstance(reading.params, TableParams):
        return False
    return bool(reading.params.corrections)


def note_effect(workflow: Workflow, decision: Decision, records: int | None) -> Iterator[str]:
    """Yield why a decision may not do what was meant."""
    if isinstance(decision, Keep):
        return
    is_pair = isinstance(decision, PairDecision)
    needed = RESOLVE if is_pair else MERGE
    if find_step(workflow, needed) is None:
        page = "docs/resolution.md" if is_pair else "docs/corrections.md"
        yield f"workflow '{workflow.name}' has no step {needed}, so it has no effect; see {page}"
    elif records == 0 and is_own_document(decision):
        yield "the next run makes a document of it, by which it is cited"
    elif records == 0 and isinstance(decision, StatementDecision):
        yield (
            "nothing in the last run is said so; names are those before any correction, and source"
            " and target those of the text: an ontology may have turned them"
        )
    elif records == 0:
        yield "nothing in the last run has these names; names are those before any correction"


def note_types(workflow: Workflow, decision: Decision) -> Iterator[str]:
    """Yield the types that a decision gives and that the ontology lacks.

    A person has the last word, so they hold. But a type may be misspelled.
    """
    conform = find_step(workflow, CONFORM)
    if conform is None:
        return
    params = conform.params
    assert isinstance(params, ConformParams)
    of_entities: list[str] = []
    of_relationships: list[str] = []
    if isinstance(decision, SetType):
        of_entities = [decision.to]
    elif isinstance(decision, RetypeStatement):
        of_relationships = [decision.to]
    elif isinstance(decision, AddStatement):
        of_entities = [decision.source_type, decision.target_type]
        of_relationships = [decision.type]
    yield from _note_unknown("entity", of_entities, params.entity_types)
    yield from _note_unknown("relationship", of_relationships, params.relationship_types)


def _note_unknown(
    what: str, given: Sequence[str], types: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    names = TypeNames.of(types.items())
    for type in given:
        if types and type and names.find(type) is None:
            known = ", ".join(sorted(types)[:SHOWN])
            yield (
                f"{ONTOLOGY_FILE} has no {what} type '{type}', but {known}; the correction gives it"
                " all the same"
            )
