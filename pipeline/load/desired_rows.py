"""Projects the snapshots of a manifest to the rows that the stores' tables should have: all rows,
some thousands at a time, or the rows of some ids."""

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
from pipeline.contract.schemas import HASHES, STRING
from pipeline.contract.views import with_conditions
from pipeline.files import scratch_file
from pipeline.load.last_load import LoadedVersion
from pipeline.load.projection import (
    LATER_COLUMNS,
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

# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute

PART_ROWS = 10_000
"""The number of rows, with their vectors, that are projected at a time. Memory holds twice as many:
the next rows are projected while these are written."""
ALL_SOURCES = (*SOURCES, *OPTIONAL)
"""Every snapshot table that rows of the stores are made of."""
VECTOR = "vector"
VECTORS_OF = {
    table: source
    for table, sources in TABLE_SOURCES.items()
    for source in sources
    if VECTOR in sources[source]
}
"""Table of a store that has vectors -> the snapshot table that its vectors are in."""
NO_IDS = pa.array([], pa.large_string())


@dataclass(frozen=True)
class KnownRows:
    """All rows that a snapshot table has for some ids, in some of its columns."""

    ids: pa.Array
    rows: pa.Table


@dataclass(frozen=True)
class DesiredRows:
    """The rows that the stores should have, made of the snapshots of a manifest.

    ``max_types``: the number of relationship types that are kept as types. ``known_type_counts``:
    how many relationships ask for each type, if that is known. ``known``: by snapshot table, rows
    that need not be read again.

    Its methods raise DataError when a snapshot is missing or damaged, or rows lack their text or
    vector.
    """

    manifest: Manifest
    snapshots: SnapshotStore
    max_types: int
    known_type_counts: Mapping[str, int] | None = None
    known: Mapping[str, KnownRows] = field(default_factory=dict, repr=False, compare=False)

    def parts(self, table: str) -> Iterator[pd.DataFrame]:
        """Yield all rows of a store's table with their ``row_hash``, up to PART_ROWS at a time."""
        sources = TABLE_SOURCES[table]
        if table in STACKED:
            none = {name: self._select(name, columns, NO_IDS) for name, columns in sources.items()}
            for name, columns in sources.items():
                for part in self._read_parts(name, columns):
                    yield self._project(table, {**none, name: part})
            return
        # The first source decides which rows there are. The others have a row for each of its ids,
        # or none.
        first, *others = sources
        if first not in self.manifest.tables:
            return
        streams = [self._read_parts(first, sources[first])]
        if others:
            ids = self._read_ids(first)
            streams += [self._read_parts_beside(name, sources[name], ids) for name in others]
        for tables in zip(*streams, strict=True):
            yield self._project(table, dict(zip(sources, tables, strict=True)))

    def some(self, table: str, ids: pa.Array) -> pd.DataFrame:
        """Return the rows of a store's table that have one of the ids, with their ``row_hash``."""
        sources = TABLE_SOURCES[table]
        tables = {name: self._select(name, columns, ids) for name, columns in sources.items()}
        return self._project(table, tables)

    def hashes(self, table: str) -> pa.Table:
        """Return HASHES of all rows of a store's table."""
        return pa.concat_tables([HASHES.empty_table(), *map(hashes_of, self.parts(table))])

    def count(self, table: str) -> int:
        """Return the number of rows of a store's table."""
        names = list(TABLE_SOURCES[table])
        if table not in STACKED:
            names = names[:1]
        return sum(
            self.manifest.tables[name].rows for name in names if name in self.manifest.tables
        )

    @cached_property
    def type_counts(self) -> Mapping[str, int]:
        """The number of relationships that ask for each type."""
        if self.known_type_counts is not None:
            return self.known_type_counts
        batches = self.snapshots.tables.read_batches(
            self.manifest.tables["relationships"], ["keywords"]
        )
        counts: Counter[str] = Counter()
        for batch in batches:
            counts.update(edge_types(frame_of(pa.table(batch))["keywords"]))
        return counts

    @cached_property
    def kept_types(self) -> Collection[str]:
        """The relationship types that are kept as types: the most frequent ``max_types``."""
        return most_frequent(Counter(self.type_counts), self.max_types)

    @cached_property
    def version(self) -> str:
        """A fingerprint over all that decides the rows and their hashes.

        For a view, a digest of its conditions is added (``with_conditions``).
        """
        snapshots = {name: self.manifest.tables[name].sha256 for name in self.there}
        found = fingerprint({"tables": snapshots, "max_types": self.max_types, "code": self.code})
        digest = digest_of_view(self.manifest)
        return with_conditions(found, digest) if digest else found

    @cached_property
    def code(self) -> list[str]:
        """Fingerprints of the code that projects rows and hashes them."""
        return [code_fingerprint(project_table), code_fingerprint(with_hashes)]

    @property
    def there(self) -> list[str]:
        """The snapshot tables of the manifest that rows are made of."""
        return [name for name in ALL_SOURCES if name in self.manifest.tables]

    def as_loaded(self) -> LoadedVersion:
        """Return the record of a load of these rows."""
        tables = {name: self.manifest.tables[name] for name in self.there}
        return LoadedVersion(tables, self.code, self.max_types, dict(self.type_counts))

    def require_whole(self) -> None:
        """Raise DataError if a snapshot is missing or damaged."""
        for name in self.there:
            self.snapshots.tables.require(self.manifest.tables[name])

    def _project(self, table: str, tables: Mapping[str, pa.Table]) -> pd.DataFrame:
        """Return rows of a store's table, with ``row_hash``, made of rows of its sources."""
        sources = {name: frame_of(rows) for name, rows in tables.items()}
        kept_types = self.kept_types if table in TYPED else ()
        return with_hashes(project_table(table, sources, kept_types))

    def _read_ids(self, name: str) -> pa.ChunkedArray:
        return self.whole(name, ["id"])["id"]

    def whole(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Return some columns of a snapshot table; no rows if the manifest lacks the table."""
        if name not in self.manifest.tables:
            return OPTIONAL[name].arrow.empty_table().select(columns)
        there = self._columns_there(name, columns)
        rows = self.snapshots.tables.read_arrow(self.manifest.tables[name], there)
        return _complete(rows, columns)

    def _select(self, name: str, columns: Sequence[str], ids: pa.Array) -> pa.Table:
        """Return the rows of a snapshot table that have one of the ids; use known rows first."""
        known = self.known.get(name)
        if known is None or not set(columns) <= set(known.rows.column_names):
            return self.read(name, columns, ids)
        rows = known.rows.filter(pc.is_in(known.rows["id"], value_set=ids)).select(columns)
        others = ids.filter(pc.invert(pc.is_in(ids, value_set=known.ids)))
        if not len(others):
            return rows
        return pa.concat_tables([rows, self.read(name, columns, others)])

    def read(self, name: str, columns: Sequence[str], ids: pa.Array) -> pa.Table:
        """Read some columns of the rows of a snapshot table that have one of the ids."""
        if name not in self.manifest.tables:
            return self.whole(name, columns)
        there = self._columns_there(name, columns)
        rows = self.snapshots.tables.select(self.manifest.tables[name], ["id"], ids, there)
        return _complete(rows, columns)

    def lacks(self, name: str, columns: Sequence[str]) -> bool:
        """Return whether a snapshot table lacks some of these columns, which is allowed of
        LATER_COLUMNS."""
        return len(self._columns_there(name, columns)) < len(columns)

    def _columns_there(self, name: str, columns: Sequence[str]) -> list[str]:
        """Return these columns without those of LATER_COLUMNS that the snapshot lacks."""
        if set(columns).isdisjoint(LATER_COLUMNS.get(name, ())):
            return list(columns)
        there = self.snapshots.tables.columns(self.manifest.tables[name])
        later = set(LATER_COLUMNS[name]) - set(there)
        return [column for column in columns if column not in later]

    def _read_parts(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read a snapshot table, PART_ROWS at a time; nothing if the manifest lacks it."""
        snapshot = self.manifest.tables.get(name)
        if snapshot is None:
            return in_parts(())
        batches = self.snapshots.tables.read_batches(snapshot, self._columns_there(name, columns))
        return (_complete(part, columns) for part in in_parts(batches))

    def _read_parts_beside(
        self, name: str, columns: Sequence[str], ids: pa.ChunkedArray
    ) -> Iterator[pa.Table]:
        """Read the rows of a snapshot table in the order of ``ids``, for PART_ROWS ids at a time.

        Ids without a row are left out. Mostly the table has the same order and is read as it is.
        """
        own_ids = self._read_ids(name)
        if own_ids.equals(ids):
            return self._read_parts(name, columns)
        places = pc.index_in(ids, value_set=own_ids)
        if VECTOR in columns:
            return self._read_vectors(name, own_ids, places)
        rows = self.whole(name, columns)
        return (
            rows.take(places[start : start + PART_ROWS].drop_null())
            for start in range(0, len(ids), PART_ROWS)
        )

    def _read_vectors(
        self, name: str, ids: pa.ChunkedArray, places: pa.ChunkedArray
    ) -> Iterator[pa.Table]:
        """Read (id, vector) in another order than that of the snapshot, PART_ROWS at a time.

        ``ids``: those of the snapshot, in its order. ``places``: the wanted rows, as positions in
        the snapshot, null where there is none. The vectors go through a temporary file, since they
        may need more memory than there is.
        """
        with scratch_file(self.snapshots.root) as file:
            width = 0
            for batch in self.snapshots.tables.read_batches(self.manifest.tables[name], [VECTOR]):
                vectors = batch[VECTOR].flatten().to_numpy(zero_copy_only=False)
                width = len(vectors) // len(batch)
                file.write(vectors.tobytes())
            file.flush()
            # An empty file cannot be mapped.
            if width:
                stored = np.memmap(file, np.float32, "r", shape=(len(ids), width))
            else:
                stored = np.empty((len(ids), 0))
            for start in range(0, len(places), PART_ROWS):
                part = places[start : start + PART_ROWS].drop_null()
                found = stored[part.to_numpy()]
                bounds = pa.array(np.arange(len(found) + 1) * width)
                lists = pa.LargeListArray.from_arrays(bounds, pa.array(found.reshape(-1)))
                yield pa.table({"id": ids.take(part), VECTOR: lists})


def _complete(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the rows with these columns; one that they lack has "" in every row."""
    if rows.column_names == list(columns):
        return rows
    for column in columns:
        if column not in rows.column_names:
            rows = rows.append_column(column, pa.repeat(pa.scalar("", STRING), len(rows)))
    return rows.select(columns)


def in_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of the batches as tables of PART_ROWS rows; the last one may have fewer."""
    waiting: list[pa.RecordBatch] = []
    room = PART_ROWS
    for batch in batches:
        start = 0
        while start < len(batch):
            piece = batch.slice(start, room)
            waiting.append(piece)
            start += len(piece)
            room -= len(piece)
            if not room:
                yield pa.Table.from_batches(waiting)
                waiting, room = [], PART_ROWS
    if waiting:
        yield pa.Table.from_batches(waiting)
