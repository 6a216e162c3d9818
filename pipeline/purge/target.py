"""The document that a purge is for: finds it by its name, and counts what there is of it."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
from pipeline.documents.files import list_files
from pipeline.documents.input_files import one_line
from pipeline.engine.documents.deletions import DOCUMENTS, is_of
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
"""The least score of rapidfuzz's WRatio, from 0 to 100, of names that are suggested."""


@dataclass(frozen=True)
class PurgeTarget:
    """The document to purge.

    ``source`` is its name in the tables: a path below the input folder, or a record of one, such as
    ``people.csv#42``. ``path`` is its file, or None if it has none.
    """

    source: str
    path: Path | None

    def matches(self, source: str) -> bool:
        """Return whether a source in the tables is this document, or a record of it."""
        return is_of(source, self.source)


def read_target(
    project: Services, document: str, under_way: Collection[str], elsewhere: Callable[[str], bool]
) -> PurgeTarget:
    """Return the document that a name means.

    ``document`` is a path below the input folder, the project or the present folder, or a record
    such as ``people.csv#42``; its file may be gone. ``under_way`` has the documents whose purge was
    begun. ``elsewhere`` is called last: it returns whether the stores know a name.

    Names in the tables have escapes in place of control characters, and of bytes that are no text.

    Raises UsageError, with the most similar names, for a path outside, a folder, or an unknown
    name.
    """
    names = list(dict.fromkeys(map(one_line, _possible_names(project, document))))
    document = one_line(document)
    if not names:
        raise UsageError(
            f"purge: {document} is not below {project.input_folder}; name a file there"
        )
    known = KnownDocuments(project)
    for name in names:
        path = known.file(name)
        if path or name in under_way or known.has(name):
            return PurgeTarget(name, path)
    for name in names:
        if (project.input_folder / name).is_dir():
            raise UsageError(f"purge: {document} is a folder; name one file at a time")
    for name in names:
        if elsewhere(name):
            return PurgeTarget(name, None)
    raise UsageError(_describe_unknown(document, names, known))


@dataclass(frozen=True)
class KnownDocuments:
    """The documents that a project has, and those that it had.

    ``unread`` has the files of tables that could not be read, once ``sources`` was read.
    """

    project: Services
    unread: list[str] = field(default_factory=list)

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """The files below the input folder by their names, whether a workflow reads them or not."""
        # The input folder may not exist.
        with suppress(SettingsError):
            listed = list_files(str(self.project.input_folder), "**/*")
            return {file.name: file.path for file in listed.files}
        return {}

    def file(self, name: str) -> Path | None:
        path = self.files.get(name, self.project.input_folder / name)
        return path if path.is_symlink() or path.is_file() else None

    @cached_property
    def sources(self) -> frozenset[str]:
        """The sources in every table of documents that is kept, including those of unfinished
        runs."""
        found: set[str] = set()
        for frame in _document_tables(self.project.snapshots, self.unread):
            found.update(frame["source"])
        return frozenset(found)

    @cached_property
    def rejected(self) -> frozenset[str]:
        """The names of files that could not be read, according to the rejects."""
        return frozenset(_rejected_files(self.project.snapshots))

    def has(self, name: str) -> bool:
        return any(is_of(source, name) for source in self.sources | self.rejected)

    @property
    def all(self) -> list[str]:
        return sorted({*self.files, *self.sources, *self.rejected})


def _possible_names(project: Services, document: str) -> Iterator[str]:
    """Yield the names that a document may have in the tables.

    For a symbolic link, the link itself is meant.
    """
    if _is_plain_name(document):
        yield document
    # Either path may lead through a symbolic link, so both are compared in both forms.
    folders = (project.input_folder, project.input_folder.resolve())
    for base in (project.input_folder, project.root, Path.cwd()):
        path = Path(os.path.normpath(base / document))
        resolved_but_itself = path.parent.resolve() / path.name
        for form in (path, resolved_but_itself):
            for folder in folders:
                if form != folder and form.is_relative_to(folder):
                    yield form.relative_to(folder).as_posix()


def _is_plain_name(document: str) -> bool:
    """Return whether the tables may have the document under this name, exactly as it is given."""
    path = Path(document)
    if not path.parts or path.is_absolute():
        return False
    return not {".", ".."} & set(document.split("/"))


def _describe_unknown(document: str, names: Sequence[str], known: KnownDocuments) -> str:
    where = f"purge: {document}: no file, no document of any run that is kept, no record"
    if GLOB & set(document):
        fitting = [name for name in known.all if _fits_any(name, names)]
        listed = f"; it fits {_list_names(fitting)}" if fitting else ""
        return f"{where}{listed}; patterns are not taken: name one document at a time"
    similar = process.extract(names[0], known.all, limit=NAMED, score_cutoff=LIKENESS)
    near = [name for name, *_ in similar]
    if not near:
        return f"{where}; nothing was touched"
    return f"{where}; did you mean {_list_names(near)}? Nothing was touched"


def _fits_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _list_names(names: Sequence[str]) -> str:
    shown = list(names[:NAMED])
    if len(names) > NAMED:
        shown.append("...")
    return ", ".join(shown)


def _document_tables(snapshots: SnapshotStore, unread: list[str]) -> Iterator[pd.DataFrame]:
    """Yield the sources of every table of documents, found by its columns.

    Its name is not enough: a workflow may filter documents under another name. A table that cannot
    be read, because it is damaged or was just written, is skipped, and its name added to
    ``unread``.
    """
    names: list[str] = []
    for file in snapshots.all_files():
        is_table = PurePosixPath(file.name).match("*/*.parquet")
        if is_table and f"/{GONE_FOLDER}/" not in file.name:
            names.append(file.name)
    readable = dict(snapshots.folder.columns(names))
    unread += [name for name in names if name not in readable]
    for name, columns in readable.items():
        if not {"source", "content_hash"} <= set(columns):
            continue
        # The file may belong to no manifest, so it is read as a table of this file alone.
        table = Snapshot(0, PurePosixPath(name).stem, (TableFile(name, 0),))
        try:
            frame = as_frame(snapshots.tables.read_arrow(table, ["source"]))
        except UNREADABLE:
            unread.append(name)
            continue
        yield frame


def _rejected_files(snapshots: SnapshotStore) -> Iterator[str]:
    """Yield the names of files with rejects, in the rejects of all manifests."""
    for manifest in all_manifests(snapshots):
        loading_steps = [
            step for step, record in manifest.steps.items() if DOCUMENTS in record.outputs
        ]
        rejects = manifest.tables.get("rejects")
        if not loading_steps or rejects is None:
            continue
        with suppress(DataError):
            rows = snapshots.tables.read(rejects, ["step", "row_id"])
            is_of_file = rows["step"].isin(loading_steps)
            places = rows.loc[is_of_file, "row_id"]
            # A place may be a line of a file: people.csv:42.
            yield from places.str.replace(r":\d+$", "", regex=True)


def all_manifests(snapshots: SnapshotStore) -> Iterator[Manifest]:
    """Yield the live manifest of each workflow, then its kept ones, the newest first."""
    for workflow in snapshots.workflows():
        yield snapshots.manifest(workflow)
        yield from snapshots.kept_manifests(workflow, reversed(snapshots.history(workflow)))


# PyArrow creates the functions of this module on import, so type checkers see none of them.
pc: Any = pyarrow.compute

TEXT_UNITS = "text_units"
NAMING = ("document_id", "text_unit_id", "id")
"""The columns that say to which document a row belongs."""
SOURCES = "text_unit_ids"
Rows = Mapping[str, Mapping[str, int | None]]
"""Workflow -> table -> rows that are of this document alone; None where they cannot be counted: a
file is damaged."""
UNREADABLE = (OSError, ValueError, pa.ArrowException, DataError)


@dataclass(frozen=True)
class Survey:
    """The findings of a purge before it deletes anything.

    - ``size`` is that of the document's file in bytes, None if it has none.
    - ``rows`` are those in the newest tables that have it.
    - ``runs`` counts kept manifests, ``replies`` the cached replies of this project. Of the
      replies, those that no other document needs are deleted.
    - ``asks`` says what the next run would have to ask again.
    - ``going_on`` is true if the purge was begun before.
    """

    document: str
    size: int | None
    rows: Rows
    runs: int
    replies: int
    workspaces: Sequence[Workspace]
    unreached: Mapping[Workspace, str]
    going_on: bool = False
    asks: NextCalls = NextCalls()

    def lines(self) -> list[str]:
        size = "no file (any more)"
        if self.size is not None:
            size = f"its file, {counted(self.size, 'byte')}"
        tables = [f"{workflow}: {describe_rows(rows)}" for workflow, rows in self.rows.items()]
        runs = counted(self.runs, "kept run")
        replies = counted(self.replies, "cached reply or vector", "cached replies and vectors")
        lines = [f"{self.document}: {size}"]
        lines += tables or ["no rows in the tables of any run that is kept"]
        lines.append(
            f"also deleted: the history of all workflows ({runs}, with reports), and of {replies}"
            " each one that no other document needs"
        )
        lines.append(self.asks.line())
        lines += [f"{workspace}: loaded again without it" for workspace in self.workspaces]
        for workspace, why in self.unreached.items():
            lines.append(f"{workspace}: cannot be reached ({why})")
        return lines


def describe_rows(rows: Mapping[str, int | None]) -> str:
    """Return the number of rows by table as text; None stands for an unknown number."""
    known: list[str] = []
    unknown: list[str] = []
    for table, count in rows.items():
        if count is None:
            unknown.append(table)
        elif count > 0:
            known.append(f"{count:,} {table}")
    parts: list[str] = []
    if known:
        parts.append(", ".join(known))
    if unknown:
        parts.append(f"not known, for a file is damaged: {', '.join(unknown)}")
    return "; ".join(parts) or "no rows"


def total_of(rows: Rows) -> str:
    """Return the number of rows of all workflows as text."""
    total = 0
    is_complete = True
    for tables in rows.values():
        for count in tables.values():
            if count is None:
                is_complete = False
            else:
                total += count
    number = counted(total, "row")
    return number if is_complete else f"at least {number}"


def survey(
    project: Services, target: PurgeTarget, found: WorkspaceSearch, going_on: bool, asks: NextCalls
) -> Survey:
    snapshots = project.snapshots
    # The size of a symbolic link is its own: the file that it leads to stays.
    size = target.path.lstat().st_size if target.path else None
    return Survey(
        document=target.source,
        size=size,
        rows=rows_of(snapshots, target),
        runs=sum(len(snapshots.history(workflow)) for workflow in snapshots.workflows()),
        replies=project.cache.owned(),
        workspaces=[held.workspace for held in found.held],
        unreached=found.unreached,
        going_on=going_on,
        asks=asks,
    )


def rows_of(snapshots: SnapshotStore, target: PurgeTarget) -> dict[str, dict[str, int | None]]:
    """Return the rows of the document by workflow and table, in the newest tables that have it.

    If no table of a workflow has it, but its documents could not be read, their count is None.
    """
    found: dict[str, dict[str, int | None]] = {}
    unknown: dict[str, dict[str, int | None]] = {}
    for manifest in all_manifests(snapshots):
        if manifest.workflow in found or DOCUMENTS not in manifest.tables:
            continue
        try:
            ids = document_ids(snapshots, manifest, target)
        except UNREADABLE:
            unknown[manifest.workflow] = {DOCUMENTS: None}
            continue
        if len(ids):
            found[manifest.workflow] = _count_rows(snapshots, manifest, ids)
    return {**unknown, **found}


def document_ids(snapshots: SnapshotStore, manifest: Manifest, target: PurgeTarget) -> Any:
    """Return the ids of the documents that the target names."""
    documents = snapshots.tables.read_arrow(manifest.tables[DOCUMENTS], ["id", "source"])
    sources = documents["source"].to_pylist()
    is_named = pa.array([target.matches(source) for source in sources], pa.bool_())
    return documents["id"].filter(is_named)


def _count_rows(snapshots: SnapshotStore, manifest: Manifest, ids: Any) -> dict[str, int | None]:
    """Return the number of the documents' rows by table.

    If the text units cannot be read, rows that are found by them have the count None.
    """
    keys = ids.to_pylist()
    # A workflow without text units has no rows that are found by them.
    knows_units = TEXT_UNITS not in manifest.tables
    if not knows_units:
        with suppress(*UNREADABLE):
            units = _read_columns(snapshots, manifest, TEXT_UNITS, ["id", "document_id"])
            is_own = pc.is_in(units["document_id"], ids)
            keys += units["id"].filter(is_own).to_pylist()
            knows_units = True
    key_array = pa.array(keys, pa.string())
    counts: dict[str, int | None] = {}
    for table in sorted(manifest.tables):
        counts[table] = None
        with suppress(*UNREADABLE):
            counts[table] = _count_in_table(snapshots, manifest, table, key_array, knows_units)
    return counts


def _count_in_table(
    snapshots: SnapshotStore, manifest: Manifest, table: str, keys: pa.Array, knows_units: bool
) -> int | None:
    """Return the number of the document's rows in a table; None if it cannot be known.

    ``keys``: the ids of the document and of its text units. ``knows_units``: whether the latter are
    among them.
    """
    columns = snapshots.tables.columns(manifest.tables[table])
    naming = [name for name in (SOURCES, *NAMING) if name in columns]
    if not naming:
        return 0
    name = naming[0]
    is_found_by_document = name == "document_id" or table == DOCUMENTS
    if not knows_units and not is_found_by_document:
        return None
    rows = _read_columns(snapshots, manifest, table, [name])
    if name == SOURCES:
        return _count_within(rows[name].combine_chunks(), keys)
    is_own = pc.is_in(rows[name], keys)
    # The sum of no rows is null.
    return int(pc.sum(is_own).as_py() or 0)


def _count_within(sources: Any, keys: pa.Array) -> int:
    """Return how many lists have an entry, and no entry outside of the keys."""
    if not len(sources) or not pa.types.is_nested(sources.type):
        return 0
    list_of_entry = pc.list_parent_indices(sources).to_numpy()
    is_key = pc.is_in(pc.list_flatten(sources), keys).to_numpy(zero_copy_only=False)
    n_entries = np.bincount(list_of_entry, minlength=len(sources))
    n_keys = np.bincount(list_of_entry, weights=is_key, minlength=len(sources))
    is_within = (n_entries > 0) & (n_keys == n_entries)
    return int(is_within.sum())


def _read_columns(
    snapshots: SnapshotStore, manifest: Manifest, table: str, names: list[str]
) -> pa.Table:
    """Read columns of a table. Raises one of UNREADABLE if a file is missing or damaged."""
    return snapshots.tables.read_arrow(manifest.tables[table], names)
