"""The tables of a manifest as the source of exports, and helpers that write folders and CSV."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from pipeline.errors import UsageError
from pipeline.files import new_file
from pipeline.snapshots.ranks import ENDS, RANKS, degrees, lack_ranks, with_ranks
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore
from pipeline.stores.base import Advanced, silent

GRAPH = ("entities", "relationships")
CORPUS = ("documents", "text_units")


@dataclass(frozen=True)
class ExportSource:
    """The tables of a manifest, for export.

    Entities and relationships have their ranks (snapshots/ranks.py), even if their snapshots lack
    them. ``max_types``: the number of relationship types that are kept as types, for targets with
    types. ``max_source_ids``: the number of text units that a row names, for targets that limit
    lists. ``advanced`` is called with a table, the rows that were read, and all rows.
    """

    manifest: Manifest
    snapshots: SnapshotStore
    workspace: str
    max_types: int
    max_source_ids: int
    advanced: Advanced = silent

    def require(self, *names: str) -> None:
        """Raise UsageError if the workflow has no tables yet, or one of the tables is missing."""
        workflow, tables = self.manifest.workflow, self.manifest.tables
        if not tables:
            advice = self.snapshots.advise_without_tables(workflow, "--workflow")
            raise UsageError(f"workflow '{workflow}': nothing to export; {advice}")
        if missing := [name for name in names if name not in tables]:
            raise UsageError(
                f"workflow '{workflow}': it writes no {', '.join(missing)}; export another workflow"
            )

    def has(self, name: str) -> bool:
        """Return whether the workflow makes the table."""
        return name in self.manifest.tables

    def table(self, name: str) -> pa.Table:
        """Return a whole table, with ranks."""
        snapshot = self._snapshot(name)
        self.advanced(name, 0, snapshot.rows)
        table = self.snapshots.tables.read_arrow(snapshot)
        if self._lacks_ranks(name):
            ranked = with_ranks(table.select(list(ENDS)).to_pandas(), self._degrees)
            for column in RANKS:
                table = table.append_column(column, pa.array(ranked[column]))
        self.advanced(name, snapshot.rows, snapshot.rows)
        return table

    def batches(self, name: str, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield a table some thousands of rows at a time; only these are in memory.

        ``columns``: those to return, by default all, with ranks.
        """
        snapshot = self._snapshot(name)
        there = self.snapshots.tables.columns(snapshot)
        lacks_ranks = self._lacks_ranks(name)
        if columns:
            wanted = columns
        elif lacks_ranks:
            wanted = [*there, *RANKS]
        else:
            wanted = [*there]
        adds_ranks = lacks_ranks and not set(RANKS).isdisjoint(wanted)
        # Ranks are computed from the ends, which are read for this even if they are not wanted.
        read = [column for column in there if column in wanted or (adds_ranks and column in ENDS)]
        done = 0
        self.advanced(name, 0, snapshot.rows)
        for batch in self.snapshots.tables.read_batches(snapshot, read):
            frame = batch.to_pandas()
            if adds_ranks:
                frame = with_ranks(frame, self._degrees)
            yield frame[wanted]
            done += batch.num_rows
            self.advanced(name, done, snapshot.rows)

    @cached_property
    def _degrees(self) -> pd.Series:
        return degrees(self.manifest, self.snapshots)

    def _lacks_ranks(self, name: str) -> bool:
        return lack_ranks(
            name, self.snapshots.tables.columns(self._snapshot(name)), self.manifest, self.snapshots
        )

    def _snapshot(self, name: str) -> Snapshot:
        return self.manifest.tables[name]


@dataclass(frozen=True)
class ExportReport:
    """The result of an export.

    ``files``: the number of rows of each file; of GraphML, that of nodes and edges. ``command``:
    the command that imports the files, if there is one.
    """

    kind: str
    folder: Path
    files: Mapping[str, int]
    command: str = ""


def check_folder(folder: Path, force: bool) -> None:
    """Raise UsageError if the path is a file, or, unless ``force``, a folder that is not empty."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"export: {folder} is a file; name a folder")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(
            f"export: {folder} is not empty; name another folder, or use --force to write over its"
            " files"
        )


def write_rows(
    folder: Path,
    name: str,
    schema: pa.Schema,
    frames: Iterable[pd.DataFrame],
    *,
    header: bool = True,
) -> int:
    """Write frames one after the other as a CSV file with the schema's columns.

    Return the number of rows.
    """
    rows = 0
    options = arrow_csv.WriteOptions(include_header=header, quoting_style="needed")
    with (
        new_file(folder / name) as path,
        arrow_csv.CSVWriter(path, schema, write_options=options) as writer,
    ):
        for frame in frames:
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
            rows += len(frame)
    return rows


def joined(lists: Iterable[Sequence[str]], separator: str) -> list[str]:
    """Return each list of texts joined to one text."""
    return [separator.join(items) for items in lists]
