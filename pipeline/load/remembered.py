"""The hashes of the rows that loads have written, kept beside the snapshots: a load asks a database for them only where
its rows are not those that the last load left.

    <root>/loaded/<version>.json              the version of each table
    <root>/loaded/<table>-<version>.<digest>.parquet   id and row_hash of its rows

All of it may be deleted at any time.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import DamagedError, DiskFullError
from pipeline.files import digest_named, is_as_named, publish_file, read_json, temporary_file, write_json
from pipeline.schemas import WIDE

FOLDER = "loaded"
KEPT = 4
"""Versions, the newest; the stores of several workspaces may show different ones."""


@dataclass(frozen=True)
class Remembered:
    """``root``: of the snapshots."""

    root: Path

    def versions(self, version: str) -> Mapping[str, str]:
        """The version of each table at a version of all; empty where it is not known."""
        with suppress(OSError, DamagedError):
            versions = read_json(self._names(version))
            return versions if all(isinstance(name, str) for name in versions.values()) else {}
        return {}

    def hashes(self, table: str, version: str) -> pa.Table | None:
        """id, row_hash; None where they are not known."""
        with suppress(OSError, pa.ArrowException):
            whole = next(filter(is_as_named, self._rows(table, version)), None)
            return pq.read_table(whole, page_checksum_verification=True, **WIDE) if whole else None
        return None

    def keep(self, table: str, version: str, rows: pd.DataFrame) -> None:
        """Where there is space."""
        with suppress(DiskFullError), temporary_file(self._folder) as temporary:
            content = pa.Table.from_pandas(rows[["id", "row_hash"]], preserve_index=False)
            pq.write_table(content, temporary, compression="zstd", use_dictionary=False, write_page_checksum=True)
            name = digest_named(f"{table}-{version}", temporary)
            publish_file(temporary, self._folder / f"{name}.parquet")

    def publish(self, version: str, versions: Mapping[str, str]) -> None:
        """Keep the versions of the tables, and forget what is old."""
        with suppress(DiskFullError):
            write_json(self._names(version), versions)
        self._forget_old()

    def forget(self) -> None:
        """All of it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _forget_old(self) -> None:
        names = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for old in names[KEPT:]:
            old.unlink()
        kept = {
            rows
            for path in names[:KEPT]
            for table, version in self.versions(path.stem).items()
            for rows in self._rows(table, version)
        }
        for rows in self._folder.glob("*.parquet"):
            if rows not in kept:
                rows.unlink()

    def _names(self, version: str) -> Path:
        return self._folder / f"{version}.json"

    def _rows(self, table: str, version: str) -> list[Path]:
        return list(self._folder.glob(f"{table}-{version}.*parquet"))

    @property
    def _folder(self) -> Path:
        return self.root / FOLDER
