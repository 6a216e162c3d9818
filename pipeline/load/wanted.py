"""The rows that the stores' tables should have, by a manifest."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from pipeline.fingerprint import code_fingerprint, fingerprint
from pipeline.load.diff import with_hashes
from pipeline.load.projection import SOURCES, TABLE_SOURCES, project_table
from pipeline.snapshots import Manifest, SnapshotStore
from pipeline.stores.lists import frame_of


@dataclass(frozen=True)
class Wanted:
    """``max_types``: relationship types kept as types."""

    manifest: Manifest
    snapshots: SnapshotStore
    max_types: int

    def rows(self, table: str) -> pd.DataFrame:
        """With ``row_hash``. Raises DataError when a snapshot is gone or damaged, or rows lack their text or vector."""
        sources = {
            name: frame_of(self.snapshots.table(self.manifest.tables[name], list(columns)))
            for name, columns in TABLE_SOURCES[table].items()
        }
        return with_hashes(project_table(table, sources, self.max_types))

    @cached_property
    def versions(self) -> dict[str, str]:
        """Of each table a fingerprint over all that decides its rows and their hashes."""
        return {table: self._fingerprint(tuple(sources)) for table, sources in TABLE_SOURCES.items()}

    @cached_property
    def version(self) -> str:
        """Of all tables together."""
        return self._fingerprint(SOURCES)

    def require_whole(self) -> None:
        """Raises DataError when a snapshot is gone or damaged."""
        for name in SOURCES:
            self.snapshots.require(self.manifest.tables[name])

    def _fingerprint(self, sources: tuple[str, ...]) -> str:
        snapshots = {name: self.manifest.tables[name].sha256 for name in sources}
        return fingerprint({"tables": snapshots, "max_types": self.max_types, "code": self._code})

    @cached_property
    def _code(self) -> list[str]:
        return [code_fingerprint(project_table), code_fingerprint(with_hashes)]
