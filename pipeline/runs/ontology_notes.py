"""Say which types a run has left out, where ontology.yaml leaves out most of what was extracted.

An ontology that lacks a type loses its entities without an error, for that is its purpose. A list
of the commonest types tells a forgotten type from one that was meant to go.
"""

from collections.abc import Iterator, Mapping

import pandas as pd

from pipeline.engine.workflow import Step, Workflow
from pipeline.ontology.read import FILE
from pipeline.ontology.schema import REJECT
from pipeline.ontology.type_names import TypeNames
from pipeline.runs.correction_matches import find_step
from pipeline.runs.ontology_steps import CHECK, CONFORM, RECORDS
from pipeline.snapshots.store import Snapshot
from pipeline.snapshots.tables import TableStore
from pipeline.verbs.conform_extractions import NO_TYPE, ConformParams

LARGE_SHARE = 0.5
"""A note is given where more than this share of records or entities is left out."""
SHOWN = 5
"""Types that a note names."""


def note_ontology(
    workflow: Workflow, tables: Mapping[str, Snapshot], store: TableStore
) -> Iterator[str]:
    """Yield notes if the ontology has left out most records of entities, or most entities.

    ``tables`` are those of the run. Without steps of an ontology, there is no note.
    """
    conform, check = find_step(workflow, CONFORM), find_step(workflow, CHECK)
    if conform is not None:
        yield from _note_types(workflow.name, conform, tables, store)
    if check is not None:
        yield from _note_untyped(workflow.name, check, tables)


def _note_types(
    workflow: str, conform: Step, tables: Mapping[str, Snapshot], store: TableStore
) -> Iterator[str]:
    """Yield a note if most records of entities have a type outside the ontology."""
    params = conform.params
    assert isinstance(params, ConformParams)
    given = tables.get(conform.inputs[RECORDS])
    if given is None or not params.entity_types or params.other_entities != REJECT:
        return
    conformed = tables.get(conform.outputs["conformed_extractions"])
    if conformed is not None and conformed.rows == given.rows:
        # No record was left out, so most runs read no table for this.
        return
    records = store.read(given, ["kind", "type"])
    types = records.loc[records["kind"] == "entity", "type"].value_counts()
    outside = types[_are_outside(types.index, params)]
    left_out, all_records = outside.sum(), types.sum()
    if left_out <= all_records * LARGE_SHARE:
        return
    # ``value_counts`` has the commonest types first.
    shown = ", ".join(f"{type} ({count:,})" for type, count in outside[:SHOWN].items())
    more = f" and {len(outside) - SHOWN:,} more" if len(outside) > SHOWN else ""
    yield (
        f"{FILE}: {left_out:,} of {all_records:,} records of entities are left out, for it has"
        f" no type {shown}{more}; add types or synonyms, or set otherwise: keep, and run again. No"
        f" text is read again; 'graphmill plan {workflow}' says what summaries and vectors cost"
    )


def _note_untyped(workflow: str, check: Step, tables: Mapping[str, Snapshot]) -> Iterator[str]:
    """Yield a note if most merged entities are left out because they have no type."""
    before = tables.get(check.inputs["unchecked_entities"])
    after = tables.get(check.outputs["merged_entities"])
    if before is None or after is None:
        return
    gone = before.rows - after.rows
    if gone > before.rows * LARGE_SHARE:
        yield (
            f"{FILE}: {gone:,} of {before.rows:,} entities are left out, for no text gives them a"
            " type; set otherwise.entity_types: other, and run again. No text is read again;"
            f" 'graphmill plan {workflow}' says what summaries and vectors cost"
        )


def _are_outside(types: pd.Index, params: ConformParams) -> list[bool]:
    """Return for each type whether the ontology rejects its records."""
    names = TypeNames.of(params.entity_types.items())
    return [type.strip().lower() not in NO_TYPE and names.find(type) is None for type in types]
