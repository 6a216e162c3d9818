"""What there is of a document, said before a purge asks."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipeline.engine.deletions import DOCUMENTS
from pipeline.errors import DataError, counted
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
Rows = Mapping[str, Mapping[str, int | None]]
"""Workflow -> table -> rows that are of this document alone; None where they cannot be counted: a file is damaged."""
UNREADABLE = (OSError, ValueError, pa.ArrowException, DataError)


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
        size = "no file (any more)" if self.size is None else f"its file, {counted(self.size, 'byte')}"
        tables = [f"{workflow}: {told(rows)}" for workflow, rows in self.rows.items()]
        return [
            f"{self.document}: {size}",
            *(tables or ["no rows in the tables of any run that is kept"]),
            f"with it go {counted(self.nights, 'kept night')} of all workflows, their reports, and of "
            f"{counted(self.replies, 'cached reply or vector', 'cached replies and vectors')} those that nothing else "
            "needs",
            *(f"{workspace}: loaded again without it" for workspace in self.workspaces),
            *(f"{workspace}: cannot be reached ({why})" for workspace, why in self.unreached.items()),
        ]


def told(rows: Mapping[str, int | None]) -> str:
    known = ", ".join(f"{count:,} {table}" for table, count in rows.items() if count)
    unknown = ", ".join(table for table, count in rows.items() if count is None)
    return "; ".join(filter(None, [known, unknown and f"not known, for a file is damaged: {unknown}"])) or "no rows"


def total_of(rows: Rows) -> str:
    counts = [count for tables in rows.values() for count in tables.values()]
    least = "at least " if None in counts else ""
    return f"{least}{counted(sum(filter(None, counts)), 'row')}"


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


def rows_of(snapshots: SnapshotStore, target: Target) -> dict[str, dict[str, int | None]]:
    """Of each workflow the newest tables that have the document; where none are found to, and the documents of some
    cannot be read, these."""
    found: dict[str, dict[str, int | None]] = {}
    unknown: dict[str, dict[str, int | None]] = {}
    for manifest in all_manifests(snapshots):
        if manifest.workflow in found or DOCUMENTS not in manifest.tables:
            continue
        try:
            ids = _ids(snapshots, manifest, target)
        except UNREADABLE:
            unknown[manifest.workflow] = {DOCUMENTS: None}
            continue
        if len(ids):
            found[manifest.workflow] = _rows(snapshots, manifest, ids)
    return {**unknown, **found}


def _ids(snapshots: SnapshotStore, manifest: Manifest, target: Target) -> Any:
    """Of the documents that are meant."""
    documents = read_parquet(snapshots.root / manifest.tables[DOCUMENTS].path, ["id", "source"])
    named = [target.names(source) for source in documents["source"].to_pylist()]
    return documents["id"].filter(pa.array(named, pa.bool_()))


def _rows(snapshots: SnapshotStore, manifest: Manifest, ids: Any) -> dict[str, int | None]:
    """By table. Where the text units cannot be read, rows that are told by them cannot be counted either."""
    keys = pa.array(ids.to_pylist(), pa.string())
    has_units = TEXT_UNITS not in manifest.tables
    if not has_units:
        with suppress(*UNREADABLE):
            units = _columns(snapshots, manifest, TEXT_UNITS, ["id", "document_id"])
            own = units["id"].filter(pc.is_in(units["document_id"], ids))
            keys, has_units = pa.array([*ids.to_pylist(), *own.to_pylist()], pa.string()), True
    counts: dict[str, int | None] = {}
    for table in sorted(manifest.tables):
        counts[table] = None
        with suppress(*UNREADABLE):
            counts[table] = _count(snapshots, manifest, table, keys, has_units)
    return counts


def _count(snapshots: SnapshotStore, manifest: Manifest, table: str, keys: pa.Array, has_units: bool) -> int | None:
    names = pq.read_schema(snapshots.root / manifest.tables[table].path).names
    name = next((name for name in (SOURCES, *NAMING) if name in names), None)
    if name is None:
        return 0
    if not has_units and name != NAMING[0] and table != DOCUMENTS:
        return None
    found = _columns(snapshots, manifest, table, [name])
    if name == SOURCES:
        return _of_these_alone(found[name].combine_chunks(), keys)
    return int(pc.sum(pc.is_in(found[name], keys)).as_py() or 0) if len(found) else 0


def _of_these_alone(sources: Any, keys: pa.Array) -> int:
    """Lists that have an entry, and none but the keys."""
    if not len(sources) or not pa.types.is_nested(sources.type):
        return 0
    parents = pc.list_parent_indices(sources).to_numpy()
    ours = pc.is_in(pc.list_flatten(sources), keys).to_numpy(zero_copy_only=False)
    lengths = np.bincount(parents, minlength=len(sources))
    return int(((lengths > 0) & (np.bincount(parents, weights=ours, minlength=len(sources)) == lengths)).sum())


def _columns(snapshots: SnapshotStore, manifest: Manifest, table: str, names: list[str]) -> pa.Table:
    """Raises one of UNREADABLE where the file is gone or damaged."""
    return snapshots.table(manifest.tables[table], names)
