"""Which document a purge is for, and that there is one: a name that is nowhere is refused, never certified."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rapidfuzz import process

from pipeline.documents.files import input_files, one_line
from pipeline.engine.deletions import DOCUMENTS, is_of
from pipeline.errors import DataError, SettingsError, UsageError
from pipeline.services import Services
from pipeline.snapshots import Manifest, SnapshotStore

GLOB = frozenset("*?[")
NAMED = 5
LIKENESS = 60
"""Of rapidfuzz's WRatio, 0 to 100."""


@dataclass(frozen=True)
class Target:
    """``source``: as the tables name it: a path below the input folder, or a record of one, ``people.csv#42``.
    ``path``: its file, None where there is none (any more)."""

    source: str
    path: Path | None

    def names(self, source: str) -> bool:
        return is_of(source, self.source)


def read_target(
    project: Services, document: str, under_way: Collection[str], elsewhere: Callable[[str], bool]
) -> Target:
    """``document``: a path, below the input folder, the project or the present folder, or a record, ``people.csv#42``;
    also one whose file is gone. ``under_way``: those whose purge goes on; ``elsewhere``: asked last, whether the
    stores know of a name.

    The tables have escapes where a file system has control characters, or what is no text.

    Raises UsageError for what is outside, a folder, or nowhere, with the names that come nearest.
    """
    names = list(dict.fromkeys(map(one_line, _names(project, document))))
    document = one_line(document)
    if not names:
        raise UsageError(f"purge: {document} is not below {project.input_folder}; name a file there")
    known = Known(project)
    for name in names:
        if (path := known.file(name)) or name in under_way or known.has(name):
            return Target(name, path)
    for name in names:
        if (project.input_folder / name).is_dir():
            raise UsageError(f"purge: {document} is a folder; name one file at a time")
    for name in names:
        if elsewhere(name):
            return Target(name, None)
    raise UsageError(_unknown(document, names, known))


@dataclass(frozen=True)
class Known:
    """What documents a project has, and had."""

    project: Services

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """By name, those that are below the input folder, whether they are read or not."""
        with suppress(SettingsError):  # no such folder
            return {file.name: file.path for file in input_files(str(self.project.input_folder), "**/*")}
        return {}

    def file(self, name: str) -> Path | None:
        path = self.files.get(name, self.project.input_folder / name)
        return path if path.is_symlink() or path.is_file() else None

    @cached_property
    def sources(self) -> frozenset[str]:
        """In any table of documents that is kept, also those of runs that did not end."""
        return frozenset(source for frame in _document_tables(self.project.snapshots) for source in frame["source"])

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
    return bool(path.parts) and not path.is_absolute() and not {".", ".."} & set(document.split("/"))


def _unknown(document: str, names: Sequence[str], known: Known) -> str:
    where = f"purge: {document}: no file, no document of any run that is kept, no record"
    if GLOB & set(document):
        fitting = [name for name in known.all if any(fnmatchcase(name, pattern) for pattern in names)]
        listed = f"; it fits {_listed(fitting)}" if fitting else ""
        return f"{where}{listed}; patterns are not taken: name one document at a time"
    near = [name for name, *_ in process.extract(names[0], known.all, limit=NAMED, score_cutoff=LIKENESS)]
    meant = f"; did you mean {_listed(near)}?" if near else ""
    return f"{where}{meant} Nothing was touched" if near else f"{where}; nothing was touched"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])


def _document_tables(snapshots: SnapshotStore) -> Iterator[pd.DataFrame]:
    """Whatever a step calls them: a workflow may filter documents under another name. One that cannot be read, damaged
    or just written, tells nothing."""
    for path in sorted(snapshots.root.glob("*/*.parquet")):
        with suppress(OSError, pa.ArrowException):
            if {"source", "content_hash"} <= set(pq.read_schema(path).names):
                yield pq.read_table(path, columns=["source"]).to_pandas()


def _rejected(snapshots: SnapshotStore) -> Iterator[str]:
    for manifest in all_manifests(snapshots):
        loading = {step for step, record in manifest.steps.items() if DOCUMENTS in record.outputs}
        rejects = manifest.tables.get("rejects")
        if not loading or rejects is None:
            continue
        with suppress(DataError):
            rows = snapshots.columns(rejects, ["step", "row_id"])
            places = rows.loc[rows["step"].isin(loading), "row_id"]
            yield from places.str.replace(r":\d+$", "", regex=True)


def all_manifests(snapshots: SnapshotStore) -> Iterator[Manifest]:
    """Of every workflow the live one, then those that are kept, the newest first."""
    for workflow in snapshots.workflows():
        yield snapshots.manifest(workflow)
        yield from snapshots.kept(workflow, reversed(snapshots.history(workflow)))
