"""The records of snapshots: what a step wrote, and the live tables of a workflow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.contract.views import DOCUMENTS_STEP, conditions_digest, in_view, split_name
from pipeline.snapshots.tables import FILE_OF_A_TABLE, Snapshot, TableFile


@dataclass(frozen=True)
class StepRecord:
    """The record of what a step with this fingerprint wrote.

    ``components`` are the parts of the fingerprint, kept to say later which of them changed.
    ``retry`` marks a step some of whose rows failed with a transient error: its record must not be
    reused.
    """

    step: str
    fingerprint: str
    components: Mapping[str, Any]
    outputs: Mapping[str, Snapshot]
    retry: bool = False


@dataclass(frozen=True)
class Manifest:
    """The live tables of a workflow and the records of the steps that wrote them."""

    workflow: str
    tables: Mapping[str, Snapshot] = field(default_factory=dict)
    steps: Mapping[str, StepRecord] = field(default_factory=dict)


def view_of(manifest: Manifest, view: str) -> Manifest:
    """Return the tables of a view, by the names that they have in the workflow; none if the view
    was not made."""
    suffix = in_view("", view)
    tables: dict[str, Snapshot] = {}
    for name, table in manifest.tables.items():
        if name.endswith(suffix):
            tables[name.removesuffix(suffix)] = table
    records = manifest.steps.items()
    steps = {name: record for name, record in records if name.endswith(suffix)}
    workflow_of_view = in_view(manifest.workflow, view)
    return Manifest(workflow_of_view, tables, steps)


def digest_of_view(manifest: Manifest) -> str:
    """Return a digest of the conditions by which the documents of a view were chosen; "" if it is
    no view."""
    _, view = split_name(manifest.workflow)
    documents_step = manifest.steps.get(in_view(DOCUMENTS_STEP, view))
    if not view or documents_step is None:
        return ""
    params = documents_step.components["params"]
    return conditions_digest(params["where"])


def manifest_from(content: dict[str, Any]) -> Manifest:
    tables = {name: snapshot_of(record) for name, record in content["tables"].items()}
    steps = {name: step_record_from(record) for name, record in content["steps"].items()}
    return Manifest(content["workflow"], tables, steps)


def step_record_from(content: dict[str, Any]) -> StepRecord:
    outputs = {name: snapshot_of(record) for name, record in content["outputs"].items()}
    return StepRecord(**{**content, "outputs": outputs})


def snapshot_of(content: dict[str, Any]) -> Snapshot:
    """Return the snapshot from its record in JSON.

    Raises ValueError if it names a file that this store cannot have written.
    """
    rows = content["rows"]
    if "path" in content:
        # In earlier versions a table was one file.
        files = [TableFile(content["path"], rows)]
        order: tuple[str, ...] = ()
    else:
        records = content["files"]
        files = [_table_file(place, record) for place, record in enumerate(records)]
        order = tuple(content["order"])
    snapshot = Snapshot(rows, content["sha256"], tuple(files), order)
    all_are_of_tables = all(FILE_OF_A_TABLE.fullmatch(path) for path in snapshot.paths)
    if not files or not all_are_of_tables:
        raise ValueError(f"no snapshot: {snapshot.paths}")
    return snapshot


def _table_file(place: int, content: dict[str, Any]) -> TableFile:
    """Return a file of a table from its record in JSON; ``place`` is its position among the files.

    Before tables had buckets, records lacked ``added``: all files but the first were additions.
    """
    return TableFile(**{"added": place > 0, **content})
