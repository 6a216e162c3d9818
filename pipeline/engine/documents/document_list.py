"""The documents as they are now, and what a workflow's tables have of each: since when, and how
many rows."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute

from pipeline.engine.bill.counting_models import Tally
from pipeline.engine.documents.deletions import (
    DOCUMENTS,
    document_changes,
    find_documents_before,
    identities,
    not_converted,
    not_described,
)
from pipeline.engine.documents.kept_documents import named_sources, with_kept
from pipeline.engine.losses import RECOVERED, UNENDED, UNREFRESHED
from pipeline.engine.plan import examine_source
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import LOADER, REJECTS, Step, Workflow
from pipeline.errors import UsageError
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore

LISTED = ["id", "source", "title", "content_hash"]


@dataclass(frozen=True)
class CurrentDocuments:
    """The documents that a run would load now.

    ``sources``: those of all documents that are loaded, before any filter. ``unread``: names of
    sources that could not be read, or not whole (kept_documents.py). ``to_convert``: files whose
    present content was never converted, or described if it is a picture.
    """

    documents: pd.DataFrame
    sources: frozenset[str]
    unread: frozenset[str]
    to_convert: frozenset[str]


def present_documents(
    workflow: Workflow, resources: Resources, snapshots: SnapshotStore, gone: str | None = None
) -> CurrentDocuments | None:
    """Return the documents after the steps that load and filter them; None for a workflow without
    such steps.

    Documents that a run would keep are included, except those of the source ``gone``. No file is
    converted. Raises what these steps raise.
    """
    previous = snapshots.manifest(workflow.name)
    tables: dict[str, pd.DataFrame] = {}
    sources: set[str] = set()
    unread: set[str] = set()
    to_convert: set[str] = set()
    for loads in takewhile(_loads, workflow.steps):
        step = examine_source(loads, previous.steps, snapshots)
        inputs = step.inputs_from(tables.__getitem__)
        frames = resources.call(step, inputs, Tally(resources.tokenizer).rehearsed)
        to_convert |= not_converted(frames)
        if not step.inputs:
            to_convert |= not_described(frames)
        frames = with_kept(step, frames, previous, snapshots, gone)
        if REJECTS in frames and not step.inputs:
            unread |= named_sources(frames[REJECTS])
        sources |= set(frames[DOCUMENTS]["source"])
        tables |= {table: frames[name] for name, table in step.outputs.items()}
    if DOCUMENTS not in tables:
        return None
    return CurrentDocuments(
        tables[DOCUMENTS], frozenset(sources), frozenset(unread), frozenset(to_convert)
    )


def changed_documents(
    workflow: Workflow, resources: Resources, snapshots: SnapshotStore
) -> pd.DataFrame:
    """Return a row for each document that a run would find new, edited or gone.

    Columns: ``change``, ``source``, ``title`` ("" for a new file that is not converted yet). Raises
    UsageError for a workflow that loads no documents, and what reading them raises.
    """
    present = present_documents(workflow, resources, snapshots)
    if present is None:
        raise UsageError(f"workflow '{workflow.name}': it loads no documents; name another")
    now = present.documents
    before = find_documents_before(workflow, snapshots)
    then = now.head(0)[LISTED]
    if before is not None:
        then = snapshots.tables.read_arrow(before, LISTED).to_pandas()
    changes = document_changes(then, now, present.to_convert)
    # The title of now counts, then that of before.
    titles = {**dict.fromkeys(present.to_convert, ""), **_titles(then), **_titles(now)}
    sources_by_change = {"new": changes.new, "edited": changes.edited, "gone": changes.gone}
    rows: list[tuple[str, str, str]] = []
    for change, sources in sources_by_change.items():
        rows += [(change, source, titles[source]) for source in sources]
    return pd.DataFrame(rows, columns=["change", "source", "title"])


def _titles(documents: pd.DataFrame) -> dict[str, str]:
    return dict(zip(documents["source"], documents["title"], strict=True))


def _loads(step: Step) -> bool:
    """Check that the step loads or filters documents without asking a model about their texts."""
    if DOCUMENTS not in step.outputs:
        return False
    if step.verb.name == LOADER:
        # The one step that loads files asks about pictures at most.
        return True
    return not step.models and not step.prompts


# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute
TEXT_UNITS = "text_units"
GIVEN = ("entities", "relationships")
NOTHING_LEFT_OUT = (RECOVERED, UNREFRESHED, UNENDED)
"""Kinds of rejects whose rows are in the tables whole."""
OF_REJECTS = ["step", "row_id", "kind", "reason", "message"]
"""The columns that are read of rejects."""


def list_documents(manifest: Manifest, snapshots: SnapshotStore) -> pd.DataFrame:
    """Return a row for each document, sorted by source.

    Columns: ``id``, ``source``, ``title``, ``since`` (the earliest kept run since which it has not
    changed), ``text_units``, ``entities``, ``relationships`` (how many it contributed to),
    ``left_out`` (step, reason and message of each reject). Sources without a document are included,
    with "" as ``id`` and ``since``.

    Raises DataError when a snapshot is gone or damaged.
    """
    there = snapshots.tables.read_arrow(manifest.tables[DOCUMENTS], LISTED).to_pandas()
    units = _read_columns(manifest, snapshots, TEXT_UNITS, ["id", "document_id"])
    document_of_unit = pd.Series(units["document_id"].to_numpy(), index=units["id"])
    since = _unchanged_since(there, manifest.workflow, snapshots)
    listed = there[["id", "source", "title"]].assign(since=since)
    listed[TEXT_UNITS] = _count_in(listed["id"], units["document_id"])
    for table in GIVEN:
        documents = _documents_of(manifest, snapshots, table, document_of_unit)
        listed[table] = _count_in(listed["id"], documents)
    rejects = _read_columns(manifest, snapshots, REJECTS, OF_REJECTS)
    rejects = rejects[~rejects["kind"].isin(NOTHING_LEFT_OUT)]
    left_out, elsewhere = _split_rejects(rejects, listed, document_of_unit, _loaders(manifest))
    cells = [left_out.get(id, []) for id in listed["id"]]
    listed["left_out"] = pd.Series(cells, index=listed.index, dtype=object)
    if elsewhere:
        # No empty frame is joined: it would change the types of the columns.
        without_document = _rows_without_document(elsewhere, list(listed.columns))
        parts = [listed, without_document] if len(listed) else [without_document]
        listed = pd.concat(parts, ignore_index=True)
    return listed.sort_values("source", kind="stable", ignore_index=True)


def _rows_without_document(
    rejects_by_source: Mapping[str, list[Mapping[str, str]]], columns: list[str]
) -> pd.DataFrame:
    """Return a row of the list for each source without a document, with its rejects."""
    nothing = {"id": "", "title": "", "since": "", TEXT_UNITS: 0, **dict.fromkeys(GIVEN, 0)}
    rows: list[dict[str, Any]] = []
    for source, rejects in rejects_by_source.items():
        rows.append({**nothing, "source": source, "left_out": rejects})
    return pd.DataFrame(rows, columns=columns)


def left_out_of(
    rows: Collection[str], manifest: Manifest, snapshots: SnapshotStore
) -> pd.DataFrame:
    """Return the rejects of these rows, which may be sources, documents or text units."""
    rejects = _read_columns(manifest, snapshots, REJECTS, OF_REJECTS)
    is_wanted = rejects["row_id"].isin(list(rows))
    is_left_out = rejects["kind"] != UNENDED
    return rejects[is_wanted & is_left_out]


def _read_columns(
    manifest: Manifest, snapshots: SnapshotStore, table: str, columns: list[str]
) -> pd.DataFrame:
    """Return some columns of a table; no rows if the workflow has no such table."""
    if table not in manifest.tables:
        return pd.DataFrame(columns=columns, dtype=str)
    return snapshots.tables.read_arrow(manifest.tables[table], columns).to_pandas()


def _count_in(ids: pd.Series, of: pd.Series) -> np.ndarray:
    """Return how often each id is among ``of``."""
    return ids.map(of.value_counts()).fillna(0).astype("int64").to_numpy()


def _documents_of(
    manifest: Manifest, snapshots: SnapshotStore, table: str, document_of: pd.Series
) -> pd.Series:
    """Return the documents that each row of a table comes from, each once for each row."""
    if table not in manifest.tables:
        return pd.Series([], dtype=object)
    column = "text_unit_ids"
    given = snapshots.tables.read_arrow(manifest.tables[table], [column])
    lists = given[column].combine_chunks()
    rows = pc.list_parent_indices(lists).to_numpy()
    units = pc.list_flatten(lists).to_pandas()
    pairs = pd.DataFrame({"row": rows, "document": units.map(document_of)})
    each_once = pairs.dropna().drop_duplicates()
    return each_once["document"]


def _unchanged_since(there: pd.DataFrame, workflow: str, snapshots: SnapshotStore) -> pd.Series:
    """Return, for each document, the earliest kept run since which it has not changed."""
    since = pd.Series("", index=there.index, dtype=object)
    is_unchanged = pd.Series(True, index=there.index)
    later: Snapshot | None = None
    for run_id, snapshot in _earlier(workflow, snapshots):
        # Runs without a change have the same table, which is read once.
        if snapshot != later:
            then = identities(snapshots, snapshot).set_index("id")["content_hash"]
            is_unchanged &= there["id"].map(then) == there["content_hash"]
        if not is_unchanged.any():
            break
        since[is_unchanged] = run_id
        later = snapshot
    return since


def _earlier(workflow: str, snapshots: SnapshotStore) -> Iterator[tuple[str, Snapshot]]:
    """Yield the run id and the documents of each kept run, the newest first."""
    for run_id in reversed(snapshots.history(workflow)):
        kept = snapshots.kept_manifests(workflow, [run_id])
        snapshot = kept[0].tables.get(DOCUMENTS) if kept else None
        if snapshot is None or not snapshots.tables.exists(snapshot):
            return
        yield run_id, snapshot


def _loaders(manifest: Manifest) -> set[str]:
    """Return the ids of the steps that read files: a file that they reject may have become no
    document."""
    return {id for id, record in manifest.steps.items() if DOCUMENTS in record.outputs}


def _split_rejects(
    rejects: pd.DataFrame, listed: pd.DataFrame, document_of: pd.Series, loaders: set[str]
) -> tuple[dict[str, list[Mapping[str, str]]], dict[str, list[Mapping[str, str]]]]:
    """Return the rejects by document id, and by source for sources without a document.

    Rejects of rows that belong to no document, such as an entity, are in neither.
    """
    # The row of a reject is a source, a document or a text unit.
    document_of_row = dict(zip(listed["source"], listed["id"], strict=True))
    document_of_row |= {id: id for id in listed["id"]}
    document_of_row |= document_of.to_dict()
    by_document: dict[str, list[Mapping[str, str]]] = {}
    by_source: dict[str, list[Mapping[str, str]]] = {}
    columns = rejects[["step", "row_id", "reason", "message"]]
    for step, row_id, reason, message in columns.itertuples(index=False):
        reject = {"step": step, "reason": reason, "message": message}
        if row_id in document_of_row:
            document = document_of_row[row_id]
            by_document.setdefault(document, []).append(reject)
        elif step in loaders:
            by_source.setdefault(row_id, []).append(reject)
    return by_document, by_source
