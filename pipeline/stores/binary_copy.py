"""Rows in the binary format of PostgreSQL's COPY, made and read column by column.

Source: PostgreSQL's documentation, COPY, "Binary Format"; pgvector's vector_send.

They are hashed as they come: what is not asked for is never made into values.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from xxhash import xxh3_128_hexdigest

from pipeline.contract.binary_cells import (
    BINARY,
    NOTHING,
    binary_cells,
    bytes_of_cells,
    content_buffer,
    fixed_cells,
    offsets_of,
)
from pipeline.stores.list_columns import in_arrow, to_arrow

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

Kind = Literal["text", "text[]", "int4", "int8", "float8", "jsonb", "vector"]

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
ROWS_AT_ONCE = 10_000
TEXT_OID = 25
JSONB_VERSION = b"\x01"

TEXTS = pa.large_list(pa.large_string())


def encoded_rows(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> Iterator[pa.LargeBinaryArray]:
    """The fields of each row, each after its length, in the order of ``kinds``; some thousands of
    rows at a time."""
    for start in range(0, len(frame), ROWS_AT_ONCE):
        part = frame.iloc[start : start + ROWS_AT_ONCE]
        fields = [
            field for name, kind in kinds.items() for field in _sized(_payload(part[name], kind))
        ]
        yield pc.binary_join_element_wise(
            *fields, NOTHING, null_handling="replace", null_replacement=""
        )


def digests(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> list[str]:
    """A digest of each row: of its fields, in the order of ``kinds``."""
    return [
        digest
        for encoded in encoded_rows(frame, kinds)
        for digest in map(xxh3_128_hexdigest, bytes_of_cells(encoded))
    ]


def copy_stream(
    frame: pd.DataFrame, kinds: Mapping[str, Kind], constants: Sequence[str] = ()
) -> Iterator[tuple[int, bytes]]:
    """What COPY ... (FORMAT BINARY) reads, in pieces, and how many rows are in each. ``constants``:
    texts that every row begins with."""
    yield 0, HEADER
    encoded = [text.encode() for text in constants]
    start = (len(kinds) + len(encoded)).to_bytes(2, "big")
    start += b"".join(len(text).to_bytes(4, "big") + text for text in encoded)
    for rows in encoded_rows(frame, kinds):
        whole = pc.binary_join_element_wise(pa.scalar(start, BINARY), rows, NOTHING)
        yield len(whole), content_of(whole)
    yield 0, TRAILER


def _payload(column: pd.Series, kind: Kind) -> pa.LargeBinaryArray:
    """The values of a column as PostgreSQL sends them, null where there is none."""
    if kind == "text":
        return to_arrow(column, pa.large_string()).cast(BINARY)
    if kind == "text[]":
        return _text_arrays(to_arrow(column, TEXTS))
    if kind == "jsonb":
        return pa.array([JSONB_VERSION + _json(value) for value in column], BINARY)
    if kind == "vector":
        return _vectors(column)
    return _numbers(column, {"int4": ">i4", "int8": ">i8", "float8": ">f8"}[kind])


def _sized(payload: pa.LargeBinaryArray) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    lengths = pc.fill_null(pc.binary_length(payload), -1).to_numpy(zero_copy_only=False)
    return fixed_cells(lengths.astype(">i4")), payload


def _numbers(column: pd.Series, dtype: str) -> pa.LargeBinaryArray:
    missing = column.isna().to_numpy()
    values = fixed_cells(column.fillna(0).to_numpy().astype(dtype))
    return (
        pc.if_else(pa.array(missing), pa.scalar(None, BINARY), values) if missing.any() else values
    )


def _vectors(column: pd.Series) -> pa.LargeBinaryArray:
    values = _matrix(to_arrow(column)) if in_arrow(column) else np.stack(column.to_numpy())
    cells = np.zeros(
        len(values),
        dtype=[("dimensions", ">i2"), ("unused", ">i2"), ("values", ">f4", values.shape[1:])],
    )
    cells["dimensions"], cells["values"] = values.shape[1], values
    return fixed_cells(cells)


def _matrix(vectors: pa.LargeListArray) -> np.ndarray:
    """A row for each vector; all have the same length."""
    return vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(vectors), -1)


def _text_arrays(lists: pa.LargeListArray) -> pa.LargeBinaryArray:
    """Arrays of one dimension; an empty one has none."""
    elements = pc.binary_join_element_wise(
        *_sized(lists.flatten().cast(BINARY)), NOTHING, null_handling="replace"
    )
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    body = _grouped(elements, lengths)
    filled = lengths > 0
    head = np.zeros((len(lists), 3), dtype=">i4")
    head[:, 0], head[:, 2] = filled, TEXT_OID
    bounds = np.ones((len(lists), 2), dtype=">i4")
    bounds[:, 0] = lengths
    bounds_where_filled = pc.if_else(pa.array(filled), fixed_cells(bounds), NOTHING)
    arrays = pc.binary_join_element_wise(fixed_cells(head), bounds_where_filled, body, NOTHING)
    return pc.if_else(lists.is_valid(), arrays, pa.scalar(None, BINARY))


def _grouped(elements: pa.LargeBinaryArray, lengths: np.ndarray) -> pa.LargeBinaryArray:
    """The elements of each list as one value: the same bytes between fewer bounds."""
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return binary_cells(offsets_of(elements)[bounds], content_buffer(elements))


def content_of(values: pa.LargeBinaryArray) -> bytes:
    offsets = offsets_of(values)
    return memoryview(content_buffer(values))[offsets[0] : offsets[-1]].tobytes()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True).encode()


ROWS_READ_AT_ONCE, BYTES_READ_AT_ONCE = 5000, 16_000_000
TEXT = pa.large_string()
BEFORE_ITEMS, BEFORE_FLOATS = 20, 4
"""Bytes of an array's and a vector's own before what they hold."""


@dataclass(frozen=True)
class CopiedRows:
    """``starts`` and ``ends``: of each row where each of its fields is in ``content``; ``missing``:
    which are null."""

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
        """The values of a field; lists and vectors in Arrow, which a vector's dimensions may differ
        in."""
        payload = self._payload(field)
        if kind == "text":
            return pd.Series(pd.array(payload.cast(TEXT), dtype="str"))
        if kind == "text[]":
            return _in_arrow(pa.array(map(_items, payload.to_pylist()), pa.large_list(TEXT)))
        if kind == "vector":
            return _in_arrow(
                pa.array(map(_floats, payload.to_pylist()), pa.large_list(pa.float32()))
            )
        if kind == "jsonb":
            return pd.Series(
                [json.loads(cell[1:]) if cell else None for cell in payload.to_pylist()],
                dtype=object,
            )
        if kind == "float8":
            return pd.Series(_read_numbers(payload, ">f8"))
        return pd.Series(
            _read_numbers(payload, ">i8"), dtype="Int64" if payload.null_count else "int64"
        )

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
    """What COPY ... TO STDOUT (FORMAT BINARY) gives, some thousands of rows at a time. A piece is a
    row, as PostgreSQL's protocol has it; the header comes with the first or by itself, the trailer
    last."""
    content = (
        bytearray()
    )  # no list of pieces, which the collector of garbage would go through time and again
    sizes: list[int] = []
    for place, piece in enumerate(pieces):
        row = piece[len(HEADER) :] if place == 0 else piece
        if len(row) <= len(TRAILER):
            continue
        content += row
        sizes.append(len(row))
        if len(sizes) == ROWS_READ_AT_ONCE or len(content) > BYTES_READ_AT_ONCE:
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
    return (
        None
        if content is None
        else np.frombuffer(content, ">f4", offset=BEFORE_FLOATS).astype(np.float32)
    )


def _read_numbers(payload: pa.LargeBinaryArray, dtype: str) -> Any:
    values = np.frombuffer(content_of(pc.fill_null(payload, bytes(8))), dtype)
    return pa.array(
        values.astype(dtype.replace(">", "<")), mask=pc.is_null(payload).to_numpy(False)
    ).to_pandas()


def _in_arrow(lists: pa.Array) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(lists))
