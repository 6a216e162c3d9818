"""The rows that the stores' tables should have, by a manifest."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import pyarrow as pa

from pipeline.fingerprint import code_fingerprint, fingerprint
from pipeline.load.diff import with_hashes
from pipeline.load.projection import OPTIONAL, SOURCES, TABLE_SOURCES, project_table
from pipeline.load.remembered import Remembered
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.lists import frame_of

ALL_SOURCES = (*SOURCES, *OPTIONAL)


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

    def _there(self, sources: Iterable[str]) -> list[str]:
        return [name for name in sources if name in self.manifest.tables]

    def _fingerprint(self, sources: tuple[str, ...]) -> str:
        snapshots = {name: self.manifest.tables[name].sha256 for name in self._there(sources)}
        return fingerprint({"tables": snapshots, "max_types": self.max_types, "code": self._code})

    @cached_property
    def _code(self) -> list[str]:
        return [code_fingerprint(project_table), code_fingerprint(with_hashes)]
