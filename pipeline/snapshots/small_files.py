"""Keeps small files of tables in memory, so that a run reads each of them once.

A run over few documents reads some dozens of small files, and each of them many times: for the
hashes of its rows, for some of its columns, for its schema. To open a Parquet file takes longer
than to select from rows in memory.
"""

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contract.schemas import WIDE

MOST_BYTES_OF_FILE = 2**17
"""Bytes on disk up to which a file may be small. It is compressed, so what it holds decides."""
MOST_BYTES_OF_ROWS = 2**20
"""Bytes in memory up to which the rows of a file are few enough to be kept."""
MOST_BYTES = 2**24
"""Bytes of all rows that are kept. Those that were used least recently go first."""
ROWS_AT_ONCE = 500
"""Rows that are decoded before their bytes are counted. A dictionary has a value once that all rows
share, so the sizes in a file do not tell how much memory its rows take."""
MOST_TOO_LARGE = 10_000
"""The most files that are remembered as too large. The first ones are forgotten first."""


@dataclass
class SmallFiles:
    """The rows of small files that were read last, by the digest that names the file.

    A file never changes, because it is named by its content. The caller checks that it is there and
    undamaged. Several threads may read.
    """

    rows: dict[str, pa.Table] = field(default_factory=dict, repr=False)
    bytes: int = 0
    too_large: dict[str, None] = field(default_factory=dict, repr=False)
    lock: Lock = field(default_factory=Lock, repr=False)

    def read(self, path: Path) -> pa.Table | None:
        """Return all rows of a file, or None if the file is not small."""
        digest = path.stem
        with self.lock:
            if digest in self.too_large:
                return None
            known = self.rows.pop(digest, None)
            if known is not None:
                # The last one in the dictionary was used last.
                self.rows[digest] = known
                return known
        if path.stat().st_size > MOST_BYTES_OF_FILE:
            return None
        content = pa.BufferReader(path.read_bytes())
        with pq.ParquetFile(content, pre_buffer=False, **WIDE) as file:
            rows = _decode_few(file)
        if rows is None:
            self._remember_too_large(digest)
        else:
            self._keep(digest, rows)
        return rows

    def _remember_too_large(self, digest: str) -> None:
        with self.lock:
            self.too_large[digest] = None
            if len(self.too_large) > MOST_TOO_LARGE:
                self.too_large.pop(next(iter(self.too_large)))

    def _keep(self, digest: str, rows: pa.Table) -> None:
        with self.lock:
            if digest in self.rows:
                return
            self.rows[digest] = rows
            self.bytes += rows.nbytes
            while self.bytes > MOST_BYTES:
                least_recent = next(iter(self.rows))
                self.bytes -= self.rows.pop(least_recent).nbytes


def _decode_few(file: pq.ParquetFile) -> pa.Table | None:
    """Return all rows of a file, or None once they take more than MOST_BYTES_OF_ROWS."""
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    # The sizes without compression are in the footer, so nothing is decoded for this test.
    if sum(group.total_byte_size for group in groups) > MOST_BYTES_OF_ROWS:
        return None
    batches: list[pa.RecordBatch] = []
    n_bytes = 0
    for batch in file.iter_batches(ROWS_AT_ONCE, use_threads=False):
        n_bytes += batch.nbytes
        if n_bytes > MOST_BYTES_OF_ROWS:
            return None
        batches.append(batch)
    return pa.Table.from_batches(batches, file.schema_arrow)
