"""Which manifest was live when a run ended."""

from collections.abc import Sequence

import pandas as pd

from pipeline.engine.step import REJECTS
from pipeline.errors import DataError, UsageError
from pipeline.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.snapshots import Manifest, SnapshotStore

LISTED = 5


def loaded_rejects(run: str | None, workflow: str, snapshots: SnapshotStore) -> pd.DataFrame | None:
    """The rejects of the tables that this run of the workflow brought to the stores; None for no run, no row where
    those tables are no longer kept, or cannot be read."""
    if run is None:
        return None
    until = [id for id in snapshots.history(workflow) if id <= run]
    known = next((manifest.tables.get(REJECTS) for manifest in snapshots.kept(workflow, until[-1:])), None)
    return snapshots.read(known) if known and snapshots.exists(known) else REJECTS_SCHEMA.frame()


def manifest_of(run: str, workflow: str, snapshots: SnapshotStore, runs: Sequence[str]) -> Manifest:
    """The workflow's manifest as it was at the end of a run. ``run``: the run's id, or the beginning of one that
    no other has; ``runs``: ids of the workflow's runs.

    Raises UsageError when that names no run or several, DataError when what the run had is no longer kept.
    """
    kept = snapshots.history(workflow)
    known = sorted({*kept, *runs}, reverse=True)
    named = [run] if run in known else [id for id in known if id.startswith(run)]
    if len(named) != 1:
        found = f"{len(named)} runs begin so" if named else "no such run"
        have = ", ".join((named or known)[:LISTED]) or f"none; run 'graphmill index {workflow}'"
        raise UsageError(f"workflow '{workflow}', manifest '{run}': {found}; the newest are: {have}")
    until = [id for id in kept if id <= named[0]]
    if not until:
        have = f"the oldest is {kept[0]}" if kept else f"there is none; run 'graphmill index {workflow}'"
        raise DataError(f"workflow '{workflow}': no manifest is kept from the time of run {named[0]}; {have}")
    manifest = snapshots.manifest(workflow, until[-1])
    for table, snapshot in manifest.tables.items():
        if not snapshots.exists(snapshot):
            raise DataError(
                f"{snapshots.root / snapshot.path}: gone or damaged, and table '{table}' of run {named[0]} with it; "
                f"choose a later run: {', '.join(sorted(kept, reverse=True)[:LISTED])}"
            )
    return manifest
