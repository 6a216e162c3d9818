"""Documents that are kept: what a source could not read tonight, as the last run had it.

A source verb says what it could not read by its rejects: those of the kinds in NAMING have in
``row_id`` the ``source`` of documents, or what comes before ``#`` or ``/`` in it (a file of
records, a folder; "." is all of them). What such a source gave in the last run and does not give
now is no deletion, for nobody knows. The tables stay a function of what is read and of the last
documents, and to keep once more changes nothing.
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
from pipeline.engine.deletions import (
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
"""Of what is no input. That it gave documents once makes it a source that is not read."""
KEPT = "kept"
"""Of a document that is kept."""
NAMING = (SOURCE, SKIPPED)
KEPT_UNREAD = "kept_unread"
ALL = "."


def with_kept(
    step: Step,
    frames: Mapping[str, pd.DataFrame],
    previous: Manifest,
    snapshots: SnapshotStore,
    gone: str | None = None,
    law: Law | None = None,
    groups: Any = None,
) -> dict[str, pd.DataFrame]:
    """What a source verb returned, with the documents it could not read again and a reject for each
    of them. ``previous``: the manifest of the last run (before the first one see
    ``record_before``); where its documents are damaged, those of the newest night that has them
    whole are taken. ``gone``: a source that is deleted for good, of which nothing is kept.
    ``groups``: those that it was asked for, by its ``law``; None for all.

    Raises DataError where a source that writes more than documents was not read whole.
    """
    if not {DOCUMENTS, REJECTS} <= set(frames):
        return dict(frames)
    rejects = frames[REJECTS]
    named = named_sources(rejects)
    before = next(_documents_before(step, previous, snapshots), None) if named else None
    if before is None:
        return dict(frames)
    left = unread(_asked_for(before, snapshots, law, groups), frames[DOCUMENTS], named, gone)
    if left.empty:
        return dict(frames)
    if others := sorted(set(step.verb.outputs) - {DOCUMENTS, REJECTS}):
        raise DataError(
            f"step '{step.id}': {left['because'].iloc[0]} was not read whole, and"
            f" {', '.join(others)} of its documents cannot be kept; mend it and run again"
        )
    kept = as_frame(snapshots.tables.select(before, ["id"], pa.array(left["id"], STRING)))
    return {
        **frames,
        DOCUMENTS: pd.concat(
            [frames[DOCUMENTS], kept.reindex(columns=frames[DOCUMENTS].columns)], ignore_index=True
        ),
        REJECTS: pd.concat([rejects, _told(left)], ignore_index=True),
    }


def _asked_for(
    before: Snapshot, snapshots: SnapshotStore, law: Law | None, groups: Any
) -> pd.DataFrame:
    """The identities of the documents of these groups, or of all."""
    if law is None or groups is None:
        return identities(snapshots, before)
    known = snapshots.tables.read_arrow(before, COLUMNS)
    return as_frame(
        known.filter(pc.is_in(law.groups(known[law.row_of[DOCUMENTS]]), value_set=groups))
    )


def _documents_before(
    step: Step, previous: Manifest, snapshots: SnapshotStore
) -> Iterator[Snapshot]:
    """Those that can be read, the newest first."""
    if previous.steps and step.id not in previous.steps:
        return
    if found := last_documents(step, previous.steps, snapshots):
        yield found
    for manifest in reversed(
        snapshots.kept_manifests(previous.workflow, snapshots.history(previous.workflow))
    ):
        if found := last_documents(step, manifest.steps, snapshots):
            yield found


def record_before(
    step: Step, previous: Mapping[str, StepRecord], snapshots: SnapshotStore
) -> StepRecord | None:
    """Of the workflow's last run; of a source before the first one, of the newest run of another
    workflow that has the same step: the stores may show its documents, and what cannot be read is
    as little gone from them."""
    if previous or step.verb.inputs:
        return previous.get(step.id)
    others = filter(None, (manifest.steps.get(step.id) for manifest in newest_first(snapshots)))
    return next((record for record in others if read_by(record) == source_of(step)), None)


def last_documents(
    step: Step, previous: Mapping[str, StepRecord], snapshots: SnapshotStore
) -> Snapshot | None:
    """The documents that the last run had of this source; None for a step that is no source of
    documents, or new."""
    if step.verb.inputs or DOCUMENTS not in step.verb.outputs:
        return None
    record = record_before(step, previous, snapshots)
    before = record.outputs.get(DOCUMENTS) if record else None
    return before if before is not None and snapshots.tables.exists(before) else None


def unread(
    before: pd.DataFrame, now: pd.DataFrame, named: Collection[str], gone: str | None = None
) -> pd.DataFrame:
    """Documents of ``before`` (id, source) that are not in ``now`` and whose source is ``named``;
    ``because``: by which of the names."""
    missing = before[~before["id"].isin(now["id"])]
    because = [
        None if gone and is_of(source, gone) else name_of(source, named)
        for source in missing["source"]
    ]
    found = missing.assign(because=pd.Series(because, index=missing.index, dtype=object))
    return found[found["because"].notna()]


def keeps_nothing(
    outputs: Mapping[str, Snapshot], before: Snapshot | None, snapshots: SnapshotStore
) -> bool:
    """Whether a step's tables, made in whatever run, are those of a run after ``before``: nothing
    that they lack of it would be kept."""
    if (
        before is None
        or REJECTS not in outputs
        or outputs.get(DOCUMENTS) == before
        or not outputs[REJECTS].rows
    ):
        return True
    named = named_sources(snapshots.tables.read(outputs[REJECTS]))
    now = identities(snapshots, outputs[DOCUMENTS])
    return not named or unread(identities(snapshots, before), now, named).empty


def named_sources(rejects: pd.DataFrame) -> frozenset[str]:
    """Names of the sources that were not read, or not whole."""
    return frozenset(rejects.loc[rejects["kind"].isin(NAMING), "row_id"])


def name_of(source: str, named: Collection[str]) -> str | None:
    """Which of the names is that of the source, or of the file or folder it is in."""
    if source in named or ALL in named:
        return source if source in named else ALL
    places = [place for place, character in enumerate(source) if character in "#/"]
    return next((source[:place] for place in reversed(places) if source[:place] in named), None)


def told_name(name: str) -> str:
    """Of a source, for people."""
    return "the input folder" if name == ALL else name


def _told(left: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            "step": "",
            "row_id": source,
            "kind": KEPT,
            "reason": KEPT_UNREAD,
            "message": (
                f"{source}: kept as it was: {told_name(because)} was not read whole; mend it, or"
                " delete it"
            ),
        }
        for source, because in zip(left["source"], left["because"], strict=True)
    ]
    return REJECTS_SCHEMA.frame(rows)
