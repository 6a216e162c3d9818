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
    own = {name: table for name, table in manifest.tables.items() if name.endswith(suffix)}
    return Manifest(
        in_view(manifest.workflow, view),
        {name.removesuffix(suffix): table for name, table in own.items()},
        {name: record for name, record in manifest.steps.items() if name.endswith(suffix)},
    )


def digest_of_view(manifest: Manifest) -> str:
    """Return a digest of the conditions by which the documents of a view were chosen; "" if it is
    no view."""
    _, view = split_name(manifest.workflow)
    record = manifest.steps.get(in_view(DOCUMENTS_STEP, view))
    return conditions_digest(record.components["params"]["where"]) if view and record else ""


def manifest_from(content: dict[str, Any]) -> Manifest:
    return Manifest(
        content["workflow"],
        {name: snapshot_of(snapshot) for name, snapshot in content["tables"].items()},
        {name: step_record_from(record) for name, record in content["steps"].items()},
    )


def step_record_from(content: dict[str, Any]) -> StepRecord:
    outputs = {name: snapshot_of(snapshot) for name, snapshot in content["outputs"].items()}
    return StepRecord(**{**content, "outputs": outputs})


def snapshot_of(content: dict[str, Any]) -> Snapshot:
    """Return the snapshot from its record in JSON.

    Raises ValueError if it names a file that this store cannot have written.
    """
    rows, sha256 = content["rows"], content["sha256"]
    # In earlier versions a table was one file.
    if "path" in content:
        snapshot = Snapshot(rows, sha256, (TableFile(content["path"], rows),))
    else:
        files = tuple(_table_file(place, file) for place, file in enumerate(content["files"]))
        snapshot = Snapshot(rows, sha256, files, tuple(content["order"]))
    if not snapshot.files or not all(map(FILE_OF_A_TABLE.fullmatch, snapshot.paths)):
        raise ValueError(f"no snapshot: {snapshot.paths}")
    return snapshot


def _table_file(place: int, content: dict[str, Any]) -> TableFile:
    """Return a file of a table from its record in JSON; ``place`` is its position among the files.

    Before tables had buckets, records lacked ``added``: all files but the first were additions.
    """
    return TableFile(**{"added": place > 0, **content})
