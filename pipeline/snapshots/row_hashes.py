"""The identity of a table is that of its rows: a hash stands beside each row, and a digest over
them names the table.

A hash has 20 bytes: 4 of the hash of the row's first key column, which say where in the order of
all keys it is, and 16 of all its cells. The digest of a table with a key is that of a tree (Merkle
1987, "A digital signature based on a conventional encryption function"): each of 4,096 leaves is
SHA-256 over the sorted hashes of the keys that begin alike, each node above SHA-256 over its
sixteen children. So it follows from the digests of any buckets of keys that begin alike, and
neither the order in which rows came nor the files they lie in change it. A table without a key has
an order that means something: its digest is over its hashes as they stand.
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

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

KEY_BYTES, ROW_BYTES = 4, 16
HASH_BYTES = KEY_BYTES + ROW_BYTES
SORTABLE = f"S{HASH_BYTES}"
ROWS_AT_ONCE, BYTES_AT_ONCE = 10_000, 2**24
BRANCHES, DEPTH = 16, 3
MOST_BITS = 12
"""Of a key's hash those that say which leaf, and so which bucket, its rows are in."""
NOTHING_BELOW = bytes(32)


def row_hashes(table: pa.Table, key: str | None) -> np.ndarray:
    """A hash of each row, uint8 of shape (rows, 20). ``key``: the first key column, None for a
    table without one."""
    hashes = np.zeros((table.num_rows, HASH_BYTES), np.uint8)
    if key is not None:
        hashes[:, :KEY_BYTES] = _key_hashes(table[key])
    at_once = max(min(ROWS_AT_ONCE, BYTES_AT_ONCE * table.num_rows // max(table.nbytes, 1)), 1)
    for start in range(0, table.num_rows, at_once):
        found = b"".join(map(xxh3_128_digest, _encoded(table.slice(start, at_once))))
        hashes[start : start + at_once, KEY_BYTES:] = np.frombuffer(found, np.uint8).reshape(
            -1, ROW_BYTES
        )
    return hashes


def table_digest(hashes: np.ndarray, schema: pa.Schema, has_key: bool) -> str:
    """64 hex digits over the hashes of all rows, and the names and types of the columns."""
    columns = json.dumps([[field.name, type_name(field.type)] for field in schema])
    rows = _root(hashes) if has_key else hashlib.sha256(hashes.tobytes()).digest()
    return hashlib.sha256(columns.encode() + rows).hexdigest()


def numbers_of(hashes: np.ndarray, bits: int) -> np.ndarray:
    """Of each row the first bits of its key's hash, as a number; at most MOST_BITS."""
    return (hashes[:, 0].astype(np.int64) << 4 | hashes[:, 1] >> 4) >> (MOST_BITS - bits)


def group_numbers(names: pa.ChunkedArray, bits: int) -> np.ndarray:
    """Of each row the first bits of the hash of its group's name, as a number: those of
    ``numbers_of``, where a text names the group and is the key. A name that is missing is "" or 0
    to a verb."""
    named = pc.fill_null(names.cast(STRING), "" if is_text(names.type) else "0")
    return numbers_of(_key_hashes(named), bits)


def _root(hashes: np.ndarray) -> bytes:
    branch = hashes[:, 0] >> 4
    nodes: dict[int, bytes] = {}
    for first in range(BRANCHES):  # a branch at a time: what is sorted takes as much memory again
        nodes |= _leaves(hashes[branch == first])
    for _ in range(DEPTH):
        parents = dict.fromkeys(node // BRANCHES for node in nodes)
        nodes = {
            parent: hashlib.sha256(
                b"".join(
                    nodes.get(BRANCHES * parent + child, NOTHING_BELOW) for child in range(BRANCHES)
                )
            ).digest()
            for parent in parents
        }
    return nodes.get(0, NOTHING_BELOW)


def _leaves(hashes: np.ndarray) -> dict[int, bytes]:
    octets = (
        _sorted(np.ascontiguousarray(hashes).view(SORTABLE).reshape(-1))
        .view(np.uint8)
        .reshape(-1, HASH_BYTES)
    )
    leaves, starts = np.unique(numbers_of(octets, MOST_BITS), return_index=True)
    content, bounds = octets.tobytes(), [*(starts * HASH_BYTES).tolist(), octets.size]
    return {
        leaf: hashlib.sha256(content[start:end]).digest()
        for leaf, (start, end) in zip(leaves.tolist(), pairwise(bounds), strict=True)
    }


def _sorted(hashes: np.ndarray) -> np.ndarray:
    """By their first eight bytes as numbers, which are sorted many times as fast; the few that have
    these alike, equal rows above all, by the rest."""
    first = (
        np.ascontiguousarray(hashes.view(np.uint8).reshape(-1, HASH_BYTES)[:, :8])
        .view(">u8")
        .astype(np.uint64)
    )
    order = np.argsort(first.reshape(-1))
    ordered, first = hashes[order], first.reshape(-1)[order]
    alike = np.zeros(len(first) + 1, bool)
    alike[1:-1] = first[1:] == first[:-1]
    tied = alike[1:] | alike[:-1]
    ordered[tied] = np.sort(ordered[tied])
    return ordered


def in_one_alone(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of two tables' hashes which rows have no equal in the other, as booleans; of equal rows as
    many are left as there are more of them. Where a key is hashed or not makes no difference."""
    cells = np.concatenate([left[:, KEY_BYTES:], right[:, KEY_BYTES:]])
    _, codes = np.unique(
        np.ascontiguousarray(cells).view(f"S{ROW_BYTES}").reshape(-1), return_inverse=True
    )
    of_left, of_right = codes[: len(left)], codes[len(left) :]
    both = np.minimum(
        np.bincount(of_left, minlength=len(codes)), np.bincount(of_right, minlength=len(codes))
    )
    return _occurrence(of_left) >= both[of_left], _occurrence(of_right) >= both[of_right]


def _occurrence(codes: np.ndarray) -> np.ndarray:
    """How many equal codes stand before each."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - np.searchsorted(ordered, ordered)
    return found


def _key_hashes(column: pa.ChunkedArray) -> np.ndarray:
    encoded = column.combine_chunks().dictionary_encode()
    found = b"".join(
        xxh3_64_digest(cell)[:KEY_BYTES]
        for cell in bytes_of_cells(_sized_payload(encoded.dictionary))
    )
    of_keys = np.frombuffer(found, np.uint8).reshape(-1, KEY_BYTES)
    of_keys = np.concatenate([of_keys, np.zeros((1, KEY_BYTES), np.uint8)])  # of no key
    return of_keys[encoded.indices.fill_null(len(of_keys) - 1).to_numpy()]


def _encoded(table: pa.Table) -> Iterator[memoryview]:
    """The bytes of each row: of each cell its length and its content."""
    fields = [
        part for column in table.columns for part in _sized(_payload(column.combine_chunks()))
    ]
    return bytes_of_cells(_joined(fields)) if fields else iter([memoryview(b"")] * table.num_rows)


def _payload(cells: Any) -> pa.LargeBinaryArray:
    """The content of each cell, null where there is none."""
    kind = cells.type
    if is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return cells.cast(BINARY)
    if pa.types.is_fixed_size_list(kind):
        return _lists(cells.cast(pa.large_list(kind.value_type)))
    if is_list(kind):
        return _lists(cells)
    if pa.types.is_struct(kind):
        fields = [part for field in cells.flatten() for part in _sized(_payload(field))]
        return _where_present(cells, _joined(fields))
    if pa.types.is_boolean(kind):
        return _payload(cells.cast(pa.uint8()))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _where_present(
            cells, fixed_cells(pc.fill_null(cells, 0).to_numpy(zero_copy_only=False))
        )
    return pa.array(
        [None if cell is None else repr(cell).encode() for cell in cells.to_pylist()], BINARY
    )


def _lists(cells: Any) -> pa.LargeBinaryArray:
    """Of each list its items, one after the other; numbers are as long as each other, the others
    say how long."""
    items = cells.flatten()
    lengths = pc.fill_null(pc.list_value_length(cells), 0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if pa.types.is_floating(items.type) and not items.null_count:
        values = np.ascontiguousarray(items.to_numpy(zero_copy_only=False))
        return _where_present(cells, binary_cells(bounds * values.itemsize, values))
    elements = _sized_payload(items)
    return _where_present(
        cells, binary_cells(offsets_of(elements)[bounds], content_buffer(elements))
    )


def _sized_payload(cells: Any) -> pa.LargeBinaryArray:
    return _joined(list(_sized(_payload(cells))))


def _sized(payload: pa.LargeBinaryArray) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    lengths = pc.fill_null(pc.binary_length(payload), -1).to_numpy(zero_copy_only=False)
    return fixed_cells(lengths.astype(np.int64)), payload


def _joined(fields: list[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    return pc.binary_join_element_wise(
        *fields, NOTHING, null_handling="replace", null_replacement=""
    )


def _where_present(cells: Any, payload: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return (
        pc.if_else(cells.is_valid(), payload, pa.scalar(None, BINARY))
        if cells.null_count
        else payload
    )


def all_hashes(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Those of several files."""
    return np.concatenate([np.zeros((0, HASH_BYTES), np.uint8), *parts])
