"""What a workflow's tables have of each document: since when, what came of it, and what was left out."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute

from pipeline.engine.deletions import DOCUMENTS, identities
from pipeline.engine.workflow import REJECTS
from pipeline.snapshots import Manifest, Snapshot, SnapshotStore

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them
TEXT_UNITS = "text_units"
GIVEN = ("entities", "relationships")
RECOVERED = "recovered"


def list_documents(manifest: Manifest, snapshots: SnapshotStore) -> pd.DataFrame:
    """A row a document, by source: ``id``, ``source``, ``title``, ``since`` (the earliest kept run from which on it is
    as it is now), ``text_units``, ``entities``, ``relationships`` (how many it has a part in) and ``left_out`` (step,
    reason and message of each reject). Sources of which no document was made follow, their ``id`` and ``since`` "".

    Raises DataError when a snapshot is gone or damaged.
    """
    there = snapshots.table(manifest.tables[DOCUMENTS], ["id", "source", "title", "content_hash"]).to_pandas()
    units = _read(manifest, snapshots, TEXT_UNITS, ["id", "document_id"])
    document_of = pd.Series(units["document_id"].to_numpy(), index=units["id"])
    listed = there[["id", "source", "title"]].assign(since=_since(there, manifest.workflow, snapshots))
    listed[TEXT_UNITS] = _counted(listed["id"], units["document_id"])
    for table in GIVEN:
        listed[table] = _counted(listed["id"], _documents_of(manifest, snapshots, table, document_of))
    rejects = _read(manifest, snapshots, REJECTS, ["step", "row_id", "kind", "reason", "message"])
    left_out, elsewhere = _left_out(rejects[rejects["kind"] != RECOVERED], listed, document_of, _loaders(manifest))
    listed["left_out"] = pd.Series([left_out.get(id, []) for id in listed["id"]], index=listed.index, dtype=object)
    nothing = {"id": "", "title": "", "since": "", TEXT_UNITS: 0, **dict.fromkeys(GIVEN, 0)}
    rows = [{**nothing, "source": source, "left_out": told} for source, told in elsewhere.items()]
    without = pd.DataFrame(rows, columns=listed.columns)
    parts = [part for part in (listed, without) if len(part)] or [listed]
    return pd.concat(parts, ignore_index=True).sort_values("source", kind="stable", ignore_index=True)


def _read(manifest: Manifest, snapshots: SnapshotStore, table: str, columns: list[str]) -> pd.DataFrame:
    """Some columns of a table; no rows where the workflow has none such."""
    if table not in manifest.tables:
        return pd.DataFrame(columns=columns, dtype=str)
    return snapshots.table(manifest.tables[table], columns).to_pandas()


def _counted(ids: pd.Series, of: pd.Series) -> np.ndarray:
    """How often each id is among ``of``."""
    return ids.map(of.value_counts()).fillna(0).astype("int64").to_numpy()


def _documents_of(manifest: Manifest, snapshots: SnapshotStore, table: str, document_of: pd.Series) -> pd.Series:
    """The documents that each row of a table comes of, each once a row."""
    if table not in manifest.tables:
        return pd.Series([], dtype=object)
    lists = snapshots.table(manifest.tables[table], ["text_unit_ids"])["text_unit_ids"].combine_chunks()
    rows, units = pc.list_parent_indices(lists).to_numpy(), pc.list_flatten(lists).to_pandas()
    pairs = pd.DataFrame({"row": rows, "document": units.map(document_of)})
    return pairs.dropna().drop_duplicates()["document"]


def _since(there: pd.DataFrame, workflow: str, snapshots: SnapshotStore) -> pd.Series:
    """Goes back through the nights that are kept, for as long as a document is there as it is now."""
    since = pd.Series("", index=there.index, dtype=object)
    alive = pd.Series(True, index=there.index)
    last: Snapshot | None = None
    for run_id, snapshot in _earlier(workflow, snapshots):
        if snapshot != last:
            then = identities(snapshots, snapshot).set_index("id")["content_hash"]
            alive &= there["id"].map(then) == there["content_hash"]
        if not alive.any():
            break
        since[alive], last = run_id, snapshot
    return since


def _earlier(workflow: str, snapshots: SnapshotStore) -> Iterator[tuple[str, Snapshot]]:
    """The documents of each kept night, the newest first."""
    for run_id in reversed(snapshots.history(workflow)):
        snapshot = next((manifest.tables.get(DOCUMENTS) for manifest in snapshots.kept(workflow, [run_id])), None)
        if snapshot is None or not snapshots.exists(snapshot):
            return
        yield run_id, snapshot


def _loaders(manifest: Manifest) -> set[str]:
    """The steps that read files: what they reject may have become no document."""
    return {id for id, record in manifest.steps.items() if DOCUMENTS in record.outputs}


def _left_out(
    rejects: pd.DataFrame, listed: pd.DataFrame, document_of: pd.Series, loaders: set[str]
) -> tuple[dict[str, list[Mapping[str, str]]], dict[str, list[Mapping[str, str]]]]:
    """Document id -> what was left out of it; source -> the same, where no document came of it. A reject of a row that
    is of no document, as an entity's, is in neither."""
    ids = dict(zip(listed["source"], listed["id"], strict=True)) | {id: id for id in listed["id"]}
    ids |= document_of.to_dict()
    of: dict[str, list[Mapping[str, str]]] = {}
    elsewhere: dict[str, list[Mapping[str, str]]] = {}
    for step, row_id, reason, message in rejects[["step", "row_id", "reason", "message"]].itertuples(index=False):
        told = {"step": step, "reason": reason, "message": message}
        if row_id in ids:
            of.setdefault(ids[row_id], []).append(told)
        elif step in loaders:
            elsewhere.setdefault(row_id, []).append(told)
    return of, elsewhere
