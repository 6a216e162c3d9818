"""The guard against one of several inputs that suddenly lacks most of its documents."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pipeline.contract.cells import as_frame
from pipeline.engine.documents.deletions import (
    COLUMNS,
    FOLDER,
    LEAST_ROWS,
    advise_on_inputs,
    find_gone,
    identities,
    input_of,
)
from pipeline.engine.workflow import LOADER, Workflow
from pipeline.errors import DeletionError, UsageError
from pipeline.snapshots.store import Snapshot, SnapshotStore


@dataclass(frozen=True)
class InputLimits:
    """The shares of their documents that inputs may lose from one run to the next.

    ``names``: the inputs beside the input folder. ``own``: the share for those that have one of
    their own in the settings. ``opened``: those that may lose any number in this run; FOLDER is the
    input folder.
    """

    names: Collection[str]
    own: Mapping[str, float]
    opened: Collection[str]

    @property
    def apart(self) -> frozenset[str]:
        """The inputs whose documents are not counted among all documents."""
        return frozenset([*self.own, *self.opened])

    def refuse_unknown(self, store: SnapshotStore, before: Snapshot | None) -> None:
        """Raise UsageError for an opened input that neither the settings nor ``before`` have.

        ``before``: the documents of the last run.
        """
        unknown = set(self.opened) - {FOLDER, *self.names}
        if unknown and before is not None and store.tables.exists(before):
            # An input that was taken out of the settings has documents that are to go.
            unknown -= set(map(input_of, identities(store, before)["source"]))
        if unknown:
            have = ", ".join([f"{FOLDER} (the input folder)", *sorted(self.names)])
            raise UsageError(f"--allow-deletes-of: no input '{min(unknown)}'; have: {have}")


def find_limits(workflow: Workflow, opened: Collection[str]) -> InputLimits:
    """Return the limits of the inputs that a workflow reads."""
    inputs = [
        source
        for step in workflow.steps
        if step.verb.name == LOADER
        for source in getattr(step.params, "inputs", ())
    ]
    own = {each.name: each.max_deleted for each in inputs if each.max_deleted is not None}
    return InputLimits([each.name for each in inputs], own, opened)


def refuse_input_deletions(
    store: SnapshotStore,
    before: Snapshot | None,
    after: Snapshot,
    limits: InputLimits,
    max_ratio: float,
) -> None:
    """Raise DeletionError if one of several inputs lacks too many of its documents.

    ``before``, ``after``: the documents that the step load_documents wrote in the last run and now.
    ``max_ratio``: the share for inputs without one of their own. A table that is filled anew just
    now, or a folder that was emptied, may have few of all documents. An input that is taken out of
    the settings is gone on purpose, and the guard for all documents alone covers it.
    """
    if before is None or before == after or not limits.names:
        return
    ratios = {FOLDER: max_ratio, **dict.fromkeys(limits.names, max_ratio), **limits.own}
    judged = {name: ratio for name, ratio in ratios.items() if name not in limits.opened}
    # A share of its own holds for an input of any size.
    least = {name: 0 if name in limits.own else LEAST_ROWS for name in judged}
    changed, new = map(as_frame, store.tables.difference(before, after, COLUMNS))
    gone = changed[~changed["id"].isin(new["id"])]
    gone_at_most = Counter(map(input_of, gone["source"]))
    if not any(gone_at_most[name] > judged[name] * least[name] for name in judged):
        return
    gone = find_gone(gone, identities(store, after))
    documents_then = Counter(map(input_of, identities(store, before)["source"]))
    documents_gone = Counter(map(input_of, gone["source"]))
    for name, ratio in judged.items():
        documents, count = documents_then[name], documents_gone[name]
        if documents >= least[name] and count > ratio * documents:
            named = "the input folder" if name == FOLDER else f"input '{name}'"
            limit = f"its max_deleted {ratio:g}" if name in limits.own else ""
            raise DeletionError(
                f"{named}: {count} of its {documents} documents are gone, more than"
                f" {limit or f'max_delete_ratio {ratio:g}'}; is it whole?"
                f" {advise_on_inputs([name])}"
            )
