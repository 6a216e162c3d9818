"""The documents as they are now, and what a workflow's tables have of each: since when, and what
came of it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute

from pipeline.engine.bill.counting_models import Tally
from pipeline.engine.deletions import (
    DOCUMENTS,
    document_changes,
    documents_before,
    identities,
    not_converted,
)
from pipeline.engine.kept_documents import named_sources, with_kept
from pipeline.engine.losses import RECOVERED, UNENDED, UNREFRESHED
from pipeline.engine.plan import following
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.errors import UsageError
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore

LISTED = ["id", "source", "title", "content_hash"]


@dataclass(frozen=True)
class CurrentDocuments:
    """``sources``: of all documents that are loaded, also where a filter leaves them out;
    ``unread``: names of the sources that were not read, or not whole (engine/kept_documents.py);
    ``to_convert``: of the files whose present content was never converted."""

    documents: pd.DataFrame
    sources: frozenset[str]
    unread: frozenset[str]
    to_convert: frozenset[str]


def present_documents(
    workflow: Workflow, resources: Resources, snapshots: SnapshotStore, gone: str | None = None
) -> CurrentDocuments | None:
    """The table ``documents`` after the steps that load and filter them, with those that a run
    would keep, but of the source ``gone``; None for a workflow without such steps. No file is
    converted. Raises what these raise."""
    previous = snapshots.manifest(workflow.name)
    tables: dict[str, pd.DataFrame] = {}
    sources: set[str] = set()
    unread: set[str] = set()
    to_convert: set[str] = set()
    for loads in takewhile(_loads, workflow.steps):
        step = following(loads, previous.steps, snapshots)
        frames = resources.call(
            step, step.inputs_from(tables.__getitem__), Tally(resources.tokenizer).rehearsed
        )
        to_convert |= not_converted(frames)
        frames = with_kept(step, frames, previous, snapshots, gone)
        unread |= named_sources(frames[REJECTS]) if REJECTS in frames and not step.inputs else set()
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
    """A row a document that a run would find ``new``, ``edited`` or ``gone`` (column ``change``),
    with ``source`` and ``title``, "" of a new file that is to be converted yet. Raises what reading
    the documents raises, UsageError for a workflow that loads none."""
    present = present_documents(workflow, resources, snapshots)
    if present is None:
        raise UsageError(f"workflow '{workflow.name}': it loads no documents; name another")
    now, before = present.documents, documents_before(workflow, snapshots)
    then = (
        snapshots.tables.read_arrow(before, LISTED).to_pandas() if before else now.head(0)[LISTED]
    )
    changes = document_changes(then, now, present.to_convert)
    titles = {**dict.fromkeys(present.to_convert, ""), **_titles(then), **_titles(now)}
    told = [(change, source) for change in changes.counts for source in getattr(changes, change)]
    return pd.DataFrame(
        [(change, source, titles[source]) for change, source in told],
        columns=["change", "source", "title"],
    )


def _titles(documents: pd.DataFrame) -> dict[str, str]:
    return dict(zip(documents["source"], documents["title"], strict=True))


def _loads(step: Step) -> bool:
    return DOCUMENTS in step.outputs and not step.models and not step.prompts


# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute
TEXT_UNITS = "text_units"
GIVEN = ("entities", "relationships")
NOTHING_LEFT_OUT = (RECOVERED, UNREFRESHED, UNENDED)
"""Kinds of rejects of rows that are there whole."""


def list_documents(manifest: Manifest, snapshots: SnapshotStore) -> pd.DataFrame:
    """A row a document, by source: ``id``, ``source``, ``title``, ``since`` (the earliest kept run
    from which on it is as it is now), ``text_units``, ``entities``, ``relationships`` (how many it
    has a part in) and ``left_out`` (step, reason and message of each reject). Sources of which no
    document was made follow, their ``id`` and ``since`` "".

    Raises DataError when a snapshot is gone or damaged.
    """
    there = snapshots.tables.read_arrow(
        manifest.tables[DOCUMENTS], ["id", "source", "title", "content_hash"]
    ).to_pandas()
    units = _read(manifest, snapshots, TEXT_UNITS, ["id", "document_id"])
    document_of = pd.Series(units["document_id"].to_numpy(), index=units["id"])
    listed = there[["id", "source", "title"]].assign(
        since=_since(there, manifest.workflow, snapshots)
    )
    listed[TEXT_UNITS] = _counted(listed["id"], units["document_id"])
    for table in GIVEN:
        listed[table] = _counted(
            listed["id"], _documents_of(manifest, snapshots, table, document_of)
        )
    rejects = _read(manifest, snapshots, REJECTS, ["step", "row_id", "kind", "reason", "message"])
    rejects = rejects[~rejects["kind"].isin(NOTHING_LEFT_OUT)]
    left_out, elsewhere = _left_out(rejects, listed, document_of, _loaders(manifest))
    listed["left_out"] = pd.Series(
        [left_out.get(id, []) for id in listed["id"]], index=listed.index, dtype=object
    )
    nothing = {"id": "", "title": "", "since": "", TEXT_UNITS: 0, **dict.fromkeys(GIVEN, 0)}
    rows = [{**nothing, "source": source, "left_out": told} for source, told in elsewhere.items()]
    without = pd.DataFrame(rows, columns=listed.columns)
    parts = [part for part in (listed, without) if len(part)] or [listed]
    return pd.concat(parts, ignore_index=True).sort_values(
        "source", kind="stable", ignore_index=True
    )


def left_out_of(
    rows: Collection[str], manifest: Manifest, snapshots: SnapshotStore
) -> pd.DataFrame:
    """Return what was left out of these rows, which may be sources, documents or text units: the
    columns of REJECTS."""
    rejects = _read(manifest, snapshots, REJECTS, ["step", "row_id", "kind", "reason", "message"])
    return rejects[rejects["row_id"].isin(list(rows)) & (rejects["kind"] != UNENDED)]


def _read(
    manifest: Manifest, snapshots: SnapshotStore, table: str, columns: list[str]
) -> pd.DataFrame:
    """Some columns of a table; no rows where the workflow has none such."""
    if table not in manifest.tables:
        return pd.DataFrame(columns=columns, dtype=str)
    return snapshots.tables.read_arrow(manifest.tables[table], columns).to_pandas()


def _counted(ids: pd.Series, of: pd.Series) -> np.ndarray:
    """How often each id is among ``of``."""
    return ids.map(of.value_counts()).fillna(0).astype("int64").to_numpy()


def _documents_of(
    manifest: Manifest, snapshots: SnapshotStore, table: str, document_of: pd.Series
) -> pd.Series:
    """The documents that each row of a table comes of, each once a row."""
    if table not in manifest.tables:
        return pd.Series([], dtype=object)
    lists = snapshots.tables.read_arrow(manifest.tables[table], ["text_unit_ids"])[
        "text_unit_ids"
    ].combine_chunks()
    rows, units = pc.list_parent_indices(lists).to_numpy(), pc.list_flatten(lists).to_pandas()
    pairs = pd.DataFrame({"row": rows, "document": units.map(document_of)})
    return pairs.dropna().drop_duplicates()["document"]


def _since(there: pd.DataFrame, workflow: str, snapshots: SnapshotStore) -> pd.Series:
    """Goes back through the nights that are kept, for as long as a document is there as it is
    now."""
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
        snapshot = next(
            (
                manifest.tables.get(DOCUMENTS)
                for manifest in snapshots.kept_manifests(workflow, [run_id])
            ),
            None,
        )
        if snapshot is None or not snapshots.tables.exists(snapshot):
            return
        yield run_id, snapshot


def _loaders(manifest: Manifest) -> set[str]:
    """The steps that read files: what they reject may have become no document."""
    return {id for id, record in manifest.steps.items() if DOCUMENTS in record.outputs}


def _left_out(
    rejects: pd.DataFrame, listed: pd.DataFrame, document_of: pd.Series, loaders: set[str]
) -> tuple[dict[str, list[Mapping[str, str]]], dict[str, list[Mapping[str, str]]]]:
    """Document id -> what was left out of it; source -> the same, where no document came of it. A
    reject of a row that is of no document, as an entity's, is in neither."""
    ids = dict(zip(listed["source"], listed["id"], strict=True)) | {id: id for id in listed["id"]}
    ids |= document_of.to_dict()
    of: dict[str, list[Mapping[str, str]]] = {}
    elsewhere: dict[str, list[Mapping[str, str]]] = {}
    for step, row_id, reason, message in rejects[
        ["step", "row_id", "reason", "message"]
    ].itertuples(index=False):
        told = {"step": step, "reason": reason, "message": message}
        if row_id in ids:
            of.setdefault(ids[row_id], []).append(told)
        elif step in loaders:
            elsewhere.setdefault(row_id, []).append(told)
    return of, elsewhere
