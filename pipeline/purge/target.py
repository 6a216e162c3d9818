"""Which document a purge is for, that there is one, and what there is of it."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from rapidfuzz import process

from pipeline.contract.cells import as_frame
from pipeline.documents.files import list_files, one_line
from pipeline.engine.deletions import DOCUMENTS, is_of
from pipeline.errors import DataError, SettingsError, UsageError, counted
from pipeline.purge.next_calls import NextCalls
from pipeline.purge.workspaces import WorkspaceSearch
from pipeline.runs.services import Services
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.snapshots.tables import GONE_FOLDER, Snapshot, TableFile
from pipeline.stores.loaded_workspaces import Workspace

GLOB = frozenset("*?[")
NAMED = 5
LIKENESS = 60
"""Of rapidfuzz's WRatio, 0 to 100."""


@dataclass(frozen=True)
class PurgeTarget:
    """``source``: as the tables name it: a path below the input folder, or a record of one,
    ``people.csv#42``. ``path``: its file, None where there is none (any more)."""

    source: str
    path: Path | None

    def names(self, source: str) -> bool:
        return is_of(source, self.source)


def read_target(
    project: Services, document: str, under_way: Collection[str], elsewhere: Callable[[str], bool]
) -> PurgeTarget:
    """``document``: a path, below the input folder, the project or the present folder, or a record,
    ``people.csv#42``; also one whose file is gone. ``under_way``: those whose purge goes on;
    ``elsewhere``: asked last, whether the stores know of a name.

    The tables have escapes where a file system has control characters, or what is no text.

    Raises UsageError for what is outside, a folder, or nowhere, with the names that come nearest.
    """
    names = list(dict.fromkeys(map(one_line, _names(project, document))))
    document = one_line(document)
    if not names:
        raise UsageError(
            f"purge: {document} is not below {project.input_folder}; name a file there"
        )
    known = KnownDocuments(project)
    for name in names:
        if (path := known.file(name)) or name in under_way or known.has(name):
            return PurgeTarget(name, path)
    for name in names:
        if (project.input_folder / name).is_dir():
            raise UsageError(f"purge: {document} is a folder; name one file at a time")
    for name in names:
        if elsewhere(name):
            return PurgeTarget(name, None)
    raise UsageError(_unknown(document, names, known))


@dataclass(frozen=True)
class KnownDocuments:
    """What documents a project has, and had."""

    project: Services

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """By name, those that are below the input folder, whether they are read or not."""
        with suppress(SettingsError):  # no such folder
            return {
                file.name: file.path
                for file in list_files(str(self.project.input_folder), "**/*").files
            }
        return {}

    def file(self, name: str) -> Path | None:
        path = self.files.get(name, self.project.input_folder / name)
        return path if path.is_symlink() or path.is_file() else None

    @cached_property
    def sources(self) -> frozenset[str]:
        """In any table of documents that is kept, also those of runs that did not end."""
        return frozenset(
            source
            for frame in _document_tables(self.project.snapshots)
            for source in frame["source"]
        )

    @cached_property
    def rejected(self) -> frozenset[str]:
        """Names of files that could not be read: rejects tell of them."""
        return frozenset(name for name in _rejected(self.project.snapshots))

    def has(self, name: str) -> bool:
        return any(is_of(source, name) for source in self.sources | self.rejected)

    @property
    def all(self) -> list[str]:
        return sorted({*self.files, *self.sources, *self.rejected})


def _names(project: Services, document: str) -> Iterator[str]:
    """What a document may be called in the tables. A link is meant itself, not what it leads to."""
    yield from [document] if _plain(document) else []
    for base in (project.input_folder, project.root, Path.cwd()):
        path = Path(os.path.normpath(base / document))
        for there in (path, path.parent.resolve() / path.name):
            for folder in (project.input_folder, project.input_folder.resolve()):
                if there != folder and there.is_relative_to(folder):
                    yield there.relative_to(folder).as_posix()


def _plain(document: str) -> bool:
    """Whether it can be a name in the tables just as it is given."""
    path = Path(document)
    return (
        bool(path.parts) and not path.is_absolute() and not {".", ".."} & set(document.split("/"))
    )


def _unknown(document: str, names: Sequence[str], known: KnownDocuments) -> str:
    where = f"purge: {document}: no file, no document of any run that is kept, no record"
    if GLOB & set(document):
        fitting = [
            name for name in known.all if any(fnmatchcase(name, pattern) for pattern in names)
        ]
        listed = f"; it fits {_listed(fitting)}" if fitting else ""
        return f"{where}{listed}; patterns are not taken: name one document at a time"
    near = [
        name
        for name, *_ in process.extract(names[0], known.all, limit=NAMED, score_cutoff=LIKENESS)
    ]
    meant = f"; did you mean {_listed(near)}?" if near else ""
    return f"{where}{meant} Nothing was touched" if near else f"{where}; nothing was touched"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])


def _document_tables(snapshots: SnapshotStore) -> Iterator[pd.DataFrame]:
    """Whatever a step calls them: a workflow may filter documents under another name. One that
    cannot be read, damaged or just written, tells nothing."""
    names = [
        kept.name for kept in snapshots.all_files() if PurePosixPath(kept.name).match("*/*.parquet")
    ]
    for name, columns in snapshots.folder.columns(
        [name for name in names if f"/{GONE_FOLDER}/" not in name]
    ):
        if {"source", "content_hash"} <= set(columns):
            with suppress(*UNREADABLE):
                rows = Snapshot(0, PurePosixPath(name).stem, (TableFile(name, 0),))
                yield as_frame(snapshots.tables.read_arrow(rows, ["source"]))


def _rejected(snapshots: SnapshotStore) -> Iterator[str]:
    for manifest in all_manifests(snapshots):
        loading = {step for step, record in manifest.steps.items() if DOCUMENTS in record.outputs}
        rejects = manifest.tables.get("rejects")
        if not loading or rejects is None:
            continue
        with suppress(DataError):
            rows = snapshots.tables.read(rejects, ["step", "row_id"])
            places = rows.loc[rows["step"].isin(loading), "row_id"]
            yield from places.str.replace(r":\d+$", "", regex=True)


def all_manifests(snapshots: SnapshotStore) -> Iterator[Manifest]:
    """Of every workflow the live one, then those that are kept, the newest first."""
    for workflow in snapshots.workflows():
        yield snapshots.manifest(workflow)
        yield from snapshots.kept_manifests(workflow, reversed(snapshots.history(workflow)))


pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

TEXT_UNITS = "text_units"
NAMING = ("document_id", "text_unit_id", "id")
"""Columns by which a row is of a document."""
SOURCES = "text_unit_ids"
Rows = Mapping[str, Mapping[str, int | None]]
"""Workflow -> table -> rows that are of this document alone; None where they cannot be counted: a
file is damaged."""
UNREADABLE = (OSError, ValueError, pa.ArrowException, DataError)


@dataclass(frozen=True)
class Survey:
    """``size``: of its file in bytes, None where there is none; ``rows``: of the newest tables that
    have it; ``asks``: what the next run has to ask for what goes; ``nights``: kept manifests,
    ``replies``: cached ones of this project, of which those go that no other document needs."""

    document: str
    size: int | None
    rows: Rows
    nights: int
    replies: int
    workspaces: Sequence[Workspace]
    unreached: Mapping[Workspace, str]
    going_on: bool = False
    asks: NextCalls = NextCalls()

    def lines(self) -> list[str]:
        size = (
            "no file (any more)" if self.size is None else f"its file, {counted(self.size, 'byte')}"
        )
        tables = [f"{workflow}: {told(rows)}" for workflow, rows in self.rows.items()]
        return [
            f"{self.document}: {size}",
            *(tables or ["no rows in the tables of any run that is kept"]),
            (
                f"also deleted: the history of all workflows ({counted(self.nights, 'kept run')},"
                " with reports), and of"
                f" {counted(self.replies, 'cached reply or vector', 'cached replies and vectors')}"
                " each one that no other document needs"
            ),
            self.asks.line(),
            *(f"{workspace}: loaded again without it" for workspace in self.workspaces),
            *(
                f"{workspace}: cannot be reached ({why})"
                for workspace, why in self.unreached.items()
            ),
        ]


def told(rows: Mapping[str, int | None]) -> str:
    known = ", ".join(f"{count:,} {table}" for table, count in rows.items() if count)
    unknown = ", ".join(table for table, count in rows.items() if count is None)
    return (
        "; ".join(filter(None, [known, unknown and f"not known, for a file is damaged: {unknown}"]))
        or "no rows"
    )


def total_of(rows: Rows) -> str:
    counts = [count for tables in rows.values() for count in tables.values()]
    least = "at least " if None in counts else ""
    return f"{least}{counted(sum(filter(None, counts)), 'row')}"


def survey(
    project: Services, target: PurgeTarget, found: WorkspaceSearch, going_on: bool, asks: NextCalls
) -> Survey:
    return Survey(
        target.source,
        target.path.lstat().st_size if target.path else None,
        rows_of(project.snapshots, target),
        sum(len(project.snapshots.history(name)) for name in project.snapshots.workflows()),
        project.cache.owned(),
        [held.workspace for held in found.held],
        found.unreached,
        going_on,
        asks,
    )


def rows_of(snapshots: SnapshotStore, target: PurgeTarget) -> dict[str, dict[str, int | None]]:
    """Of each workflow the newest tables that have the document; where none are found to, and the
    documents of some cannot be read, these."""
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


def _ids(snapshots: SnapshotStore, manifest: Manifest, target: PurgeTarget) -> Any:
    """Of the documents that are meant."""
    documents = snapshots.tables.read_arrow(manifest.tables[DOCUMENTS], ["id", "source"])
    named = [target.names(source) for source in documents["source"].to_pylist()]
    return documents["id"].filter(pa.array(named, pa.bool_()))


def _rows(snapshots: SnapshotStore, manifest: Manifest, ids: Any) -> dict[str, int | None]:
    """By table. Where the text units cannot be read, rows that are told by them cannot be counted
    either."""
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


def _count(
    snapshots: SnapshotStore, manifest: Manifest, table: str, keys: pa.Array, has_units: bool
) -> int | None:
    names = snapshots.tables.columns(manifest.tables[table])
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
    return int(
        (
            (lengths > 0) & (np.bincount(parents, weights=ours, minlength=len(sources)) == lengths)
        ).sum()
    )


def _columns(
    snapshots: SnapshotStore, manifest: Manifest, table: str, names: list[str]
) -> pa.Table:
    """Raises one of UNREADABLE where the file is gone or damaged."""
    return snapshots.tables.read_arrow(manifest.tables[table], names)
