"""What there is of a document, said before a purge asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipeline.engine.deletions import DOCUMENTS
from pipeline.errors import DataError
from pipeline.purge.target import Target, all_manifests
from pipeline.purge.workspaces import Found
from pipeline.services import Services
from pipeline.snapshots import Manifest, SnapshotStore, read_parquet
from pipeline.stores.loaded_workspaces import Workspace

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

TEXT_UNITS = "text_units"
NAMING = ("document_id", "text_unit_id", "id")
"""Columns by which a row is of a document."""
SOURCES = "text_unit_ids"
Rows = Mapping[str, Mapping[str, int]]
"""Workflow -> table -> rows that are of this document alone."""


@dataclass(frozen=True)
class Survey:
    """``size``: of its file in bytes, None where there is none; ``rows``: of the newest tables that have it;
    ``nights``: kept manifests, ``replies``: cached ones of this project, of which those go that no other document
    needs."""

    document: str
    size: int | None
    rows: Rows
    nights: int
    replies: int
    workspaces: Sequence[Workspace]
    unreached: Mapping[Workspace, str]
    going_on: bool = False

    def lines(self) -> list[str]:
        size = "no file (any more)" if self.size is None else f"its file, {self.size:,} bytes"
        tables = [f"{workflow}: {told(rows)}" for workflow, rows in self.rows.items()]
        return [
            f"{self.document}: {size}",
            *(tables or ["no rows in the tables of any run that is kept"]),
            f"with it go the {self.nights} kept nights of all workflows, their reports, and those of "
            f"{self.replies:,} cached replies and vectors that nothing else needs",
            *(f"{workspace}: loaded again without it" for workspace in self.workspaces),
            *(f"{workspace}: cannot be reached ({why})" for workspace, why in self.unreached.items()),
        ]


def told(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {table}" for table, count in rows.items() if count) or "no rows"


def survey(project: Services, target: Target, found: Found, going_on: bool) -> Survey:
    return Survey(
        target.source,
        target.path.lstat().st_size if target.path else None,
        rows_of(project.snapshots, target),
        sum(len(project.snapshots.history(name)) for name in project.snapshots.workflows()),
        project.cache.owned(),
        [held.workspace for held in found.held],
        found.unreached,
        going_on,
    )


def rows_of(snapshots: SnapshotStore, target: Target) -> dict[str, dict[str, int]]:
    """Of each workflow the newest tables that have the document."""
    found: dict[str, dict[str, int]] = {}
    for manifest in all_manifests(snapshots):
        if manifest.workflow not in found and (rows := _rows(snapshots, manifest, target)):
            found[manifest.workflow] = rows
    return found


def _rows(snapshots: SnapshotStore, manifest: Manifest, target: Target) -> dict[str, int]:
    """By table; none where the document is not among its documents, or the tables cannot be read any more."""
    try:
        documents = _columns(snapshots, manifest, DOCUMENTS, ["id", "source"])
        if documents is None:
            return {}
        named = [target.names(source) for source in documents["source"].to_pylist()]
        ids = documents["id"].filter(pa.array(named, pa.bool_()))
        if not len(ids):
            return {}
        units = _columns(snapshots, manifest, TEXT_UNITS, ["id", "document_id"])
        own = [] if units is None else units["id"].filter(pc.is_in(units["document_id"], ids)).to_pylist()
        keys = pa.array([*ids.to_pylist(), *own], pa.string())
        return {table: _count(snapshots, manifest, table, keys) for table in sorted(manifest.tables)}
    except (OSError, pa.ArrowException, DataError):
        return {}


def _count(snapshots: SnapshotStore, manifest: Manifest, table: str, keys: pa.Array) -> int:
    names = pq.read_schema(snapshots.root / manifest.tables[table].path).names
    if SOURCES in names:
        found = _columns(snapshots, manifest, table, [SOURCES])
        return _of_these_alone(found[SOURCES].combine_chunks(), keys) if found is not None else 0
    for name in NAMING:
        if name in names:
            found = _columns(snapshots, manifest, table, [name])
            return int(pc.sum(pc.is_in(found[name], keys)).as_py() or 0) if found is not None and len(found) else 0
    return 0


def _of_these_alone(sources: Any, keys: pa.Array) -> int:
    """Lists that have an entry, and none but the keys."""
    if not len(sources) or not pa.types.is_nested(sources.type):
        return 0
    parents = pc.list_parent_indices(sources).to_numpy()
    ours = pc.is_in(pc.list_flatten(sources), keys).to_numpy(zero_copy_only=False)
    lengths = np.bincount(parents, minlength=len(sources))
    return int(((lengths > 0) & (np.bincount(parents, weights=ours, minlength=len(sources)) == lengths)).sum())


def _columns(snapshots: SnapshotStore, manifest: Manifest, table: str, names: list[str]) -> pa.Table | None:
    if table not in manifest.tables:
        return None
    return read_parquet(snapshots.root / manifest.tables[table].path, names)
