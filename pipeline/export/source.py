"""What is exported, the tables of a manifest, and where it goes: folders, and rows as CSV."""

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
    """Relationships have their ranks (snapshots/ranks.py). ``max_types``: relationship types kept
    as types, where the target has types; ``max_source_ids``: text units that a row names, where a
    list has a limit. ``advanced`` is told how many of a table's rows were read."""

    manifest: Manifest
    snapshots: SnapshotStore
    workspace: str
    max_types: int
    max_source_ids: int
    advanced: Advanced = silent

    def require(self, *names: str) -> None:
        """Raises UsageError when there is no manifest yet, or a table is not in it."""
        workflow, tables = self.manifest.workflow, self.manifest.tables
        if not tables:
            others = " or ".join(
                f"--workflow {name}" for name in self.snapshots.workflows() if name != workflow
            )
            or_name = f", or name one that has tables: {others}" if others else ""
            raise UsageError(
                f"workflow '{workflow}': nothing to export; run 'graphmill index {workflow}'"
                f" first{or_name}"
            )
        if missing := [name for name in names if name not in tables]:
            raise UsageError(
                f"workflow '{workflow}': it writes no {', '.join(missing)}; export another workflow"
            )

    def has(self, name: str) -> bool:
        return name in self.manifest.tables

    def table(self, name: str) -> pa.Table:
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
        """The table, some thousands of rows at a time; no more of it is in memory."""
        snapshot, done = self._snapshot(name), 0
        there = self.snapshots.tables.columns(snapshot)
        unranked = self._lacks_ranks(name)
        wanted = columns or [*there, *(RANKS if unranked else ())]
        ranked = unranked and not set(RANKS).isdisjoint(wanted)
        read = [column for column in there if column in wanted or (ranked and column in ENDS)]
        self.advanced(name, 0, snapshot.rows)
        for batch in self.snapshots.tables.read_batches(snapshot, read):
            frame = batch.to_pandas()
            yield (with_ranks(frame, self._degrees) if ranked else frame)[wanted]
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
    """``files``: name -> rows (of GraphML: nodes and edges). ``command``: what reads them in, if
    one command does."""

    kind: str
    folder: Path
    files: Mapping[str, int]
    command: str = ""


def check_folder(folder: Path, force: bool) -> None:
    """Raises UsageError for a folder that holds something, unless ``force``, and for what is no
    folder."""
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
    """Write the frames one after the other, in the schema's columns; the number of rows."""
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
    return [separator.join(items) for items in lists]
