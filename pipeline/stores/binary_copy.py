"""Rows in the binary format of PostgreSQL's COPY, made column by column.

Source: PostgreSQL's documentation, COPY, "Binary Format"; pgvector's vector_send.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from xxhash import xxh3_128_hexdigest

from pipeline.stores.lists import in_arrow, to_arrow

pc: Any = pyarrow.compute  # its functions are made as it is imported: type checkers see none of them

Kind = Literal["text", "text[]", "int4", "int8", "float8", "jsonb", "vector"]

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
ROWS_AT_ONCE = 10_000
TEXT_OID = 25
JSONB_VERSION = b"\x01"

BINARY = pa.large_binary()
TEXTS = pa.large_list(pa.large_string())
NOTHING = pa.scalar(b"", BINARY)


def encoded_rows(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> Iterator[pa.LargeBinaryArray]:
    """The fields of each row, each after its length, in the order of ``kinds``; some thousands of rows at a time."""
    for start in range(0, len(frame), ROWS_AT_ONCE):
        part = frame.iloc[start : start + ROWS_AT_ONCE]
        fields = [field for name, kind in kinds.items() for field in _sized(_payload(part[name], kind))]
        yield pc.binary_join_element_wise(*fields, NOTHING, null_handling="replace", null_replacement="")


def digests(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> list[str]:
    """A digest of each row: of its fields, in the order of ``kinds``."""
    return [digest for encoded in encoded_rows(frame, kinds) for digest in map(xxh3_128_hexdigest, _slices(encoded))]


def _slices(rows: pa.LargeBinaryArray) -> Iterator[memoryview]:
    """The bytes of each row."""
    bounds = offsets_of(rows).tolist()
    content = memoryview(_content_buffer(rows))
    return (content[start:end] for start, end in pairwise(bounds))


def copy_stream(
    frame: pd.DataFrame, kinds: Mapping[str, Kind], constants: Sequence[str] = ()
) -> Iterator[tuple[int, bytes]]:
    """What COPY ... (FORMAT BINARY) reads, in pieces, and how many rows are in each. ``constants``: texts that every
    row begins with."""
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
    return _fixed(lengths.astype(">i4")), payload


def _numbers(column: pd.Series, dtype: str) -> pa.LargeBinaryArray:
    missing = column.isna().to_numpy()
    values = _fixed(column.fillna(0).to_numpy().astype(dtype))
    return pc.if_else(pa.array(missing), pa.scalar(None, BINARY), values) if missing.any() else values


def _vectors(column: pd.Series) -> pa.LargeBinaryArray:
    values = _matrix(to_arrow(column)) if in_arrow(column) else np.stack(column.to_numpy())
    cells = np.zeros(len(values), dtype=[("dimensions", ">i2"), ("unused", ">i2"), ("values", ">f4", values.shape[1:])])
    cells["dimensions"], cells["values"] = values.shape[1], values
    return _fixed(cells)


def _matrix(vectors: pa.LargeListArray) -> np.ndarray:
    """A row for each vector; all have the same length."""
    return vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(vectors), -1)


def _text_arrays(lists: pa.LargeListArray) -> pa.LargeBinaryArray:
    """Arrays of one dimension; an empty one has none."""
    elements = pc.binary_join_element_wise(*_sized(lists.flatten().cast(BINARY)), NOTHING, null_handling="replace")
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    body = _grouped(elements, lengths)
    filled = lengths > 0
    head = np.zeros((len(lists), 3), dtype=">i4")
    head[:, 0], head[:, 2] = filled, TEXT_OID
    bounds = np.ones((len(lists), 2), dtype=">i4")
    bounds[:, 0] = lengths
    bounds_where_filled = pc.if_else(pa.array(filled), _fixed(bounds), NOTHING)
    arrays = pc.binary_join_element_wise(_fixed(head), bounds_where_filled, body, NOTHING)
    return pc.if_else(lists.is_valid(), arrays, pa.scalar(None, BINARY))


def _grouped(elements: pa.LargeBinaryArray, lengths: np.ndarray) -> pa.LargeBinaryArray:
    """The elements of each list as one value: the same bytes between fewer bounds."""
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return _binary(offsets_of(elements)[bounds], _content_buffer(elements))


def _fixed(values: np.ndarray) -> pa.LargeBinaryArray:
    """Rows of equal width."""
    width = values[:1].nbytes
    return _binary(np.arange(len(values) + 1, dtype=np.int64) * width, np.ascontiguousarray(values))


def _binary(offsets: np.ndarray, content: Any) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(content)]
    return pa.LargeBinaryArray.from_buffers(BINARY, len(offsets) - 1, buffers)


def offsets_of(values: pa.LargeBinaryArray) -> np.ndarray:
    buffer = values.buffers()[1]
    if not len(values) or buffer is None:
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(buffer, dtype=np.int64)[values.offset : values.offset + len(values) + 1]


def _content_buffer(values: pa.LargeBinaryArray) -> Any:
    return values.buffers()[2] or b""


def content_of(values: pa.LargeBinaryArray) -> bytes:
    offsets = offsets_of(values)
    return memoryview(_content_buffer(values))[offsets[0] : offsets[-1]].tobytes()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True).encode()
