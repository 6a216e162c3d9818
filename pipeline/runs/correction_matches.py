"""Read what the corrections of a project changed in the last run."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.corrections.file import FILE
from pipeline.engine.workflow import Step, Workflow
from pipeline.runs.correction_steps import CORRECT, MATCHES, READ
from pipeline.runs.services import Services
from pipeline.verbs.read_corrections import CorrectionsParams


def find_step(workflow: Workflow, verb: str) -> Step | None:
    """Return the first step of the workflow with this verb."""
    return next((step for step in workflow.steps if step.verb.name == verb), None)


def corrections_file(project: Services, workflow: Workflow) -> Path:
    """Return the file that the workflow's step read_corrections reads."""
    step = find_step(workflow, READ)
    if step is not None and isinstance(step.params, CorrectionsParams):
        return step.params.file
    return project.root / FILE


@dataclass(frozen=True)
class Matches:
    """The corrections that the last run knew, and how many records and text units each changed.

    ``rows``: the table CORRECTIONS of the last run; ``known``: its ids.
    """

    rows: pd.DataFrame
    known: frozenset[str]
    counts: dict[str, tuple[int, int]]


def read_matches(project: Services, workflow: Workflow) -> Matches | None:
    """Return what the corrections of the last run changed, or None if it has no such tables."""
    reading, correcting = find_step(workflow, READ), find_step(workflow, CORRECT)
    if reading is None or correcting is None:
        return None
    tables = project.snapshots.manifest(workflow.name).tables
    known = tables.get(reading.outputs["corrections"])
    changed = tables.get(correcting.outputs[MATCHES])
    if known is None or changed is None:
        return None
    rows = project.snapshots.tables.read(changed)
    corrections = project.snapshots.tables.read(known)
    return Matches(corrections, frozenset(corrections["id"]), count_matches(rows))


def count_matches(matches: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return the numbers of records and of text units that each correction changed."""
    counts: dict[str, tuple[int, int]] = {}
    for id, rows in matches.groupby("correction_id"):
        counts[str(id)] = (int(rows["records"].sum()), len(rows))
    return counts
