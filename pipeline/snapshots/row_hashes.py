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
    rows_at_once = _rows_at_once(table)
    for start in range(0, table.num_rows, rows_at_once):
        end = start + rows_at_once
        encoded_rows = _encode_rows(table.slice(start, rows_at_once))
        digests = b"".join(map(xxh3_128_digest, encoded_rows))
        digest_bytes = np.frombuffer(digests, np.uint8).reshape(-1, ROW_BYTES)
        hashes[start:end, KEY_BYTES:] = digest_bytes
    return hashes


def _rows_at_once(table: pa.Table) -> int:
    """Limit the rows that are encoded in one step, by their number and by their bytes."""
    # An empty table has no bytes; at least one row is encoded, however large it is.
    table_bytes = max(table.nbytes, 1)
    rows_within_bytes = BYTES_AT_ONCE * table.num_rows // table_bytes
    return max(1, min(ROWS_AT_ONCE, rows_within_bytes))


def table_digest(hashes: np.ndarray, schema: pa.Schema, has_key: bool) -> str:
    """Return the identity of a table as 64 hex digits.

    It is a digest over the hashes of all rows, and over the names and types of the columns.
    """
    columns = [[field.name, type_name(field.type)] for field in schema]
    digest = hashlib.sha256(json.dumps(columns).encode())
    if has_key:
        digest.update(_tree_root(hashes))
    else:
        digest_of_rows = hashlib.sha256(hashes.tobytes())
        digest.update(digest_of_rows.digest())
    return digest.hexdigest()


def numbers_of(hashes: np.ndarray, bits: int) -> np.ndarray:
    """Return the first ``bits`` bits of each row's key hash as integers; ``bits`` <= MOST_BITS."""
    first_eight_bits = hashes[:, 0].astype(np.int64)
    next_four_bits = hashes[:, 1] >> 4
    twelve_bits = (first_eight_bits << 4) | next_four_bits
    surplus_bits = MOST_BITS - bits
    return twelve_bits >> surplus_bits


def group_numbers(names: pa.ChunkedArray, bits: int) -> np.ndarray:
    """Return the first ``bits`` bits of the hash of each row's group name, as integers.

    If the group name is a text and is also the table's key, they equal ``numbers_of``. A null name
    counts as "" or "0", because verbs see null as "" or 0.
    """
    missing = "" if is_text(names.type) else "0"
    named = pc.fill_null(names.cast(STRING), missing)
    return numbers_of(_key_hashes(named), bits)


def _tree_root(hashes: np.ndarray) -> bytes:
    """Return the root of the hash tree over all rows, by digests level by level from the leaves.

    A node without rows is not computed: it counts as NOTHING_BELOW.
    """
    first_hex_digit = hashes[:, 0] >> 4
    nodes: dict[int, bytes] = {}
    # One sixteenth of the tree at a time: sorting needs as much memory again as it sorts.
    for digit in range(BRANCHES):
        in_this_sixteenth = first_hex_digit == digit
        nodes |= _leaf_digests(hashes[in_this_sixteenth])
    for _ in range(DEPTH):
        parents = {node // BRANCHES for node in nodes}
        nodes = {parent: _parent_digest(parent, nodes) for parent in parents}
    return nodes.get(0, NOTHING_BELOW)


def _parent_digest(parent: int, nodes: dict[int, bytes]) -> bytes:
    """Return the digest over the children of a node; ``nodes`` has those that have rows."""
    first_child = BRANCHES * parent
    digest = hashlib.sha256()
    for child in range(first_child, first_child + BRANCHES):
        digest.update(nodes.get(child, NOTHING_BELOW))
    return digest.digest()


def _leaf_digests(hashes: np.ndarray) -> dict[int, bytes]:
    """Return the digest of each leaf that has rows, by the number of the leaf."""
    sortable = np.ascontiguousarray(hashes).view(SORTABLE).reshape(-1)
    ordered = _sort_hashes(sortable).view(np.uint8).reshape(-1, HASH_BYTES)
    leaf_of_rows = numbers_of(ordered, MOST_BITS)
    # Sorted hashes are sorted by their leaves, so each leaf is one slice of them.
    leaves, starts = np.unique(leaf_of_rows, return_index=True)
    bounds_in_rows = np.append(starts, len(ordered))
    bounds = (bounds_in_rows * HASH_BYTES).tolist()
    content = ordered.tobytes()
    digests: dict[int, bytes] = {}
    for leaf, (start, end) in zip(leaves.tolist(), pairwise(bounds), strict=True):
        digest = hashlib.sha256(content[start:end])
        digests[leaf] = digest.digest()
    return digests


def _sort_hashes(hashes: np.ndarray) -> np.ndarray:
    """Return the hashes in byte order; ``hashes`` has the type SORTABLE.

    Integers sort many times faster than bytes. So the hashes are sorted by their first eight bytes
    as integers, and by all their bytes only where these are equal. Few are: above all equal rows.
    """
    octets = hashes.view(np.uint8).reshape(-1, HASH_BYTES)
    first_eight_bytes = np.ascontiguousarray(octets[:, :8])
    # Read with the greatest byte first, integers have the order of the bytes.
    beginnings = first_eight_bytes.view(">u8").astype(np.uint64).reshape(-1)
    order = np.argsort(beginnings)
    ordered = hashes[order]
    beginnings = beginnings[order]
    # Element i says whether hash i begins like hash i - 1; the two at the ends stay false.
    begins_alike = np.zeros(len(beginnings) + 1, bool)
    begins_alike[1:-1] = beginnings[1:] == beginnings[:-1]
    like_hash_before = begins_alike[:-1]
    like_hash_after = begins_alike[1:]
    tied = like_hash_before | like_hash_after
    ordered[tied] = np.sort(ordered[tied])
    return ordered


def in_one_alone(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the multiset difference of two tables' hashes, both ways, as two boolean masks.

    A mask marks the rows that have no equal on the other side. If one side has more copies of a
    row, only its surplus copies are marked. Only the hashes of all cells are compared; the hashes
    of keys are ignored.
    """
    codes = _number_cells(np.concatenate([left, right]))
    codes_left = codes[: len(left)]
    codes_right = codes[len(left) :]
    # The number of rows with each code. A code is less than the number of all rows.
    copies_left = np.bincount(codes_left, minlength=len(codes))
    copies_right = np.bincount(codes_right, minlength=len(codes))
    most_copies = max(copies_left.max(initial=0), copies_right.max(initial=0))
    if most_copies <= 1:
        # The usual case: no side has two equal rows, so none has a surplus.
        left_alone = copies_right[codes_left] == 0
        right_alone = copies_left[codes_right] == 0
        return left_alone, right_alone
    # As many copies of a row have an equal on the other side; the later ones are surplus.
    copies_in_both = np.minimum(copies_left, copies_right)
    left_alone = _count_equal_before(codes_left) >= copies_in_both[codes_left]
    right_alone = _count_equal_before(codes_right) >= copies_in_both[codes_right]
    return left_alone, right_alone


def _number_cells(hashes: np.ndarray) -> np.ndarray:
    """Return a number for each hash, equal where the hashes of all cells are equal.

    Each number is less than the count of the hashes. Integers sort many times faster than bytes,
    so the two halves of a hash are compared as integers.
    """
    hashes_of_cells = np.ascontiguousarray(hashes[:, KEY_BYTES:])
    halves = hashes_of_cells.view(np.uint64).reshape(-1, 2)
    first_half = halves[:, 0]
    second_half = halves[:, 1]
    order = np.argsort(first_half)
    is_new = _differs_from_previous(first_half[order])
    second_is_new = _differs_from_previous(second_half[order])
    same_first_other_second = second_is_new & ~is_new
    if same_first_other_second.any():
        # Different rows have equal first halves, so the second ones must be in order, too.
        order = np.lexsort([second_half, first_half])
        first_is_new = _differs_from_previous(first_half[order])
        second_is_new = _differs_from_previous(second_half[order])
        is_new = first_is_new | second_is_new
    codes = np.empty(len(hashes), np.int64)
    codes[order] = np.cumsum(is_new)
    return codes


def _differs_from_previous(ordered: np.ndarray) -> np.ndarray:
    """Return a mask of the values that differ from the one before; it is false for the first."""
    differs = np.zeros(len(ordered), bool)
    differs[1:] = ordered[1:] != ordered[:-1]
    return differs


def _count_equal_before(codes: np.ndarray) -> np.ndarray:
    """Return how many equal codes stand before each code."""
    # A stable sort leaves equal codes in the order in which they stand.
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    place = np.arange(len(codes))
    place_of_first_equal = np.searchsorted(ordered, ordered)
    counts = np.empty(len(codes), np.int64)
    counts[order] = place - place_of_first_equal
    return counts


def _key_hashes(column: pa.ChunkedArray) -> np.ndarray:
    """Return the first KEY_BYTES bytes of the hash of each key, zeros for null."""
    # Keys repeat, so each distinct one is hashed once.
    encoded = column.combine_chunks().dictionary_encode()
    distinct_keys = _join_sized([_payload(encoded.dictionary)])
    digests = b"".join(xxh3_64_digest(key)[:KEY_BYTES] for key in bytes_of_cells(distinct_keys))
    hashes_of_keys = np.frombuffer(digests, np.uint8).reshape(-1, KEY_BYTES)
    hash_of_null = np.zeros((1, KEY_BYTES), np.uint8)
    hashes = np.concatenate([hashes_of_keys, hash_of_null])
    position_of_null = len(hashes_of_keys)
    positions = encoded.indices.fill_null(position_of_null)
    return hashes[positions.to_numpy()]


def _encode_rows(table: pa.Table) -> Iterator[memoryview]:
    """Return the bytes of each row: the length and the content of each of its cells."""
    if not table.num_columns:
        empty_row = memoryview(b"")
        return iter([empty_row] * table.num_rows)
    payloads = [_payload(column.combine_chunks()) for column in table.columns]
    return bytes_of_cells(_join_sized(payloads))


def _payload(cells: Any) -> pa.LargeBinaryArray:
    """Return the content of each cell as bytes; a null cell stays null."""
    kind = cells.type
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if is_text(kind) or is_bytes:
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
    if is_number:
        without_nulls = pc.fill_null(cells, 0)
        values = without_nulls.to_numpy(zero_copy_only=False)
        return _restore_nulls(cells, fixed_cells(values))
    # Other types, such as dates, are rare: they go by what Python writes for them.
    encoded = [None if cell is None else repr(cell).encode() for cell in cells.to_pylist()]
    return pa.array(encoded, BINARY)


def _payload_of_lists(cells: Any) -> pa.LargeBinaryArray:
    """Return the content of each list as bytes: its items, one after the other.

    Floating point numbers all have one length. Other items are preceded by their length.
    """
    items = cells.flatten()
    lengths = pc.fill_null(pc.list_value_length(cells), 0)
    bounds = np.zeros(len(cells) + 1, np.int64)
    np.cumsum(lengths.to_numpy(zero_copy_only=False), out=bounds[1:])
    if pa.types.is_floating(items.type) and not items.null_count:
        values = np.ascontiguousarray(items.to_numpy(zero_copy_only=False))
        bounds_in_bytes = bounds * values.itemsize
        return _restore_nulls(cells, binary_cells(bounds_in_bytes, values))
    elements = _join_sized([_payload(items)])
    bounds_in_bytes = offsets_of(elements)[bounds]
    lists = binary_cells(bounds_in_bytes, content_buffer(elements))
    return _restore_nulls(cells, lists)


def _join_sized(payloads: Sequence[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    """Join columns of bytes row by row; each cell is preceded by its length, -1 for null."""
    fields: list[pa.LargeBinaryArray] = []
    for payload in payloads:
        lengths = pc.fill_null(pc.binary_length(payload), -1)
        sizes = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
        fields += [fixed_cells(sizes), payload]
    return pc.binary_join_element_wise(
        *fields, NOTHING, null_handling="replace", null_replacement=""
    )


def _restore_nulls(cells: Any, payload: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return the payload with null where a cell is null."""
    if not cells.null_count:
        return payload
    return pc.if_else(cells.is_valid(), payload, pa.scalar(None, BINARY))


def all_hashes(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the hashes of several files as one array, empty if there are no files."""
    return np.concatenate([np.zeros((0, HASH_BYTES), np.uint8), *parts])
