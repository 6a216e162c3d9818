"""Rows in the binary format of PostgreSQL's COPY, read column by column; ``binary_copy`` makes them.

They are hashed as they come: what is not asked for is never made into values.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from xxhash import xxh3_128_hexdigest

from pipeline.stores.binary_copy import BINARY, HEADER, TRAILER, Kind, content_of

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

ROWS_AT_ONCE, BYTES_AT_ONCE = 5000, 16_000_000
TEXT = pa.large_string()
BEFORE_ITEMS, BEFORE_FLOATS = 20, 4
"""Bytes of an array's and a vector's own before what they hold."""


@dataclass(frozen=True)
class CopiedRows:
    """``starts`` and ``ends``: of each row where each of its fields is in ``content``; ``missing``: which are null."""

    content: bytes
    starts: np.ndarray
    ends: np.ndarray
    missing: np.ndarray

    def digests(self, first: int) -> list[str]:
        """As ``binary_copy.digests``, of the fields from ``first`` on."""
        content = memoryview(self.content)
        bounds = zip((self.starts[:, first] - 4).tolist(), self.ends[:, -1].tolist(), strict=True)
        return [xxh3_128_hexdigest(content[start:end]) for start, end in bounds]

    def column(self, field: int, kind: Kind) -> pd.Series:
        """The values of a field; lists and vectors in Arrow, which a vector's dimensions may differ in."""
        payload = self._payload(field)
        if kind == "text":
            return pd.Series(pd.array(payload.cast(TEXT), dtype="str"))
        if kind == "text[]":
            return _in_arrow(pa.array(map(_items, payload.to_pylist()), pa.large_list(TEXT)))
        if kind == "vector":
            return _in_arrow(pa.array(map(_floats, payload.to_pylist()), pa.large_list(pa.float32())))
        if kind == "jsonb":
            return pd.Series([json.loads(cell[1:]) if cell else None for cell in payload.to_pylist()], dtype=object)
        if kind == "float8":
            return pd.Series(_numbers(payload, ">f8"))
        return pd.Series(_numbers(payload, ">i8"), dtype="Int64" if payload.null_count else "int64")

    def _payload(self, field: int) -> pa.LargeBinaryArray:
        """The bytes of a field, null where there is none."""
        rows, fields = self.starts.shape
        bounds = np.stack([self.starts, self.ends], axis=2).reshape(-1)
        buffers = [None, pa.py_buffer(np.concatenate([[0], bounds])), pa.py_buffer(self.content)]
        # Every other value is what stands between two fields.
        between = pa.LargeBinaryArray.from_buffers(BINARY, len(bounds), buffers)
        places = 1 + 2 * (np.arange(rows) * fields + field)
        return between.take(pa.array(places, mask=self.missing[:, field]))


def copied(pieces: Iterable[Any], fields: int) -> Iterator[CopiedRows]:
    """What COPY ... TO STDOUT (FORMAT BINARY) gives, some thousands of rows at a time. A piece is a row, as
    PostgreSQL's protocol has it; the header comes with the first or by itself, the trailer last."""
    content = bytearray()  # no list of pieces, which the collector of garbage would go through time and again
    sizes: list[int] = []
    for place, piece in enumerate(pieces):
        row = piece[len(HEADER) :] if place == 0 else piece
        if len(row) <= len(TRAILER):
            continue
        content += row
        sizes.append(len(row))
        if len(sizes) == ROWS_AT_ONCE or len(content) > BYTES_AT_ONCE:
            yield _copied(bytes(content), sizes, fields)
            content, sizes = bytearray(), []
    if sizes:
        yield _copied(bytes(content), sizes, fields)


def _copied(content: bytes, lengths: Sequence[int], fields: int) -> CopiedRows:
    octets = np.frombuffer(content, np.uint8)
    sizes = np.array(lengths, np.int64)
    place = np.cumsum(sizes) - sizes + 2  # after the number of fields
    starts, ends = np.empty((2, len(sizes), fields), np.int64)
    missing = np.empty((len(sizes), fields), bool)
    for field in range(fields):
        size = octets[place[:, None] + np.arange(4)].view(">i4").astype(np.int64)[:, 0]
        missing[:, field] = size < 0
        starts[:, field] = place + 4
        place = ends[:, field] = place + 4 + np.maximum(size, 0)
    return CopiedRows(content, starts, ends, missing)


def _items(content: bytes | None) -> list[bytes | None] | None:
    """Of an array of texts."""
    if content is None:
        return None
    items: list[bytes | None] = []
    place = BEFORE_ITEMS
    while place < len(content):
        size = int.from_bytes(content[place : place + 4], "big", signed=True)
        place += 4
        items.append(content[place : place + size] if size >= 0 else None)
        place += max(size, 0)
    return items


def _floats(content: bytes | None) -> np.ndarray | None:
    """Of a vector."""
    return None if content is None else np.frombuffer(content, ">f4", offset=BEFORE_FLOATS).astype(np.float32)


def _numbers(payload: pa.LargeBinaryArray, dtype: str) -> Any:
    values = np.frombuffer(content_of(pc.fill_null(payload, bytes(8))), dtype)
    return pa.array(values.astype(dtype.replace(">", "<")), mask=pc.is_null(payload).to_numpy(False)).to_pandas()


def _in_arrow(lists: pa.Array) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(lists))
