"""note_ontology says which types a run has left out."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import EXTRACTIONS
from pipeline.engine.workflow import Step, Workflow
from pipeline.runs.ontology_notes import note_ontology
from pipeline.snapshots.store import SnapshotStore
from tests.verbs.graphs import entity, extractions, link

RECORDS = [
    *(entity(f"Ship {number}", "vessel") for number in range(3)),
    *(entity(f"Port {number}", "harbour") for number in range(2)),
    entity("Ada", "person"),
    entity("Otto", "person"),
    entity("Nameless", ""),
    link("Ada", "Otto"),
]


@pytest.mark.parametrize(
    ("params", "left_out"),
    [
        ({"entity_types": {"PERSON": []}}, "5 of 8 records of entities"),
        ({"entity_types": {"PERSON": [], "HARBOUR": []}}, None),
        ({"entity_types": {"PERSON": []}, "other_entities": "keep"}, None),
        ({"relationship_types": {"KNOWS": []}}, None),
    ],
)
def test_the_commonest_types_are_named_where_most_records_are_left_out(
    tmp_path: Path, params: dict[str, Any], left_out: str | None
):
    verb = REGISTRY.verbs["conform_extractions"]
    step = Step(
        verb.name,
        verb,
        verb.params.model_validate(params),
        {"extractions": "extractions"},
        {"conformed_extractions": "conformed_extractions"},
    )
    workflow = Workflow("one", (step,))
    store = SnapshotStore(tmp_path).tables
    given, _ = extractions({"d/0": RECORDS})
    table = store.write("extractions", EXTRACTIONS.encode(given, "extractions"))
    notes = list(note_ontology(workflow, {"extractions": table}, store))
    if left_out is None:
        assert not notes
    else:
        assert len(notes) == 1
        assert f"{left_out} are left out, for it has no type vessel (3), harbour (2);" in notes[0]
