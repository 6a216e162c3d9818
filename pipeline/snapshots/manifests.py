"""What is recorded of snapshots, and how it is read again: what a step wrote, and the live tables
of a workflow."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.contract.views import DOCUMENTS_STEP, conditions_digest, in_view, split_name
from pipeline.snapshots.tables import GONE_FOLDER, Snapshot, TableFile

FILE_OF_A_TABLE = re.compile(rf"(?!\.\.?/)[^/]+/({GONE_FOLDER}/)?[0-9a-f]{{64}}\.parquet")


@dataclass(frozen=True)
class StepRecord:
    """What a step with this fingerprint wrote. ``components`` are the parts of the fingerprint,
    kept to say later which of them changed; ``retry`` marks rows that failed for a passing reason,
    so that the record is no ground for reuse."""

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
    """Return what stands for the conditions that the documents of a view were chosen by; "" for no
    view."""
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
    """Raises ValueError for one that names a file which this store has not written."""
    if "path" in content:  # of a version before tables of several files
        snapshot = Snapshot(
            content["rows"], content["sha256"], (TableFile(content["path"], content["rows"]),)
        )
    else:
        files = tuple(_table_file(place, file) for place, file in enumerate(content["files"]))
        snapshot = Snapshot(content["rows"], content["sha256"], files, tuple(content["order"]))
    if not snapshot.files or not all(map(FILE_OF_A_TABLE.fullmatch, snapshot.paths)):
        raise ValueError(f"no snapshot: {snapshot.paths}")
    return snapshot


def _table_file(place: int, content: dict[str, Any]) -> TableFile:
    """Before tables had buckets, the first file was the only one that was not added."""
    return TableFile(**{"added": place > 0, **content})
