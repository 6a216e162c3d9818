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
"""Bytes on disk up to which a file is small. What it holds may be larger: it is compressed."""
MOST_BYTES_OF_ROWS = 2**20
"""Bytes in memory up to which the rows of a small file are kept."""
MOST_BYTES = 2**24
"""Bytes of all rows that are kept. Those that were used least recently go first."""


@dataclass
class SmallFiles:
    """The rows of small files that were read last, by the digest that names the file.

    A file never changes, because it is named by its content. The caller checks that it is there and
    undamaged. Several threads may read.
    """

    rows: dict[str, pa.Table] = field(default_factory=dict, repr=False)
    bytes: int = 0
    lock: Lock = field(default_factory=Lock, repr=False)

    def read(self, path: Path) -> pa.Table | None:
        """Return all rows of a file, or None if the file is not small."""
        digest = path.stem
        with self.lock:
            known = self.rows.pop(digest, None)
            if known is not None:
                # The last one in the dictionary was used last.
                self.rows[digest] = known
                return known
        if path.stat().st_size > MOST_BYTES_OF_FILE:
            return None
        content = pa.BufferReader(path.read_bytes())
        with pq.ParquetFile(content, pre_buffer=False, **WIDE) as file:
            rows = file.read(use_threads=False)
        if rows.nbytes <= MOST_BYTES_OF_ROWS:
            self._keep(digest, rows)
        return rows

    def _keep(self, digest: str, rows: pa.Table) -> None:
        with self.lock:
            if digest in self.rows:
                return
            self.rows[digest] = rows
            self.bytes += rows.nbytes
            while self.bytes > MOST_BYTES:
                least_recent = next(iter(self.rows))
                self.bytes -= self.rows.pop(least_recent).nbytes
