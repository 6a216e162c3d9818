"""What a run would lose: documents that are gone, those whose source was not read whole, rejected rows.

A source verb says so by its rejects: those of the kinds in NAMING have in ``row_id`` the ``source`` of documents, or
what comes before ``#`` or ``/`` in it (a file of records, a folder; "." is all of them). What such a source gave in the
last run and does not give now is no deletion, for nobody knows. The tables stay a function of what is read and of the
last documents, and to keep once more changes nothing.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.cells import as_frame
from pipeline.contract.laws import Law
from pipeline.contract.reasons import EXTRAS
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.contract.schemas import STRING
from pipeline.engine.workflow import PLACE, REJECTS, Step, Workflow
from pipeline.errors import DataError, DeletionError, counted
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

DOCUMENTS = "documents"
COLUMNS = ["id", "source", "content_hash"]
_NAMED = 3


ON_PURPOSE = "run again with --allow-deletes if this is meant"


def documents_before(workflow: Workflow, snapshots: SnapshotStore) -> Snapshot | None:
    """The documents as the workflow's last run had them; before its first one, as the newest run of another workflow
    had them that loads them in the same way: from ``index`` to ``communities`` none of them is new."""
    if workflow.name in snapshots.workflows():
        return snapshots.manifest(workflow.name).tables.get(DOCUMENTS)
    steps = [step for step in workflow.steps if DOCUMENTS in step.outputs]
    loads = {step.id: source_of(step) for step in steps}
    for manifest in newest_first(snapshots):
        others = {id: read_by(record) for id, record in manifest.steps.items() if DOCUMENTS in record.outputs}
        if loads == others:
            return manifest.tables.get(DOCUMENTS)
    return None


def source_of(step: Step) -> tuple[Any, ...]:
    """How, and where from, a step loads documents; as ``read_by``."""
    return step.verb.name, step.params.model_dump(mode="json"), dict(step.place)


def read_by(record: StepRecord) -> tuple[Any, ...]:
    inputs = record.components.get("inputs", {})
    place = {name: value for name, value in inputs.items() if name.startswith(PLACE)}
    return record.components.get("verb"), record.components.get("params"), place


def newest_first(snapshots: SnapshotStore) -> Iterator[Manifest]:
    """Of each workflow the last run's; that of the workflow which has run last comes first."""
    last = {name: snapshots.history(name)[-1:] for name in snapshots.workflows()}
    return map(snapshots.manifest, sorted(last, key=last.__getitem__, reverse=True))


def refuse_deletions(
    store: SnapshotStore,
    workflow: str,
    before: Snapshot | None,
    after: Snapshot,
    max_ratio: float,
    may_go: str | None = None,
) -> None:
    """Raises DeletionError when more than ``max_ratio`` of the documents of ``before`` are gone, but for those of the
    source ``may_go``. Where ``before`` cannot be read, an earlier table of documents is compared, or else the
    numbers of documents."""
    if before == after or (before is None and not store.is_lost(workflow)):
        return
    tables = (table for table in _tables_before(store, workflow, before) if table.sha256 != after.sha256)
    known = next(filter(store.exists, tables), None)
    if known is not None:
        if may_go is None and known.rows > 0 and len(_no_more(store, known, after)) <= max_ratio * known.rows:
            return
        check_deletions(without(identities(store, known), may_go), without(identities(store, after), may_go), max_ratio)
    elif before is not None and before.rows - after.rows > max_ratio * before.rows:
        raise DeletionError(
            f"input: {before.rows - after.rows} of {before.rows} documents are gone, more than max_delete_ratio "
            f"{max_ratio:g}; is the folder mounted? {ON_PURPOSE}"
        )


def _no_more(store: SnapshotStore, before: Snapshot, after: Snapshot) -> set[str]:
    """Ids of the one that the other has not."""
    gone, new = store.difference(before, after, ["id"])
    return set(gone["id"].to_pylist()) - set(new["id"].to_pylist())


def _tables_before(store: SnapshotStore, workflow: str, before: Snapshot | None) -> Iterator[Snapshot]:
    """``before`` first, then those of earlier nights; where no manifest can be read, all that there are, the largest
    first, so that none is compared that a refused run has left."""
    if before is not None:
        yield before
        earlier = reversed(store.kept(workflow, store.history(workflow)))
        yield from (manifest.tables[DOCUMENTS] for manifest in earlier if DOCUMENTS in manifest.tables)
    else:
        yield from store.files(DOCUMENTS)


def without(documents: pd.DataFrame, source: str | None) -> pd.DataFrame:
    """The documents that are not of this source."""
    return documents if source is None else documents[[not is_of(str(known), source) for known in documents["source"]]]


def is_of(known: str, source: str) -> bool:
    """Records of a file are documents of their own: ``file#key``."""
    return known == source or known.startswith(f"{source}#")


def check_deletions(before: pd.DataFrame, after: pd.DataFrame, max_ratio: float, next_action: str = ON_PURPOSE) -> None:
    """Compare two tables of documents (columns ``id``, ``source``, ``content_hash``). One whose content is
    there under another id is renamed, not gone. Raises DeletionError above ``max_ratio``."""
    stays = before["id"].isin(after["id"]) | before["content_hash"].isin(after["content_hash"])
    sources = sorted(before.loc[~stays, "source"])
    if len(sources) <= max_ratio * len(before):
        return
    named = ", ".join([*sources[:_NAMED], *(["..."] if len(sources) > _NAMED else [])])
    raise DeletionError(
        f"input: {len(sources)} of {len(before)} documents are gone ({named}), more than max_delete_ratio "
        f"{max_ratio:g}; is the folder mounted? {next_action}"
    )


@dataclass(frozen=True)
class DocumentChanges:
    """Sources of the documents that are new, that say something else than before, and that are gone; each sorted."""

    new: tuple[str, ...]
    edited: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(getattr(self, name)) for name in ("new", "edited", "gone")}


def document_changes(before: pd.DataFrame, after: pd.DataFrame, to_convert: Collection[str] = ()) -> DocumentChanges:
    """What became of the documents between two tables of them (columns ``id``, ``source``, ``content_hash``). A file
    under another name is gone, and new. ``to_convert``: files that say something else than in ``after``, or are not in
    it: what, is not known yet."""
    both = before.merge(after, on="id", suffixes=("_before", ""))
    edited = both.loc[both["content_hash"] != both["content_hash_before"], "source"]
    new = after.loc[~after["id"].isin(before["id"]), "source"]
    gone = before.loc[~before["id"].isin(after["id"]), "source"]
    known = set(before["source"])
    edited, new = {*edited, *(known & set(to_convert))}, {*new, *(set(to_convert) - known)}
    return DocumentChanges(*(tuple(sorted(sources)) for sources in (new, edited, gone)))


def not_converted(frames: Mapping[str, pd.DataFrame]) -> frozenset[str]:
    """Names of the files that a rehearsal would have had to convert."""
    if REJECTS not in frames:
        return frozenset()
    rejects = frames[REJECTS]
    return frozenset(rejects.loc[rejects["reason"] == NOT_CONVERTED, "row_id"])


def changes_between(
    store: SnapshotStore, before: Snapshot | None, after: Snapshot, to_convert: Collection[str] = ()
) -> DocumentChanges:
    """As ``document_changes``, of two tables; all are new where there is none ``before``. Raises DataError for a
    damaged file."""
    if before is not None and not to_convert:
        gone, new = store.difference(before, after, COLUMNS)
        return document_changes(as_frame(gone), as_frame(new))
    now = identities(store, after)
    return document_changes(identities(store, before) if before else now[:0], now, to_convert)


def identities(store: SnapshotStore, snapshot: Snapshot) -> pd.DataFrame:
    """The documents without their texts, which are nearly all of the table. Raises DataError for a damaged file."""
    return store.read(snapshot, COLUMNS)


SOURCE = "source"
"""The kind of a reject that names a source which was not read, or not whole."""
SKIPPED = "skipped"
"""Of what is no input. That it gave documents once makes it a source that is not read."""
KEPT = "kept"
"""Of a document that is kept."""
NAMING = (SOURCE, SKIPPED)
KEPT_UNREAD = "kept_unread"
NOT_CONVERTED = "not_converted"
"""The reason of a file of which a rehearsal does not know what it says."""
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
    """What a source verb returned, with the documents it could not read again and a reject for each of them.
    ``previous``: the manifest of the last run (before the first one see ``record_before``); where its documents are
    damaged, those of the newest night that has them whole are taken. ``gone``: a source that is deleted for good, of
    which nothing is kept. ``groups``: those that it was asked for, by its ``law``; None for all.

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
            f"step '{step.id}': {left['because'].iloc[0]} was not read whole, and {', '.join(others)} of its documents "
            "cannot be kept; mend it and run again"
        )
    kept = as_frame(snapshots.select(before, ["id"], pa.array(left["id"], STRING)))
    return {
        **frames,
        DOCUMENTS: pd.concat([frames[DOCUMENTS], kept.reindex(columns=frames[DOCUMENTS].columns)], ignore_index=True),
        REJECTS: pd.concat([rejects, _told(left)], ignore_index=True),
    }


def _asked_for(before: Snapshot, snapshots: SnapshotStore, law: Law | None, groups: Any) -> pd.DataFrame:
    """The identities of the documents of these groups, or of all."""
    if law is None or groups is None:
        return identities(snapshots, before)
    known = snapshots.table(before, COLUMNS)
    return as_frame(known.filter(pc.is_in(law.groups(known[law.row_of[DOCUMENTS]]), value_set=groups)))


def _documents_before(step: Step, previous: Manifest, snapshots: SnapshotStore) -> Iterator[Snapshot]:
    """Those that can be read, the newest first."""
    if previous.steps and step.id not in previous.steps:
        return
    if found := last_documents(step, previous.steps, snapshots):
        yield found
    for manifest in reversed(snapshots.kept(previous.workflow, snapshots.history(previous.workflow))):
        if found := last_documents(step, manifest.steps, snapshots):
            yield found


def record_before(step: Step, previous: Mapping[str, StepRecord], snapshots: SnapshotStore) -> StepRecord | None:
    """Of the workflow's last run; of a source before the first one, of the newest run of another workflow that has the
    same step: the stores may show its documents, and what cannot be read is as little gone from them."""
    if previous or step.verb.inputs:
        return previous.get(step.id)
    others = filter(None, (manifest.steps.get(step.id) for manifest in newest_first(snapshots)))
    return next((record for record in others if read_by(record) == source_of(step)), None)


def last_documents(step: Step, previous: Mapping[str, StepRecord], snapshots: SnapshotStore) -> Snapshot | None:
    """The documents that the last run had of this source; None for a step that is no source of documents, or new."""
    if step.verb.inputs or DOCUMENTS not in step.verb.outputs:
        return None
    record = record_before(step, previous, snapshots)
    before = record.outputs.get(DOCUMENTS) if record else None
    return before if before is not None and snapshots.exists(before) else None


def unread(before: pd.DataFrame, now: pd.DataFrame, named: Collection[str], gone: str | None = None) -> pd.DataFrame:
    """Documents of ``before`` (id, source) that are not in ``now`` and whose source is ``named``; ``because``: by which
    of the names."""
    missing = before[~before["id"].isin(now["id"])]
    because = [None if gone and is_of(source, gone) else name_of(source, named) for source in missing["source"]]
    found = missing.assign(because=pd.Series(because, index=missing.index, dtype=object))
    return found[found["because"].notna()]


def keeps_nothing(outputs: Mapping[str, Snapshot], before: Snapshot | None, snapshots: SnapshotStore) -> bool:
    """Whether a step's tables, made in whatever run, are those of a run after ``before``: nothing that they lack of it
    would be kept."""
    if before is None or REJECTS not in outputs or outputs.get(DOCUMENTS) == before or not outputs[REJECTS].rows:
        return True
    named = named_sources(snapshots.read(outputs[REJECTS]))
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
            "message": f"{source}: kept as it was: {told_name(because)} was not read whole; mend it, or delete it",
        }
        for source, because in zip(left["source"], left["because"], strict=True)
    ]
    return REJECTS_SCHEMA.frame(rows)


RECOVERED = "recovered"
"""The kind of a row that was answered by halves or by repair: not lost, though in the table of rejects."""
UNREFRESHED = "unrefreshed"
"""Of a row that stands as it was though what it was made of has changed, for a workflow says so."""
ROW = "row"
_LINE = re.compile(r":\d+$")


def lost(rejects: pd.DataFrame) -> pd.DataFrame:
    """Those of which something is missing in the tables, or out of date."""
    return rejects[~rejects["kind"].isin([RECOVERED, SKIPPED, UNREFRESHED])]


def trades(workflow: Workflow, rejects: pd.DataFrame) -> list[str]:
    """What the steps' params give up of a full build, and of how many rows; ``rejects``: of all steps."""
    told = {step.id: step.params.trade() for step in workflow.steps}
    rows = rejects.loc[rejects["kind"] == UNREFRESHED, "step"].value_counts()
    return [
        f"{step}: {trade}; {counted(int(rows.get(step, 0)), 'row')} unrefreshed: 'graphmill run --force {step}' "
        "refreshes all"
        for step, trade in told.items()
        if trade
    ]


def no_input(rejects: pd.DataFrame) -> dict[str, int]:
    """How many files were no input: by suffix where their kind is not read, with what would read it where an extra
    does, else by reason; the most frequent first."""
    skipped = rejects[rejects["kind"] == SKIPPED]
    what = [_what(PurePath(row), reason) for row, reason in zip(skipped["row_id"], skipped["reason"], strict=True)]
    return dict(sorted(Counter(what).items(), key=lambda entry: (-entry[1], entry[0])))


def _what(source: PurePath, reason: str) -> str:
    suffix = source.suffix.lower()[1:] or "without suffix"
    if reason in EXTRAS:
        return f"{suffix} ({EXTRAS[reason]})"
    return suffix if reason == "unsupported" else reason


def reject_ratio(
    step: Step,
    record: StepRecord,
    tables: Mapping[str, Snapshot],
    rejects: pd.DataFrame,
    loaded: pd.DataFrame | None,
) -> float:
    """Share of rejected rows among the rows the step had to decide. Of a source those count that could be read before:
    its kept documents, and what has failed since the stores were loaded (``loaded``: the rejects of then, None before
    the first load)."""
    if step.verb.inputs:
        rejected = rejects.loc[rejects["kind"] == ROW, "row_id"].nunique()
        return rejected / max(_rows_decided(step, record, tables, rejected), 1)
    failed = _failures(rejects)
    known = failed if loaded is None else _failures(loaded[loaded["step"] == step.id])
    return _share(_kept(rejects), failed - known, step, record)


def unread_ratio(step: Step, record: StepRecord, rejects: pd.DataFrame) -> float:
    """Share of what a source could not read, whenever that began."""
    return _share(_kept(rejects), _failures(rejects), step, record)


def refuse_nothing(step: Step, outputs: Mapping[str, Snapshot], rejects: pd.DataFrame) -> None:
    """A source without a row is a mistake (an unmounted folder, a wrong pattern), not a corpus to load.
    Raises DataError for one."""
    if step.verb.inputs or any(outputs[name].rows for name in step.writes if name != REJECTS):
        return
    reasons = rejects["reason"].value_counts()
    left_out = ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "no files"
    raise DataError(
        f"step '{step.id}': {getattr(step.params, 'path', '')}: no documents ({left_out}); put documents there, "
        "or set input.path and input.file_pattern; the stores are left as they are"
    )


def _share(kept: Counter[str], failed: Counter[str], step: Step, record: StepRecord) -> float:
    """Of both by source: a record that cannot be read is, as a rule, one of those that are kept."""
    rows = sum(record.outputs[name].rows for name in step.writes if name != REJECTS)
    worst = kept | failed
    return sum(worst.values()) / max(rows + sum((worst - kept).values()), 1)


def _failures(rejects: pd.DataFrame) -> Counter[str]:
    """Source -> records of it that failed, or 1."""
    rows = Counter(_LINE.sub("", row) for row in rejects.loc[rejects["kind"] == ROW, "row_id"])
    return rows | Counter(set(rejects.loc[rejects["kind"] == SOURCE, "row_id"]))


def _kept(rejects: pd.DataFrame) -> Counter[str]:
    named = named_sources(rejects)
    return Counter(name_of(source, named) or source for source in rejects.loc[rejects["kind"] == KEPT, "row_id"])


def _rows_decided(step: Step, record: StepRecord, tables: Mapping[str, Snapshot], rejected: int) -> int:
    if step.verb.rowwise:
        return tables[step.inputs[step.verb.rowwise]].rows
    return rejected + sum(record.outputs[name].rows for name in step.writes if name != REJECTS)
