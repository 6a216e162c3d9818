"""Name what an import of an index of GraphRAG does not take."""

from collections.abc import Mapping

import pandas as pd

from pipeline.engine.documents.row_deletions import IMPORTED_FILES
from pipeline.engine.workflow import Workflow
from pipeline.errors import counted

READING = frozenset({"read_graphrag", "extend_communities", "keep_reports"})
"""The verbs, and the ids of their steps, whose rejects are rows and files of the index."""


def note_unused(workflow: Workflow, sizes: Mapping[str, int]) -> list[str]:
    """Return a note for each imported table with rows that no step of the workflow reads.

    ``sizes`` has the number of rows of each table. A project that was made before these tables has
    a workflow file without the steps.
    """
    used = {table for step in workflow.steps for table in step.inputs.values()}
    return [
        f"not taken: {counted(sizes[table], 'row')} of {table}, which no step of workflow"
        f" '{workflow.name}' reads; put the workflows/graphrag.yaml of a new project in its place"
        for table in IMPORTED_FILES
        if sizes.get(table) and table not in used
    ]


def note_left_out(rejects: pd.DataFrame) -> list[str]:
    """Return a note for each file that is not read, and for each table and reason of rejects."""
    found = rejects[rejects["step"].isin(READING)]
    is_file = found["reason"] == "not_imported"
    notes = [f"not taken: {message}" for message in found["message"][is_file]]
    # The id of a row of a table is the table and the number of the row, as in entities[3].
    tables = found["row_id"].str.extract(r"^(\w+)\[", expand=False)
    rows = found.assign(table=tables.fillna(found["step"]))[~is_file]
    for (table, reason), group in rows.groupby(["table", "reason"], sort=True):
        first = group["message"].iloc[0]
        notes.append(f"not taken of {table}: {counted(len(group), 'row')} ({reason}), as {first}")
    return notes
