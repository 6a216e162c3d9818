"""Keeping documents whose source could not be read in this run, as the last run had them.

A source verb reports what it could not read by its rejects: those of the kinds in NAMING have in
``row_id`` the ``source`` of documents, or what comes before ``#`` or ``/`` in it (a file of
records, a folder; "." is all of them). If such a source gave documents in the last run and does not
give them now, they are not deleted, since nobody knows. The tables remain a function of what is
read and of the last documents; keeping documents twice changes nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.cells import as_frame
from pipeline.contract.laws import Law
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.contract.schemas import STRING
from pipeline.engine.documents.deletions import (
    ARCHIVE,
    COLUMNS,
    DOCUMENTS,
    identities,
    is_of,
    newest_first,
    read_by,
    source_of,
)
from pipeline.engine.workflow import REJECTS, Step
from pipeline.errors import DataError
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

# Type checkers do not see the functions of pyarrow.compute: they are created at import.
pc: Any = pyarrow.compute

SOURCE = "source"
"""The kind of a reject that names a source which was not read, or not whole."""
SKIPPED = "skipped"
"""The kind of a reject of a file that is no input. If it gave documents before, it is a source that
was not read."""
KEPT = "kept"
"""The kind of a reject of a document that is kept."""
NAMING = (SOURCE, SKIPPED)
KEPT_UNREAD = "kept_unread"
ALL = "."
OUTSIDE = "outside"
"""The reason of a link, which may stand where a folder with documents was."""
BELOW = "/"


def with_kept(
    step: Step,
    frames: Mapping[str, pd.DataFrame],
    previous: Manifest,
    snapshots: SnapshotStore,
    gone: str | None = None,
    law: Law | None = None,
    groups: Any = None,
) -> dict[str, pd.DataFrame]:
    """Return a source verb's outputs, with the documents that could not be read again and a reject
    for each.

    - ``previous``: the manifest of the last run (before the first one see ``find_last_record``). If
      its documents are damaged, the newest run is taken that has them whole.
    - ``gone``: a source that is deleted for good, of which nothing is kept.
    - ``groups``: the groups that the verb was called for, by its ``law``; None for all.

    Raises DataError where a source that writes more than documents was not read whole.
    """
    if DOCUMENTS not in frames or REJECTS not in frames:
        return dict(frames)
    documents, rejects = frames[DOCUMENTS], frames[REJECTS]
    named = named_sources(rejects)
    if not named:
        return dict(frames)
    before = next(_find_documents_before(step, previous, snapshots), None)
    if before is None:
        return dict(frames)
    documents_then = _asked_for(before, snapshots, law, groups)
    left = unread(documents_then, documents, named, gone)
    if left.empty:
        return dict(frames)
    others = sorted(set(step.verb.outputs) - {DOCUMENTS, REJECTS})
    if others:
        raise DataError(
            f"step '{step.id}': {left['because'].iloc[0]} was not read whole, and"
            f" {', '.join(others)} of its documents cannot be kept; mend it and run again"
        )
    kept = as_frame(snapshots.tables.select(before, ["id"], pa.array(left["id"], STRING)))
    # An earlier version may have written other columns.
    kept = kept.reindex(columns=documents.columns)
    return {
        **frames,
        DOCUMENTS: pd.concat([documents, kept], ignore_index=True),
        REJECTS: pd.concat([rejects, _rejects_of_kept(left)], ignore_index=True),
    }


def _asked_for(
    before: Snapshot, snapshots: SnapshotStore, law: Law | None, groups: Any
) -> pd.DataFrame:
    """Return the identities of the documents of these groups, or of all."""
    if law is None or groups is None:
        return identities(snapshots, before)
    known = snapshots.tables.read_arrow(before, COLUMNS)
    groups_of_rows = law.groups(known[law.row_of[DOCUMENTS]])
    return as_frame(known.filter(pc.is_in(groups_of_rows, value_set=groups)))


def _find_documents_before(
    step: Step, previous: Manifest, snapshots: SnapshotStore
) -> Iterator[Snapshot]:
    """Yield the tables of documents of earlier runs that can be read, the newest first."""
    if previous.steps and step.id not in previous.steps:
        return
    found = find_last_documents(step, previous.steps, snapshots)
    if found:
        yield found
    # Manifests of earlier runs are read only if the last run's documents are damaged.
    kept = snapshots.kept_manifests(previous.workflow, snapshots.history(previous.workflow))
    for manifest in reversed(kept):
        found = find_last_documents(step, manifest.steps, snapshots)
        if found:
            yield found


def find_last_record(
    step: Step, previous: Mapping[str, StepRecord], snapshots: SnapshotStore
) -> StepRecord | None:
    """Return the step's record in the workflow's last run.

    Before the first run, the record of a source is that of the newest run of another workflow with
    the same step: the stores may show its documents, and what cannot be read now is not gone from
    them.
    """
    if previous or step.verb.inputs:
        return previous.get(step.id)
    for manifest in newest_first(snapshots):
        record = manifest.steps.get(step.id)
        if record and read_by(record) == source_of(step):
            return record
    return None


def find_last_documents(
    step: Step, previous: Mapping[str, StepRecord], snapshots: SnapshotStore
) -> Snapshot | None:
    """Return the documents that the last run had from this source; None if there are none, or the
    step is no source of documents."""
    if step.verb.inputs or DOCUMENTS not in step.verb.outputs:
        return None
    record = find_last_record(step, previous, snapshots)
    if record is None:
        return None
    before = record.outputs.get(DOCUMENTS)
    is_there = before is not None and snapshots.tables.exists(before)
    return before if is_there else None


def unread(
    before: pd.DataFrame, now: pd.DataFrame, named: Collection[str], gone: str | None = None
) -> pd.DataFrame:
    """Return the documents of ``before`` (id, source) that are not in ``now`` and whose source is
    ``named``.

    The column ``because`` has the name that applies.
    """
    missing = before[~before["id"].isin(now["id"])]
    reasons: list[str | None] = []
    for source in missing["source"]:
        if gone and is_of(source, gone):
            reasons.append(None)
        else:
            reasons.append(name_of(source, named))
    because = pd.Series(reasons, index=missing.index, dtype=object)
    found = missing.assign(because=because)
    return found[because.notna()]


def keeps_nothing(
    outputs: Mapping[str, Snapshot], before: Snapshot | None, snapshots: SnapshotStore
) -> bool:
    """Check that the step, run after ``before``, would not have to keep any document that these
    tables lack.

    ``outputs``: tables that the step wrote in any run.
    """
    if before is None or outputs.get(DOCUMENTS) == before:
        return True
    if REJECTS not in outputs or not outputs[REJECTS].rows:
        return True
    named = named_sources(snapshots.tables.read(outputs[REJECTS]))
    if not named:
        return True
    then = identities(snapshots, before)
    now = identities(snapshots, outputs[DOCUMENTS])
    return unread(then, now, named).empty


def named_sources(rejects: pd.DataFrame) -> frozenset[str]:
    """Return the names of the sources that were not read, or not whole.

    A name that may be that of a folder or an archive is there a second time, with a slash behind
    it. A file that is no input is no folder: it says nothing of documents whose source begins like
    its name, such as those of other objects of a bucket.
    """
    of_sources = rejects[rejects["kind"].isin(NAMING)]
    found: set[str] = set()
    for name, kind, reason in of_sources[["row_id", "kind", "reason"]].itertuples(index=False):
        found.add(name)
        if kind == SOURCE or reason == OUTSIDE or name.lower().endswith(ARCHIVE):
            found.add(f"{name}{BELOW}")
    return frozenset(found)


def name_of(source: str, named: Collection[str]) -> str | None:
    """Return the name that is the source's, or that of the file or folder it is in; None if there
    is none.

    ``named``: as `named_sources` returns it.
    """
    if source in named:
        return source
    if ALL in named:
        return ALL
    ends = [place for place, character in enumerate(source) if character in "#/"]
    # The longest name first: that of the file, then of the folders around it.
    for end in reversed(ends):
        name = source[:end]
        is_below_folder = source[end] == BELOW
        wanted = f"{name}{BELOW}" if is_below_folder else name
        if wanted in named:
            return name
    return None


def describe_source(name: str) -> str:
    """Return a source's name as messages show it."""
    return "the input folder" if name == ALL else name


def _rejects_of_kept(left: pd.DataFrame) -> pd.DataFrame:
    """Return a reject for each document that is kept."""
    rows: list[dict[str, str]] = []
    for source, because in zip(left["source"], left["because"], strict=True):
        message = (
            f"{source}: kept as it was: {describe_source(because)} was not read whole;"
            " mend it, or delete it"
        )
        reject = {
            "step": "",
            "row_id": source,
            "kind": KEPT,
            "reason": KEPT_UNREAD,
            "message": message,
        }
        rows.append(reject)
    return REJECTS_SCHEMA.frame(rows)
