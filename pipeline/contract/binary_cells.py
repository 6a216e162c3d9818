"""Cells as bytes in Arrow's large_binary, made and read without a Python object for each: what rows
are hashed as, and sent to PostgreSQL as."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

BINARY = pa.large_binary()
NOTHING = pa.scalar(b"", BINARY)


def fixed_cells(values: np.ndarray) -> pa.LargeBinaryArray:
    """Rows of equal width."""
    width = values[:1].nbytes
    return binary_cells(
        np.arange(len(values) + 1, dtype=np.int64) * width, np.ascontiguousarray(values)
    )


def binary_cells(offsets: np.ndarray, content: Any) -> pa.LargeBinaryArray:
    """``offsets``: int64, one more than there are cells, of where each begins and ends in
    ``content``, a buffer."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(content)]
    return pa.LargeBinaryArray.from_buffers(BINARY, len(offsets) - 1, buffers)


def bytes_of_cells(cells: pa.LargeBinaryArray) -> Iterator[memoryview]:
    """The bytes of each cell."""
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
