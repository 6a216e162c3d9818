"""Choose how to import an index of GraphRAG, and name what is not taken."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from pipeline.documents.graphrag_cache import explain_closed_cache, has_replies, open_cache
from pipeline.engine.documents.row_deletions import IMPORTED_FILES
from pipeline.engine.workflow import OF_GRAPHRAG, Workflow
from pipeline.errors import UsageError, counted
from pipeline.runs.services import Services

OF_TABLES, OF_REPLIES = "graphrag", "graphrag_cache"
"""The workflows that an import runs: on the tables alone, and on the replies too."""
READING = OF_GRAPHRAG | {"extend_communities", "keep_reports"}
"""The verbs, and the ids of their steps, whose rejects are rows and files of the index."""


def choose_workflow(project: Services, folder: Path) -> tuple[str, list[str]]:
    """Return the workflow that takes most of an index, and notes about what stands against more.

    A project that has taken the tables alone goes on with them, as its stores were loaded so.
    Raises UsageError if the project has taken replies, and the index has none of them any more.
    Raises as ``open_cache`` and ``has_replies``.
    """
    has_taken_replies = bool(project.snapshots.manifest(OF_REPLIES).tables)
    obstacle = _find_obstacle(folder)
    if obstacle is not None:
        if has_taken_replies:
            raise UsageError(
                f"import graphrag: workflow '{OF_REPLIES}' has taken replies of a cache, and now"
                f" there are none: {obstacle or 'there is no cache'}; put the cache, its"
                f" settings.yaml and its prompt back, or take the tables alone by --workflow"
                f" {OF_TABLES}"
            )
        return OF_TABLES, [f"not taken: {obstacle}"] if obstacle else []
    if project.snapshots.manifest(OF_TABLES).tables and not has_taken_replies:
        return OF_TABLES, [
            f"not taken: replies in the cache, as workflow '{OF_TABLES}' has run before;"
            f" --workflow {OF_REPLIES} takes them, and files of the input folder can join"
        ]
    if not (project.root / "workflows" / f"{OF_REPLIES}.yaml").is_file():
        return OF_TABLES, [
            f"not taken: replies in the cache, as there is no workflows/{OF_REPLIES}.yaml; copy it"
            " from a new project"
        ]
    return OF_REPLIES, []


def _find_obstacle(folder: Path) -> str | None:
    """Return where replies are that cannot be taken, and why. Return "" if there is no reply, and
    None if replies can be taken."""
    cache = open_cache(folder)
    if cache is None:
        closed = explain_closed_cache(folder)
        return f"replies in {closed}" if closed else ""
    if has_replies(cache, folder):
        return None
    number = len(cache.list_names())
    if not number:
        return ""
    return (
        f"{counted(number, 'reply', 'replies')} in {cache.folder}, which are not about these"
        " passages: its prompt or types of entities have changed"
    )


def note_place(project: Services, folder: Path) -> list[str]:
    """Return a note if settings name another folder than this one, which later runs would read."""
    if (project.root / project.settings.graphrag.path).resolve() == folder:
        return []
    return [f"later runs read graphrag.path of settings.yaml: set it to {folder}"]


def note_unused(workflow: Workflow, sizes: Mapping[str, int]) -> list[str]:
    """Return a note for each imported table with rows that no step of the workflow reads.

    ``sizes`` has the number of rows of each table. A project that was made before these tables has
    a workflow file without the steps.
    """
    used: set[str] = set()
    for step in workflow.steps:
        used.update(step.inputs.values())
    notes: list[str] = []
    for table in IMPORTED_FILES:
        rows = sizes.get(table, 0)
        if rows == 0 or table in used:
            continue
        notes.append(
            f"not taken: {counted(rows, 'row')} of {table}, which no step of workflow"
            f" '{workflow.name}' reads; put the workflows/{workflow.name}.yaml of a new project in"
            " its place"
        )
    return notes


def note_left_out(rejects: pd.DataFrame) -> list[str]:
    """Return a note for each file that is not read, and for each table and reason of rejects."""
    found = rejects[rejects["step"].isin(READING)]
    is_file = found["reason"] == "not_imported"
    notes = [f"not taken: {message}" for message in found.loc[is_file, "message"]]
    # The id of a row of a table is the table and the number of the row, as in entities[3]. That of
    # a reply is its file. An unfinished document has its own name, which may look like either.
    table_of_row = found["row_id"].str.extract(r"^(cache/\w+(?=/)|\w+(?=\[))", expand=False)
    is_unfinished = found["reason"] == "unfinished"
    # Other rejects of the verbs that read an index are of documents, by name.
    others = found["step"].mask(found["step"].isin(OF_GRAPHRAG), "documents")
    table_of_row = table_of_row.mask(is_unfinished, "documents").fillna(others)
    rows = found.assign(table=table_of_row)[~is_file]
    for (table, reason), group in rows.groupby(["table", "reason"], sort=True):
        number = counted(len(group), "row")
        first_message = group["message"].iloc[0]
        notes.append(f"not taken of {table}: {number} ({reason}), as {first_message}")
    return notes
