"""Hashes of rows, and the digest over them that identifies a table.

A hash has 20 bytes. The first 4 are from the hash of the row's first key column: they give the
row's position in the order of all keys. The other 16 are from a hash of all its cells.

The digest of a table with a key is the root of a hash tree (Merkle 1987, "A digital signature
based on a conventional encryption function"). Keys whose hashes share their first 12 bits share
one of 4,096 leaves; a leaf is SHA-256 over the sorted hashes of its rows. Each node above is
SHA-256 over its sixteen children. The digest therefore does not depend on the order in which rows
arrived, nor on the files that hold them, and it can be computed bucket by bucket.

The order of a table without a key is significant: its digest is SHA-256 over its hashes in order.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from xxhash import xxh3_64_digest, xxh3_128_digest

from pipeline.contract.binary_cells import (
    BINARY,
    NOTHING,
    binary_cells,
    bytes_of_cells,
    content_buffer,
    fixed_cells,
    offsets_of,
)
from pipeline.contract.schemas import STRING, is_list, is_text, type_name

# PyArrow creates the functions of this module on import, so type checkers see none of them.
pc: Any = pyarrow.compute

KEY_BYTES, ROW_BYTES = 4, 16
HASH_BYTES = KEY_BYTES + ROW_BYTES
SORTABLE = f"S{HASH_BYTES}"
ROWS_AT_ONCE, BYTES_AT_ONCE = 10_000, 2**24
"""The most rows, and bytes of a table, that are encoded and hashed in one step."""
BRANCHES, DEPTH = 16, 3
"""Shape of the hash tree: children per node, and levels above the leaves."""
MOST_BITS = 12
"""The number of leading bits of a key's hash that select its leaf. A bucket uses at most these."""
NOTHING_BELOW = bytes(32)
"""The digest of a node of the tree that has no rows."""


def row_hashes(table: pa.Table, key: str | None) -> np.ndarray:
    """Return a hash of each row, as uint8 of shape (rows, 20).

    ``key`` is the first key column. If it is None, the first four bytes of each hash are zero.
    """
    hashes = np.zeros((table.num_rows, HASH_BYTES), np.uint8)
    if key is not None:
        hashes[:, :KEY_BYTES] = _key_hashes(table[key])
    rows_within_bytes = BYTES_AT_ONCE * table.num_rows // max(table.nbytes, 1)
    at_once = max(min(ROWS_AT_ONCE, rows_within_bytes), 1)
    for start in range(0, table.num_rows, at_once):
        encoded_rows = _encode_rows(table.slice(start, at_once))
        digests = np.frombuffer(b"".join(map(xxh3_128_digest, encoded_rows)), np.uint8)
        hashes[start : start + at_once, KEY_BYTES:] = digests.reshape(-1, ROW_BYTES)
    return hashes


def table_digest(hashes: np.ndarray, schema: pa.Schema, has_key: bool) -> str:
    """Return the identity of a table as 64 hex digits.

    It is a digest over the hashes of all rows, and over the names and types of the columns.
    """
    columns = json.dumps([[field.name, type_name(field.type)] for field in schema])
    rows = _tree_root(hashes) if has_key else hashlib.sha256(hashes.tobytes()).digest()
    return hashlib.sha256(columns.encode() + rows).hexdigest()


def numbers_of(hashes: np.ndarray, bits: int) -> np.ndarray:
    """Return the first ``bits`` bits of each row's key hash as integers; ``bits`` <= MOST_BITS."""
    first_byte = hashes[:, 0].astype(np.int64)
    half_of_second = hashes[:, 1] >> 4
    twelve_bits = first_byte << 4 | half_of_second
    return twelve_bits >> (MOST_BITS - bits)


def group_numbers(names: pa.ChunkedArray, bits: int) -> np.ndarray:
    """Return the first ``bits`` bits of the hash of each row's group name, as integers.

    If the group name is a text and is also the table's key, they equal ``numbers_of``. A null name
    counts as "" or "0", because verbs see null as "" or 0.
    """
    missing = "" if is_text(names.type) else "0"
    named = pc.fill_null(names.cast(STRING), missing)
    return numbers_of(_key_hashes(named), bits)


def _tree_root(hashes: np.ndarray) -> bytes:
    first_digit = hashes[:, 0] >> 4
    nodes: dict[int, bytes] = {}
    # One sixteenth of the tree at a time: sorting needs as much memory again as it sorts.
    for digit in range(BRANCHES):
        nodes |= _leaf_digests(hashes[first_digit == digit])
    for _ in range(DEPTH):
        parents = dict.fromkeys(node // BRANCHES for node in nodes)
        nodes = {parent: _parent_digest(parent, nodes) for parent in parents}
    return nodes.get(0, NOTHING_BELOW)


def _parent_digest(parent: int, nodes: dict[int, bytes]) -> bytes:
    children = range(BRANCHES * parent, BRANCHES * (parent + 1))
    below = b"".join(nodes.get(child, NOTHING_BELOW) for child in children)
    return hashlib.sha256(below).digest()


def _leaf_digests(hashes: np.ndarray) -> dict[int, bytes]:
    """Return the digest of each leaf that has rows, by the number of the leaf."""
    sortable = np.ascontiguousarray(hashes).view(SORTABLE).reshape(-1)
    ordered = _sort_hashes(sortable).view(np.uint8).reshape(-1, HASH_BYTES)
    leaves, starts = np.unique(numbers_of(ordered, MOST_BITS), return_index=True)
    bounds = pairwise([*starts.tolist(), len(ordered)])
    content = ordered.tobytes()
    digests: dict[int, bytes] = {}
    for leaf, (start, end) in zip(leaves.tolist(), bounds, strict=True):
        rows = content[start * HASH_BYTES : end * HASH_BYTES]
        digests[leaf] = hashlib.sha256(rows).digest()
    return digests


def _sort_hashes(hashes: np.ndarray) -> np.ndarray:
    """Return the hashes in byte order; ``hashes`` has the type SORTABLE.

    Integers sort many times faster than bytes. So the hashes are sorted by their first eight bytes
    as integers, and by all their bytes only where these are equal. Few are: above all equal rows.
    """
    octets = hashes.view(np.uint8).reshape(-1, HASH_BYTES)
    first_eight = np.ascontiguousarray(octets[:, :8]).view(">u8").astype(np.uint64).reshape(-1)
    order = np.argsort(first_eight)
    ordered, first_eight = hashes[order], first_eight[order]
    # Element i says whether hash i begins like hash i - 1; the two at the ends stay false.
    begins_alike = np.zeros(len(first_eight) + 1, bool)
    begins_alike[1:-1] = first_eight[1:] == first_eight[:-1]
    tied = begins_alike[1:] | begins_alike[:-1]
    ordered[tied] = np.sort(ordered[tied])
    return ordered


def in_one_alone(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the multiset difference of two tables' hashes, both ways, as two boolean masks.

    A mask marks the rows that have no equal on the other side. If one side has more copies of a
    row, only its surplus copies are marked. Only the hashes of all cells are compared; the hashes
    of keys are ignored.
    """
    codes = _number_cells(np.concatenate([left, right]))
    of_left, of_right = codes[: len(left)], codes[len(left) :]
    count_left = np.bincount(of_left, minlength=len(codes))
    count_right = np.bincount(of_right, minlength=len(codes))
    if count_left.max(initial=0) <= 1 and count_right.max(initial=0) <= 1:
        # The usual case: no side has two equal rows, so none has a surplus.
        return count_right[of_left] == 0, count_left[of_right] == 0
    in_both = np.minimum(count_left, count_right)
    left_alone = _count_equal_before(of_left) >= in_both[of_left]
    right_alone = _count_equal_before(of_right) >= in_both[of_right]
    return left_alone, right_alone


def _number_cells(hashes: np.ndarray) -> np.ndarray:
    """Return a number for each hash, equal where the hashes of all cells are equal.

    The numbers are less than that of the hashes. Integers sort many times faster than bytes, so
    the two halves of a hash are compared as integers.
    """
    cells = np.ascontiguousarray(hashes[:, KEY_BYTES:])
    first_half, second_half = cells.view(np.uint64).reshape(-1, 2).T
    order = np.argsort(first_half)
    differs = np.diff(first_half[order]) != 0
    halves_differ = np.diff(second_half[order]) != 0
    if (halves_differ & ~differs).any():
        # Different rows have equal first halves, so the second ones must be in order, too.
        order = np.lexsort([second_half, first_half])
        differs = (np.diff(first_half[order]) != 0) | (np.diff(second_half[order]) != 0)
    codes = np.empty(len(cells), np.int64)
    codes[order] = np.cumsum(np.append([0], differs))[: len(cells)]
    return codes


def _count_equal_before(codes: np.ndarray) -> np.ndarray:
    """Return how many equal codes stand before each code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first_equal = np.searchsorted(ordered, ordered)
    counts = np.empty(len(codes), np.int64)
    counts[order] = np.arange(len(codes)) - first_equal
    return counts


def _key_hashes(column: pa.ChunkedArray) -> np.ndarray:
    """Return the first KEY_BYTES bytes of the hash of each key, zeros for null."""
    encoded = column.combine_chunks().dictionary_encode()
    distinct = bytes_of_cells(_join_sized([_payload(encoded.dictionary)]))
    digests = b"".join(xxh3_64_digest(cell)[:KEY_BYTES] for cell in distinct)
    of_keys = np.frombuffer(digests, np.uint8).reshape(-1, KEY_BYTES)
    of_null = np.zeros((1, KEY_BYTES), np.uint8)
    of_all = np.concatenate([of_keys, of_null])
    positions = encoded.indices.fill_null(len(of_keys))
    return of_all[positions.to_numpy()]


def _encode_rows(table: pa.Table) -> Iterator[memoryview]:
    """Return the bytes of each row: the length and the content of each of its cells."""
    if not table.num_columns:
        return iter([memoryview(b"")] * table.num_rows)
    payloads = [_payload(column.combine_chunks()) for column in table.columns]
    return bytes_of_cells(_join_sized(payloads))


def _payload(cells: Any) -> pa.LargeBinaryArray:
    """Return the content of each cell as bytes; a null cell stays null."""
    kind = cells.type
    if is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return cells.cast(BINARY)
    if pa.types.is_fixed_size_list(kind):
        return _payload_of_lists(cells.cast(pa.large_list(kind.value_type)))
    if is_list(kind):
        return _payload_of_lists(cells)
    if pa.types.is_struct(kind):
        fields = [_payload(field) for field in cells.flatten()]
        return _restore_nulls(cells, _join_sized(fields))
    if pa.types.is_boolean(kind):
        return _payload(cells.cast(pa.uint8()))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = pc.fill_null(cells, 0).to_numpy(zero_copy_only=False)
        return _restore_nulls(cells, fixed_cells(values))
    encoded = [None if cell is None else repr(cell).encode() for cell in cells.to_pylist()]
    return pa.array(encoded, BINARY)


def _payload_of_lists(cells: Any) -> pa.LargeBinaryArray:
    """Return the content of each list as bytes: its items, one after the other.

    Floating point numbers all have one length. Other items are preceded by their length.
    """
    items = cells.flatten()
    lengths = pc.fill_null(pc.list_value_length(cells), 0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if pa.types.is_floating(items.type) and not items.null_count:
        values = np.ascontiguousarray(items.to_numpy(zero_copy_only=False))
        return _restore_nulls(cells, binary_cells(bounds * values.itemsize, values))
    elements = _join_sized([_payload(items)])
    lists = binary_cells(offsets_of(elements)[bounds], content_buffer(elements))
    return _restore_nulls(cells, lists)


def _join_sized(payloads: Sequence[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    """Join columns of bytes row by row; each cell is preceded by its length, -1 for null."""
    fields: list[pa.LargeBinaryArray] = []
    for payload in payloads:
        lengths = pc.fill_null(pc.binary_length(payload), -1).to_numpy(zero_copy_only=False)
        fields += [fixed_cells(lengths.astype(np.int64)), payload]
    return pc.binary_join_element_wise(
        *fields, NOTHING, null_handling="replace", null_replacement=""
    )


def _restore_nulls(cells: Any, payload: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    if not cells.null_count:
        return payload
    return pc.if_else(cells.is_valid(), payload, pa.scalar(None, BINARY))


def all_hashes(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the hashes of several files as one array, empty if there are no files."""
    return np.concatenate([np.zeros((0, HASH_BYTES), np.uint8), *parts])
