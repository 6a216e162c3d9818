"""Encodes and decodes rows in the binary format of PostgreSQL's COPY, column by column.

Source: PostgreSQL's documentation, COPY, "Binary Format"; pgvector's vector_send.

Rows that are read are hashed in this format. Only the columns that are asked for are decoded.
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

# The functions of this module are generated at import, so type checkers see none of them.
pc: Any = pyarrow.compute

Kind = Literal["text", "text[]", "int4", "int8", "float8", "jsonb", "vector", "optional"]
"""The ways to encode a column. An ``optional`` text is for hashes only: where it is empty, a row
has the hash that it would have without the column."""

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
ROWS_AT_ONCE = 10_000
TEXT_OID = 25
JSONB_VERSION = b"\x01"

TEXTS = pa.large_list(pa.large_string())


def encoded_rows(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> Iterator[pa.LargeBinaryArray]:
    """Encode rows, some thousands at a time: one binary value for each row.

    A value holds the fields in the order of ``kinds``, each after its length.
    """
    for start in range(0, len(frame), ROWS_AT_ONCE):
        rows = frame.iloc[start : start + ROWS_AT_ONCE]
        fields: list[pa.LargeBinaryArray] = []
        for name, kind in kinds.items():
            if kind == "optional":
                fields.append(_encode_optional(rows[name]))
                continue
            payload = _encode_column(rows[name], kind)
            fields += [_encode_lengths(payload), payload]
        # The last argument is the separator.
        yield pc.binary_join_element_wise(
            *fields, NOTHING, null_handling="replace", null_replacement=""
        )


def digests(frame: pd.DataFrame, kinds: Mapping[str, Kind]) -> list[str]:
    """Return a digest of each row over its encoded fields, in the order of ``kinds``."""
    found: list[str] = []
    for encoded in encoded_rows(frame, kinds):
        found += map(xxh3_128_hexdigest, bytes_of_cells(encoded))
    return found


def copy_stream(
    frame: pd.DataFrame, kinds: Mapping[str, Kind], constants: Sequence[str] = ()
) -> Iterator[tuple[int, bytes]]:
    """Yield (number of rows, bytes): the stream that COPY ... FROM STDIN (FORMAT BINARY) reads.

    ``constants``: texts that are the first fields of every row.
    """
    yield 0, HEADER
    encoded = [text.encode() for text in constants]
    number_of_fields = len(kinds) + len(encoded)
    start = number_of_fields.to_bytes(2, "big")
    start += b"".join(len(text).to_bytes(4, "big") + text for text in encoded)
    for rows in encoded_rows(frame, kinds):
        whole = pc.binary_join_element_wise(pa.scalar(start, BINARY), rows, NOTHING)
        yield len(whole), content_of(whole)
    yield 0, TRAILER


def _encode_column(column: pd.Series, kind: Kind) -> pa.LargeBinaryArray:
    """Return the values of a column as PostgreSQL sends them, null for a missing value."""
    if kind == "text":
        return to_arrow(column, pa.large_string()).cast(BINARY)
    if kind == "text[]":
        return _encode_text_arrays(to_arrow(column, TEXTS))
    if kind == "jsonb":
        return pa.array([JSONB_VERSION + _encode_json(value) for value in column], BINARY)
    if kind == "vector":
        return _encode_vectors(column)
    return _encode_numbers(column, {"int4": ">i4", "int8": ">i8", "float8": ">f8"}[kind])


def _encode_optional(column: pd.Series) -> pa.LargeBinaryArray:
    """Return the length and the text of each cell; nothing at all for an empty text."""
    payload = _encode_column(column, "text")
    is_empty = pc.equal(payload, pa.scalar(b"", BINARY))
    # The last argument of the join is the separator.
    encoded = pc.binary_join_element_wise(
        _encode_lengths(payload), payload, NOTHING, null_handling="replace", null_replacement=""
    )
    return pc.if_else(pc.fill_null(is_empty, False), NOTHING, encoded)


def _encode_lengths(payload: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return the length of each value as four bytes; -1 for null, as the format has it."""
    lengths = pc.fill_null(pc.binary_length(payload), -1).to_numpy(zero_copy_only=False)
    return fixed_cells(lengths.astype(">i4"))


def _encode_numbers(column: pd.Series, dtype: str) -> pa.LargeBinaryArray:
    missing = column.isna().to_numpy()
    values = fixed_cells(column.fillna(0).to_numpy().astype(dtype))
    if not missing.any():
        return values
    return pc.if_else(pa.array(missing), pa.scalar(None, BINARY), values)


def _encode_vectors(column: pd.Series) -> pa.LargeBinaryArray:
    """Encode vectors, which all have the same number of dimensions."""
    if in_arrow(column):
        vectors = to_arrow(column)
        values = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(vectors), -1)
    else:
        values = np.stack(column.to_numpy())
    cells = np.zeros(
        len(values),
        dtype=[("dimensions", ">i2"), ("unused", ">i2"), ("values", ">f4", values.shape[1:])],
    )
    cells["dimensions"] = values.shape[1]
    cells["values"] = values
    return fixed_cells(cells)


def _encode_text_arrays(lists: pa.LargeListArray) -> pa.LargeBinaryArray:
    """Encode arrays of texts: of one dimension, or of no dimension if the list is empty.

    An array is three numbers of four bytes (dimensions, 0 for "no nulls", type of the items), then
    length and lower bound of the dimension, then each item after its length.
    """
    texts = lists.flatten().cast(BINARY)
    items = pc.binary_join_element_wise(
        _encode_lengths(texts), texts, NOTHING, null_handling="replace"
    )
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    # The items of a list lie side by side. So they become one value by other offsets alone.
    first_items = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    body = binary_cells(offsets_of(items)[first_items], content_buffer(items))
    is_filled = lengths > 0
    head = np.zeros((len(lists), 3), dtype=">i4")
    head[:, 0] = is_filled
    head[:, 2] = TEXT_OID
    bounds = np.ones((len(lists), 2), dtype=">i4")
    bounds[:, 0] = lengths
    bounds_where_filled = pc.if_else(pa.array(is_filled), fixed_cells(bounds), NOTHING)
    arrays = pc.binary_join_element_wise(fixed_cells(head), bounds_where_filled, body, NOTHING)
    return pc.if_else(lists.is_valid(), arrays, pa.scalar(None, BINARY))


def content_of(values: pa.LargeBinaryArray) -> bytes:
    """Return the bytes of all values, joined."""
    offsets = offsets_of(values)
    return memoryview(content_buffer(values))[offsets[0] : offsets[-1]].tobytes()


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, sort_keys=True).encode()


ROWS_READ_AT_ONCE, BYTES_READ_AT_ONCE = 5000, 16_000_000
TEXT = pa.large_string()
BEFORE_ITEMS, BEFORE_FLOATS = 20, 4
"""The number of bytes before the items of an array, and before the numbers of a vector."""


@dataclass(frozen=True)
class CopiedRows:
    """Rows as PostgreSQL has sent them.

    ``starts`` and ``ends``: the place of each field of each row in ``content``. ``missing``:
    whether the field is null. All three have the shape (rows, fields).
    """

    content: bytes
    starts: np.ndarray
    ends: np.ndarray
    missing: np.ndarray

    def digests(self, first: int) -> list[str]:
        """Return a digest of each row over its fields from ``first`` on, as ``digests`` does."""
        content = memoryview(self.content)
        # The length of a field, four bytes, stands before it.
        starts = (self.starts[:, first] - 4).tolist()
        ends = self.ends[:, -1].tolist()
        return [
            xxh3_128_hexdigest(content[start:end]) for start, end in zip(starts, ends, strict=True)
        ]

    def column(self, field: int, kind: Kind) -> pd.Series:
        """Decode a field of all rows.

        Lists and vectors are in Arrow, where vectors may have different numbers of dimensions.
        """
        payload = self._payload_of(field)
        if kind == "text":
            return pd.Series(pd.array(payload.cast(TEXT), dtype="str"))
        if kind == "text[]":
            texts = map(_decode_text_array, payload.to_pylist())
            return _as_series(pa.array(texts, pa.large_list(TEXT)))
        if kind == "vector":
            vectors = map(_decode_vector, payload.to_pylist())
            return _as_series(pa.array(vectors, pa.large_list(pa.float32())))
        if kind == "jsonb":
            # The first byte is the version of the format.
            values = [json.loads(cell[1:]) if cell else None for cell in payload.to_pylist()]
            return pd.Series(values, dtype=object)
        if kind == "float8":
            return pd.Series(_decode_numbers(payload, ">f8"))
        dtype = "Int64" if payload.null_count else "int64"
        return pd.Series(_decode_numbers(payload, ">i8"), dtype=dtype)

    def _payload_of(self, field: int) -> pa.LargeBinaryArray:
        """Return the bytes of a field of all rows, null where it is missing.

        The starts and ends of all fields are the offsets of one array over ``content``, which is
        not copied. Its values are, in turn, the bytes before a field and the field.
        """
        rows, fields = self.starts.shape
        starts_and_ends = np.stack([self.starts, self.ends], axis=2).reshape(-1)
        offsets = np.concatenate([[0], starts_and_ends])
        # No buffer says which values are null: none of them is.
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.content)]
        values = pa.LargeBinaryArray.from_buffers(BINARY, len(starts_and_ends), buffers)
        number_of_field = np.arange(rows) * fields + field
        places = 1 + 2 * number_of_field
        return values.take(pa.array(places, mask=self.missing[:, field]))


def copied(pieces: Iterable[Any], fields: int) -> Iterator[CopiedRows]:
    """Group the rows of COPY ... TO STDOUT (FORMAT BINARY), some thousands at a time.

    ``pieces``: bytes as PostgreSQL's protocol sends them, one row in each. The header comes with
    the first row or by itself, the trailer last. ``fields``: the number of fields of a row.
    """
    # One buffer, not a list of rows: the garbage collector would visit such a list again and again.
    content = bytearray()
    sizes: list[int] = []
    for place, piece in enumerate(pieces):
        row = piece[len(HEADER) :] if place == 0 else piece
        # This is the trailer, or nothing after the header.
        if len(row) <= len(TRAILER):
            continue
        content += row
        sizes.append(len(row))
        if len(sizes) == ROWS_READ_AT_ONCE or len(content) > BYTES_READ_AT_ONCE:
            yield _locate_fields(bytes(content), sizes, fields)
            content, sizes = bytearray(), []
    if sizes:
        yield _locate_fields(bytes(content), sizes, fields)


def _locate_fields(content: bytes, lengths: Sequence[int], fields: int) -> CopiedRows:
    """Find the place of each field of rows that have these lengths in bytes.

    It goes field by field, over all rows at once: where a field begins depends on the size of the
    one before.
    """
    octets = np.frombuffer(content, np.uint8)
    sizes = np.array(lengths, np.int64)
    # A row begins with two bytes for the number of its fields.
    place = np.cumsum(sizes) - sizes + 2
    starts = np.empty((len(sizes), fields), np.int64)
    ends = np.empty((len(sizes), fields), np.int64)
    missing = np.empty((len(sizes), fields), bool)
    for field in range(fields):
        size = octets[place[:, None] + np.arange(4)].view(">i4").astype(np.int64)[:, 0]
        # A null has the size -1 and no bytes.
        missing[:, field] = size < 0
        starts[:, field] = place + 4
        place = place + 4 + np.maximum(size, 0)
        ends[:, field] = place
    return CopiedRows(content, starts, ends, missing)


def _decode_text_array(content: bytes | None) -> list[bytes | None] | None:
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


def _decode_vector(content: bytes | None) -> np.ndarray | None:
    if content is None:
        return None
    return np.frombuffer(content, ">f4", offset=BEFORE_FLOATS).astype(np.float32)


def _decode_numbers(payload: pa.LargeBinaryArray, dtype: str) -> Any:
    """Decode numbers of eight bytes, given as big-endian ``dtype``; null stays null."""
    # A null has no bytes, so that eight stand in for it: all numbers are then of one size.
    filled = pc.fill_null(payload, bytes(8))
    values = np.frombuffer(content_of(filled), dtype)
    little_endian = dtype.replace(">", "<")
    is_null = pc.is_null(payload).to_numpy(False)
    return pa.array(values.astype(little_endian), mask=is_null).to_pandas()


def _as_series(lists: pa.Array) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(lists))
