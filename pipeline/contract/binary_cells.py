"""Cells as bytes in Arrow's large_binary, built and read without a Python object for each cell.
Rows are hashed and sent to PostgreSQL in this form."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

BINARY = pa.large_binary()
NOTHING = pa.scalar(b"", BINARY)


def fixed_cells(values: np.ndarray) -> pa.LargeBinaryArray:
    """Return the values as cells of equal width. ``values``: an array whose first axis counts the
    cells."""
    width = values[:1].nbytes
    offsets = np.arange(len(values) + 1, dtype=np.int64) * width
    return binary_cells(offsets, np.ascontiguousarray(values))


def binary_cells(offsets: np.ndarray, content: Any) -> pa.LargeBinaryArray:
    """Return cells that share one buffer, without a copy.

    ``offsets``: int64, one more than there are cells; cell i is the bytes of ``content``, a buffer,
    from offset i to offset i + 1.
    """
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(content)]
    return pa.LargeBinaryArray.from_buffers(BINARY, len(offsets) - 1, buffers)


def bytes_of_cells(cells: pa.LargeBinaryArray) -> Iterator[memoryview]:
    """Return an iterator over the bytes of each cell."""
    bounds = offsets_of(cells).tolist()
    content = memoryview(content_buffer(cells))
    return (content[start:end] for start, end in pairwise(bounds))


def offsets_of(values: pa.LargeBinaryArray) -> np.ndarray:
    buffer = values.buffers()[1]
    if not len(values) or buffer is None:
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(buffer, dtype=np.int64)[values.offset : values.offset + len(values) + 1]


def content_buffer(values: pa.LargeBinaryArray) -> Any:
    return values.buffers()[2] or b""
