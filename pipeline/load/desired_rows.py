"""The rows that the stores' tables should have, by a manifest: all of them part by part, or those
of some ids."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.contract.fingerprint import code_fingerprint, fingerprint
from pipeline.contract.schemas import HASHES
from pipeline.contract.views import with_conditions
from pipeline.files import scratch_file
from pipeline.load.last_load import LoadedVersion
from pipeline.load.projection import (
    OPTIONAL,
    SOURCES,
    STACKED,
    TABLE_SOURCES,
    TYPED,
    edge_types,
    most_frequent,
    project_table,
)
from pipeline.load.row_hashes import hashes_of, with_hashes
from pipeline.snapshots.manifests import digest_of_view
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.list_columns import frame_of

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

PART_ROWS = 10_000
"""Rows, with their vectors, that are held at a time; two such parts, as one is made while another
is written."""
ALL_SOURCES = (*SOURCES, *OPTIONAL)
VECTOR = "vector"
VECTORS_OF = {
    table: source
    for table, sources in TABLE_SOURCES.items()
    for source in sources
    if VECTOR in sources[source]
}
"""Table of a store that has vectors -> the snapshot table that they are in."""
NO_IDS = pa.array([], pa.large_string())


@dataclass(frozen=True)
class KnownRows:
    """All that a snapshot table has of some ids, as far as some of its columns go."""

    ids: pa.Array
    rows: pa.Table


@dataclass(frozen=True)
class DesiredRows:
    """``max_types``: relationship types kept as types; ``counted``: how many relationships ask for
    each type, where that is known; ``known``: rows of snapshot tables that need not be read again.

    Its methods raise DataError when a snapshot is gone or damaged, or rows lack their text or
    vector.
    """

    manifest: Manifest
    snapshots: SnapshotStore
    max_types: int
    counted: Mapping[str, int] | None = None
    known: Mapping[str, KnownRows] = field(default_factory=dict, repr=False, compare=False)

    def parts(self, table: str) -> Iterator[pd.DataFrame]:
        """Every row, with its ``row_hash``."""
        if table in STACKED:
            none = {
                name: self._selected(name, columns, NO_IDS)
                for name, columns in TABLE_SOURCES[table].items()
            }
            for name, columns in TABLE_SOURCES[table].items():
                for part in self._in_parts(name, columns):
                    yield self._projected(table, {**none, name: part})
            return
        first, *others = TABLE_SOURCES[table].items()
        if first[0] not in self.manifest.tables:
            return
        ids = self._column(first[0], "id") if others else None
        streams = [
            self._in_parts(*first),
            *(self._beside(name, columns, ids) for name, columns in others),
        ]
        for tables in zip(*streams, strict=True):
            yield self._projected(table, dict(zip(TABLE_SOURCES[table], tables, strict=True)))

    def some(self, table: str, ids: pa.Array) -> pd.DataFrame:
        """Those of these ids that there are, with their ``row_hash``."""
        return self._projected(
            table,
            {
                name: self._selected(name, columns, ids)
                for name, columns in TABLE_SOURCES[table].items()
            },
        )

    def hashes(self, table: str) -> pa.Table:
        """HASHES of every row."""
        return pa.concat_tables([HASHES.empty_table(), *map(hashes_of, self.parts(table))])

    def count(self, table: str) -> int:
        """How many rows there are."""
        names = list(TABLE_SOURCES[table])[: None if table in STACKED else 1]
        return sum(
            self.manifest.tables[name].rows for name in names if name in self.manifest.tables
        )

    @cached_property
    def type_counts(self) -> Mapping[str, int]:
        """How many relationships ask for each type."""
        if self.counted is not None:
            return self.counted
        batches = self.snapshots.batches(self.manifest.tables["relationships"], ["keywords"])
        counts: Counter[str] = Counter()
        for batch in batches:
            counts.update(edge_types(frame_of(pa.table(batch))["keywords"]))
        return counts

    @cached_property
    def kept_types(self) -> Collection[str]:
        return most_frequent(Counter(self.type_counts), self.max_types)

    @cached_property
    def version(self) -> str:
        """A fingerprint over all that decides the rows and their hashes; of a view with its
        conditions behind it (``with_conditions``)."""
        snapshots = {name: self.manifest.tables[name].sha256 for name in self.there}
        found = fingerprint({"tables": snapshots, "max_types": self.max_types, "code": self.code})
        digest = digest_of_view(self.manifest)
        return with_conditions(found, digest) if digest else found

    @cached_property
    def code(self) -> list[str]:
        return [code_fingerprint(project_table), code_fingerprint(with_hashes)]

    @property
    def there(self) -> list[str]:
        """The snapshot tables that rows are made of."""
        return [name for name in ALL_SOURCES if name in self.manifest.tables]

    def as_loaded(self) -> LoadedVersion:
        """What is to be known of them when they are loaded."""
        tables = {name: self.manifest.tables[name] for name in self.there}
        return LoadedVersion(tables, self.code, self.max_types, dict(self.type_counts))

    def require_whole(self) -> None:
        """Raises DataError when a snapshot is gone or damaged."""
        for name in self.there:
            self.snapshots.require(self.manifest.tables[name])

    def _projected(self, table: str, tables: Mapping[str, pa.Table]) -> pd.DataFrame:
        sources = {name: frame_of(rows) for name, rows in tables.items()}
        kept_types = self.kept_types if table in TYPED else ()
        return with_hashes(project_table(table, sources, kept_types))

    def _column(self, name: str, column: str) -> pa.ChunkedArray:
        return self.whole(name, [column])[column]

    def whole(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Columns of a snapshot table; no rows where there is none."""
        if name not in self.manifest.tables:
            return OPTIONAL[name].arrow.empty_table().select(columns)
        return self.snapshots.table(self.manifest.tables[name], list(columns))

    def _selected(self, name: str, columns: Sequence[str], ids: pa.Array) -> pa.Table:
        known = self.known.get(name)
        if known is None or not set(columns) <= set(known.rows.column_names):
            return self.read(name, columns, ids)
        rows = known.rows.filter(pc.is_in(known.rows["id"], value_set=ids)).select(columns)
        others = ids.filter(pc.invert(pc.is_in(ids, value_set=known.ids)))
        return pa.concat_tables([rows, self.read(name, columns, others)]) if len(others) else rows

    def read(self, name: str, columns: Sequence[str], ids: pa.Array) -> pa.Table:
        """Columns of those rows of a snapshot table that have one of the ids."""
        if name not in self.manifest.tables:
            return self.whole(name, columns)
        return self.snapshots.select(self.manifest.tables[name], ["id"], ids, list(columns))

    def _in_parts(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """None of a table that is not there."""
        snapshot = self.manifest.tables.get(name)
        return in_parts(self.snapshots.batches(snapshot, list(columns)) if snapshot else ())

    def _beside(self, name: str, columns: Sequence[str], ids: Any) -> Iterator[pa.Table]:
        """Of each part of the ids the rows that a table has of them, which mostly are in one
        order."""
        known = self._column(name, "id")
        if known.equals(ids):
            return self._in_parts(name, columns)
        places = pc.index_in(ids, value_set=known)
        if VECTOR in columns:
            return self._laid_out(name, places)
        rows = self.whole(name, columns)
        return (
            rows.take(places[start : start + PART_ROWS].drop_null())
            for start in range(0, len(ids), PART_ROWS)
        )

    def _laid_out(self, name: str, places: Any) -> Iterator[pa.Table]:
        """The vectors in another order than theirs, by way of a file, as they may be more than
        memory holds. ``places``: where each is among those there are."""
        with scratch_file(self.snapshots.root) as file:
            ids, width = self._column(name, "id"), 0
            for batch in self.snapshots.batches(self.manifest.tables[name], [VECTOR]):
                vectors = batch[VECTOR].flatten().to_numpy(zero_copy_only=False)
                width = len(vectors) // len(batch)
                file.write(vectors.tobytes())
            file.flush()
            stored = (
                np.memmap(file, np.float32, "r", shape=(len(ids), width))
                if width
                else np.empty((len(ids), 0))
            )
            for start in range(0, len(places), PART_ROWS):
                part = places[start : start + PART_ROWS].drop_null()
                found = stored[part.to_numpy()]
                bounds = pa.array(np.arange(len(found) + 1) * width)
                lists = pa.LargeListArray.from_arrays(bounds, pa.array(found.reshape(-1)))
                yield pa.table({"id": ids.take(part), VECTOR: lists})


def in_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of the batches by PART_ROWS; fewer are in the last part alone."""
    waiting: list[pa.RecordBatch] = []
    room = PART_ROWS
    for batch in batches:
        start = 0
        while start < len(batch):
            waiting.append(batch.slice(start, room))
            start += len(waiting[-1])
            room -= len(waiting[-1])
            if not room:
                yield pa.Table.from_batches(waiting)
                waiting, room = [], PART_ROWS
    if waiting:
        yield pa.Table.from_batches(waiting)
