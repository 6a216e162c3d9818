"""The rows that the stores' tables should have, by a manifest, and the hashes of those that loads have written.

The hashes of the rows that loads have written, kept beside the snapshots: a load asks a database for them only where
its rows are not those that the last load left.

    <root>/loaded/<version>.json              the version of each table
    <root>/loaded/<table>-<version>.<digest>.parquet   id and row_hash of its rows

All of it may be deleted at any time.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipeline.contract.fingerprint import code_fingerprint, fingerprint
from pipeline.contract.schemas import WIDE
from pipeline.errors import DamagedError, DiskFullError
from pipeline.files import digest_named, is_as_named, publish_file, read_json, temporary_file, write_json
from pipeline.load.projection import OPTIONAL, SOURCES, TABLE_SOURCES, project_table
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Delta
from pipeline.stores.binary_copy import Kind, digests
from pipeline.stores.list_columns import frame_of, in_arrow, is_texts, to_arrow

FOLDER = "loaded"
KEPT = 4
"""Versions, the newest; the stores of several workspaces may show different ones."""


@dataclass(frozen=True)
class LoadedHashes:
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


pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

TEXT = pa.large_string()


def with_hashes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``row_hash``: a digest of every column, in the order of their names."""
    kinds: dict[str, Kind] = {name: _kind(rows[name]) for name in sorted(rows.columns)}
    return rows.assign(row_hash=pd.Series(digests(rows, kinds), index=rows.index, dtype=str))


def diff(rows: pd.DataFrame, stored: Mapping[str, str] | pa.Table) -> Delta:
    """``rows`` have ``id`` and ``row_hash``; ``stored`` maps the ids in the store to their row_hash, or is a table of
    both."""
    before = _table(stored)
    ids, hashes = (to_arrow(rows[name], TEXT) for name in ("id", "row_hash"))
    ids_before, hashes_before = (before[name].cast(TEXT).combine_chunks() for name in ("id", "row_hash"))
    places = pc.index_in(ids, value_set=ids_before)
    new = _flags(pc.is_null(places))
    gone = np.ones(len(ids_before), dtype=bool)
    gone[places.drop_null().to_numpy()] = False
    same = _flags(pc.fill_null(pc.equal(hashes, hashes_before.take(places)), False))
    return Delta(
        inserted=rows if new.all() else rows[new],
        updated=rows[~same & ~new],
        deleted=sorted(ids_before.filter(pa.array(gone)).to_pylist()),
        unchanged=int(same.sum()),
        after=rows[["id", "row_hash"]],
    )


def _table(hashes: Mapping[str, str] | pa.Table) -> Any:
    if isinstance(hashes, pa.Table):
        return hashes
    return pa.table({"id": pa.array(list(hashes), TEXT), "row_hash": pa.array(list(hashes.values()), TEXT)})


def _flags(values: pa.BooleanArray) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False)


def _kind(column: pd.Series) -> Kind:
    if pd.api.types.is_float_dtype(column):
        return "float8"
    if pd.api.types.is_integer_dtype(column):
        return "int8"
    if in_arrow(column):
        return "text[]" if is_texts(column) else "vector"
    present = column.dropna()
    first = present.iloc[0] if len(present) else ""
    if isinstance(first, dict):
        return "jsonb"
    if isinstance(first, np.ndarray) and first.dtype.kind == "f":
        return "vector"
    return "text" if isinstance(first, str) else "text[]"


CONTENTS = pa.schema([(name, TEXT) for name in ("id", "row_hash", "content_hash")])
LOOKS = 8
"""Times that a table's rows are looked up among all that are unlike; each makes a table of these first."""


@dataclass(frozen=True)
class ExpectedTable:
    """What a table of a store should hold: of each id the row_hash beside it, and the hash of its content as the
    store gives it back. In Arrow, one place a row."""

    ids: pa.Array
    row_hashes: pa.Array
    contents: pa.Array

    @classmethod
    def of(cls, rows: pd.DataFrame, kept: pd.DataFrame) -> "ExpectedTable":
        """``rows`` have ``row_hash``, and need not have the vectors in it; ``kept``: the same as the store gives them
        back, which is ``rows`` itself where it keeps all as it is."""
        ids, row_hashes = (to_arrow(rows[name], TEXT) for name in ("id", "row_hash"))
        if kept is rows:
            return cls(ids, row_hashes, row_hashes)
        hashed = with_hashes(kept.drop(columns="row_hash"))
        return cls(ids, row_hashes, to_arrow(hashed["row_hash"], TEXT))


def altered_ids(parts: Iterable[pd.DataFrame], expected: ExpectedTable) -> pa.Array:
    """Of the rows that have the row_hash they should have, those whose content is another, or that are there more
    than once. ``parts``: the rows, as ``Store.rows`` gives them."""
    read = pa.concat_tables([CONTENTS.empty_table(), *map(_contents, parts)]).combine_chunks()
    places = pc.index_in(read["id"], value_set=expected.ids)
    as_said = pc.fill_null(pc.equal(read["row_hash"], expected.row_hashes.take(places)), False)
    places = places.filter(as_said)
    same = pc.equal(read["content_hash"].filter(as_said), expected.contents.take(places))
    altered = np.zeros(len(expected.ids), bool)
    altered[places.filter(pc.invert(same)).to_numpy()] = True
    times = np.bincount(places.to_numpy(), minlength=len(altered))
    return expected.ids.filter(pa.array(altered | (times > 1)))


def _contents(part: pd.DataFrame) -> pa.Table:
    return pa.table([to_arrow(part[name], TEXT) for name in CONTENTS.names], schema=CONTENTS)


def in_few(parts: Iterable[pd.DataFrame], rows: int) -> Iterator[pd.DataFrame]:
    """The same rows, of which there are so many, in few parts."""
    waiting: list[pd.DataFrame] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) > rows // LOOKS:
            yield pd.concat(waiting, ignore_index=True)
            waiting = []
    if waiting:
        yield pd.concat(waiting, ignore_index=True)


ALL_SOURCES = (*SOURCES, *OPTIONAL)
VECTORS_OF = {
    table: source for table, sources in TABLE_SOURCES.items() for source in sources if "vector" in sources[source]
}
"""Table of a store that has vectors -> the snapshot table that they are in."""


@dataclass(frozen=True)
class DesiredRows:
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
        known = LoadedHashes(self.snapshots.root).hashes(table, self.versions[table])
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
