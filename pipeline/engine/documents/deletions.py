"""Comparison of documents with those of the last run, and the guard against deleting too many of
them."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.contract.cells import as_frame
from pipeline.engine.workflow import PLACE, REJECTS, Step, Workflow
from pipeline.errors import DeletionError
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

DOCUMENTS = "documents"
COLUMNS = ["id", "source", "content_hash"]
NOT_CONVERTED = "not_converted"
"""The reason of a file that a plan would have to convert to know what it says."""
NOT_ASKED = "not_asked"
"""The reason of a missing reply while a run is only estimated, such as that about a picture."""
_NAMED = 3
ARCHIVE = ".zip"
"""The suffix of files that have others in them."""
ON_PURPOSE = "run again with --allow-deletes if this is meant"
LEAST_ROWS = 20
"""The rows that a table, or an input, must have had: of a shorter one, a person may take away most
by hand."""
FOLDER = "."
"""The name of the input folder among the inputs."""
_INPUT = re.compile("@([a-z0-9_-]+)/")
"""The beginning of the sources of documents of an input beside the input folder."""


def input_of(source: str) -> str:
    """Return the name of the input of a document."""
    found = _INPUT.match(source)
    return found[1] if found else FOLDER


def advise_on_inputs(inputs: Collection[str]) -> str:
    """Return what to do where the documents that are gone are of these inputs."""
    if len(inputs) != 1:
        return ON_PURPOSE
    [name] = inputs
    return f"run again with --allow-deletes-of {name} if this is meant"


def find_documents_before(workflow: Workflow, snapshots: SnapshotStore) -> Snapshot | None:
    """Return the documents of the workflow's last run, or None.

    Before its first run, those of the newest run of another workflow that loads them in the same
    way are returned: for ``communities`` after ``index`` none of them is new.
    """
    if workflow.name in snapshots.workflows():
        return snapshots.manifest(workflow.name).tables.get(DOCUMENTS)
    own_loads = {step.id: source_of(step) for step in workflow.steps if DOCUMENTS in step.outputs}
    for manifest in newest_first(snapshots):
        other_loads: dict[str, tuple[Any, ...]] = {}
        for id, record in manifest.steps.items():
            if DOCUMENTS in record.outputs:
                other_loads[id] = read_by(record)
        if own_loads == other_loads:
            return manifest.tables.get(DOCUMENTS)
    return None


def source_of(step: Step) -> tuple[Any, ...]:
    """Return how and from where a step loads documents: its verb, params and place, as
    ``read_by``."""
    return step.verb.name, step.params.model_dump(mode="json"), dict(step.place)


def read_by(record: StepRecord) -> tuple[Any, ...]:
    """Return how and from where a recorded step loaded documents: as ``source_of`` for a step."""
    inputs = record.components.get("inputs", {})
    place = {name: value for name, value in inputs.items() if name.startswith(PLACE)}
    return record.components.get("verb"), record.components.get("params"), place


def newest_first(snapshots: SnapshotStore) -> Iterator[Manifest]:
    """Return the last manifest of each workflow; the workflow that ran last comes first."""
    # A list of one run id, or an empty one, which is less than any other.
    last_run = {name: snapshots.history(name)[-1:] for name in snapshots.workflows()}
    # Run ids sort by time.
    newest_workflows = sorted(last_run, key=lambda name: last_run[name], reverse=True)
    for name in newest_workflows:
        yield snapshots.manifest(name)


def refuse_deletions(
    store: SnapshotStore,
    workflow: str,
    before: Snapshot | None,
    after: Snapshot,
    max_ratio: float,
    apart: Collection[str] = (),
) -> None:
    """Raise DeletionError if more than ``max_ratio`` of the documents of ``before`` are gone.

    ``apart``: inputs whose documents are not counted, since they have a limit of their own. If
    ``before`` cannot be read, an earlier table of documents is compared, or else the numbers of
    documents.
    """
    if before == after:
        return
    is_first_run = before is None and not store.is_lost(workflow)
    if is_first_run:
        return
    known = None
    for table in _tables_before(store, workflow, before):
        if table.sha256 != after.sha256 and store.tables.exists(table):
            known = table
            break
    if known is not None:
        # The number of rows does not tell how many documents are of the inputs apart.
        surely_allowed = 0 if apart else max_ratio * known.rows
        if known.rows > 0 and len(_ids_gone(store, known, after)) <= surely_allowed:
            return
        # Some of these ids may be renamed documents, which only their contents tell.
        then, now = identities(store, known), identities(store, after)
        is_counted = [input_of(source) not in apart for source in then["source"]]
        check_deletions(then.loc[is_counted], now, max_ratio)
    elif before is not None:
        gone = before.rows - after.rows
        if gone > max_ratio * before.rows:
            raise DeletionError(
                f"input: {gone} of {before.rows} documents are gone, more than"
                f" max_delete_ratio {max_ratio:g}; is the folder mounted? {ON_PURPOSE}"
            )


def _ids_gone(store: SnapshotStore, before: Snapshot, after: Snapshot) -> set[str]:
    """Return the ids that ``before`` has and ``after`` has not."""
    gone, new = store.tables.difference(before, after, ["id"])
    return set(gone["id"].to_pylist()) - set(new["id"].to_pylist())


def _tables_before(
    store: SnapshotStore, workflow: str, before: Snapshot | None
) -> Iterator[Snapshot]:
    """Yield ``before``, then documents of earlier runs, newest first.

    If no manifest can be read, yield all tables of documents, the largest first: a table that a
    refused run has left is then not the one compared.
    """
    if before is None:
        yield from store.tables.list_files(DOCUMENTS)
        return
    yield before
    for manifest in reversed(store.kept_manifests(workflow, store.history(workflow))):
        if DOCUMENTS in manifest.tables:
            yield manifest.tables[DOCUMENTS]


def without(documents: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return the documents that are not of this source."""
    is_other = [not is_of(str(known), source) for known in documents["source"]]
    # By ``loc``, for an empty list in brackets alone would name columns.
    return documents.loc[is_other]


def is_of(known: str, source: str) -> bool:
    """Check that a document's source is this source, a record of it (``file#key``), or a file of
    this archive."""
    if source.lower().endswith(ARCHIVE) and known.startswith(f"{source}/"):
        return True
    return known == source or known.startswith(f"{source}#")


def find_gone(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the documents of ``before`` of which ``after`` has neither the id nor the content.

    A document whose content exists under another id is renamed, not gone.
    """
    has_id = before["id"].isin(after["id"])
    has_content = before["content_hash"].isin(after["content_hash"])
    return before[~(has_id | has_content)]


def check_deletions(
    before: pd.DataFrame, after: pd.DataFrame, max_ratio: float, next_action: str = ""
) -> None:
    """Raise DeletionError if more than ``max_ratio`` of the documents of ``before`` are gone.

    Without a ``next_action`` the message names the option that lets them go. Both tables have the
    columns ``id``, ``source`` and ``content_hash``.
    """
    sources_gone = sorted(find_gone(before, after)["source"])
    if len(sources_gone) <= max_ratio * len(before):
        return
    inputs = set(map(input_of, sources_gone))
    # In a project with one input, the option needs no name.
    next_action = next_action or advise_on_inputs(() if FOLDER in inputs else inputs)
    examples = sources_gone[:_NAMED]
    if len(sources_gone) > _NAMED:
        examples.append("...")
    raise DeletionError(
        f"input: {len(sources_gone)} of {len(before)} documents are gone"
        f" ({', '.join(examples)}), more than"
        f" max_delete_ratio {max_ratio:g}; is the folder mounted? {next_action}"
    )


@dataclass(frozen=True)
class DocumentChanges:
    """Sources of the documents that are new, edited and gone; each sorted."""

    new: tuple[str, ...]
    edited: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of documents of each kind of change."""
        return {"new": len(self.new), "edited": len(self.edited), "gone": len(self.gone)}


def document_changes(
    before: pd.DataFrame, after: pd.DataFrame, to_convert: Collection[str] = ()
) -> DocumentChanges:
    """Return which documents are new, edited and gone between two tables.

    Both have the columns ``id``, ``source`` and ``content_hash``. A file under another name is
    gone, and new. ``to_convert``: files that are edited or new but not converted yet, so that
    ``after`` does not have their present content.
    """
    in_both = before.merge(after, on="id", suffixes=("_before", ""))
    is_edited = in_both["content_hash"] != in_both["content_hash_before"]
    is_new = ~after["id"].isin(before["id"])
    is_gone = ~before["id"].isin(after["id"])
    edited = set(in_both.loc[is_edited, "source"])
    new = set(after.loc[is_new, "source"])
    gone = before.loc[is_gone, "source"]
    # A file that is not converted yet is edited if it is known, otherwise new.
    known, unconverted = set(before["source"]), set(to_convert)
    edited |= known & unconverted
    new |= unconverted - known
    return DocumentChanges(tuple(sorted(new)), tuple(sorted(edited)), tuple(sorted(gone)))


def not_converted(frames: Mapping[str, pd.DataFrame]) -> frozenset[str]:
    """Return the names of the files that a plan would have to convert."""
    return _files_with_reason(frames, NOT_CONVERTED)


def not_described(frames: Mapping[str, pd.DataFrame]) -> frozenset[str]:
    """Return the names of the pictures that a plan would have to ask a model about."""
    return _files_with_reason(frames, NOT_ASKED)


def _files_with_reason(frames: Mapping[str, pd.DataFrame], reason: str) -> frozenset[str]:
    if REJECTS not in frames:
        return frozenset()
    rejects = frames[REJECTS]
    return frozenset(rejects.loc[rejects["reason"] == reason, "row_id"])


def changes_between(
    store: SnapshotStore, before: Snapshot | None, after: Snapshot, to_convert: Collection[str] = ()
) -> DocumentChanges:
    """Return ``document_changes`` of two stored tables; all are new if there is none ``before``.

    Raises DataError for a damaged file.
    """
    if before is not None and not to_convert:
        gone, new = store.tables.difference(before, after, COLUMNS)
        return document_changes(as_frame(gone), as_frame(new))
    now = identities(store, after)
    no_documents = now[:0]
    then = no_documents if before is None else identities(store, before)
    return document_changes(then, now, to_convert)


def identities(store: SnapshotStore, snapshot: Snapshot) -> pd.DataFrame:
    """Return the documents without their texts, which are most of the table's bytes.

    Raises DataError for a damaged file.
    """
    return store.tables.read(snapshot, COLUMNS)
