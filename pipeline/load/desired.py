"""The rows that the stores' tables should have, by a manifest."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from pipeline.fingerprint import code_fingerprint, fingerprint
from pipeline.load.diff import with_hashes
from pipeline.load.projection import OPTIONAL, SOURCES, TABLE_SOURCES, project_table
from pipeline.load.remembered import Remembered
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.lists import frame_of, to_arrow

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

TEXT = pa.large_string()
ALL_SOURCES = (*SOURCES, *OPTIONAL)
VECTORS_OF = {
    table: source for table, sources in TABLE_SOURCES.items() for source in sources if "vector" in sources[source]
}
"""Table of a store that has vectors -> the snapshot table that they are in."""


@dataclass(frozen=True)
class Wanted:
    """``max_types``: relationship types kept as types."""

    manifest: Manifest
    snapshots: SnapshotStore
    max_types: int

    def rows(self, table: str) -> pd.DataFrame:
        """With ``row_hash``. Raises DataError when a snapshot is gone or damaged, or rows lack their text or vector."""
        sources = {name: frame_of(self._table(name, list(columns))) for name, columns in TABLE_SOURCES[table].items()}
        return with_hashes(project_table(table, sources, self.max_types))

    def hashed(self, table: str) -> pd.DataFrame:
        """As ``rows``, with the same ``row_hash`` and without the vectors, of which only some are held at a time."""
        vectors = VECTORS_OF.get(table)
        if vectors is None or vectors not in self.manifest.tables:
            return self.rows(table)
        columns = {**TABLE_SOURCES[table], vectors: ["id"]}
        sources = {name: frame_of(self._table(name, list(wanted))) for name, wanted in columns.items()}
        rows = project_table(table, sources, self.max_types)
        row_hash = pd.Series("", rows.index, dtype=object)
        for places, found in self._vectors(vectors, to_arrow(rows["id"], TEXT)):
            part = rows.iloc[places]
            embedding = pd.Series(pd.arrays.ArrowExtensionArray(found), part.index)
            row_hash.iloc[places] = with_hashes(part.assign(embedding=embedding))["row_hash"].to_numpy()
        return rows.assign(row_hash=row_hash.astype(str))

    def with_vectors(self, table: str, rows: pd.DataFrame) -> pd.DataFrame:
        """Some of the rows of ``hashed`` as ``rows`` has them."""
        vectors = VECTORS_OF.get(table)
        if "embedding" in rows or vectors is None or rows.empty:
            return rows
        parts = list(self._vectors(vectors, to_arrow(rows["id"], TEXT)))
        there = np.concatenate([np.arange(len(rows))[places] for places, _ in parts])
        embedding = pa.concat_arrays([found for _, found in parts]).take(pa.array(np.argsort(there)))
        return rows.assign(embedding=pd.Series(pd.arrays.ArrowExtensionArray(embedding), rows.index))

    def hashes(self, table: str) -> pa.Table:
        """id and row_hash of the rows, as a load has made them, else made anew: then raises as ``rows``."""
        known = Remembered(self.snapshots.root).hashes(table, self.versions[table])
        return known if known is not None else pa.Table.from_pandas(self.rows(table)[["id", "row_hash"]])

    @cached_property
    def versions(self) -> dict[str, str]:
        """Of each table a fingerprint over all that decides its rows and their hashes."""
        return {table: self._fingerprint(tuple(sources)) for table, sources in TABLE_SOURCES.items()}

    @cached_property
    def version(self) -> str:
        """Of all tables together."""
        return self._fingerprint(ALL_SOURCES)

    def require_whole(self) -> None:
        """Raises DataError when a snapshot is gone or damaged."""
        for name in self._there(ALL_SOURCES):
            self.snapshots.require(self.manifest.tables[name])

    def _table(self, name: str, columns: list[str]) -> pa.Table:
        if name not in self.manifest.tables:
            return OPTIONAL[name].arrow.empty_table().select(columns)
        return self.snapshots.table(self.manifest.tables[name], columns)

    def _vectors(self, name: str, ids: pa.Array) -> Iterator[tuple[Any, pa.Array]]:
        """The vectors, some thousands at a time, and the places of their ids among ``ids``."""
        done = 0
        for batch in self.snapshots.batches(self.manifest.tables[name], ["id", "vector"]):
            found = batch["id"].cast(ids.type)
            here = slice(done, done + len(found))
            done += len(found)
            if found.equals(ids[here]):  # they mostly are in one order
                yield here, batch["vector"]
            else:
                places = pc.index_in(found, value_set=ids)
                yield places.drop_null().to_numpy(), batch["vector"].filter(places.is_valid())

    def _there(self, sources: Iterable[str]) -> list[str]:
        return [name for name in sources if name in self.manifest.tables]

    def _fingerprint(self, sources: tuple[str, ...]) -> str:
        snapshots = {name: self.manifest.tables[name].sha256 for name in self._there(sources)}
        return fingerprint({"tables": snapshots, "max_types": self.max_types, "code": self._code})

    @cached_property
    def _code(self) -> list[str]:
        return [code_fingerprint(project_table), code_fingerprint(with_hashes)]
